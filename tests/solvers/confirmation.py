"""Check a model's answer with a solver, by value, using only the text of the question."""

from __future__ import annotations

import contextlib
import re
from fractions import Fraction

from .contract import AmbiguousError, UnsolvedError
from .logic import Premises
from .table import TABLE

SIGNS = "\u00ac\u2227\u2228\u2192\u2194"
"""Not, and, or, implies, if and only if."""
TIMES = "\u00d7"


def confirms(task: str, question: str, answer: str) -> bool:
    """Return True if the solver of the task confirms the answer; False if it cannot solve the question."""
    if task == "propositional_logic":
        return _is_conclusion(question, answer)
    solve = TABLE[task].solve
    assert solve is not None
    try:
        solution = solve(question)
    except (AmbiguousError, UnsolvedError):
        return False
    if task == "prime_factorization":
        only_factors = re.fullmatch(rf"\d+(\s*[{TIMES}x*]\s*\d+)*", answer)
        return only_factors is not None and _factors(answer) == _factors(solution.answer)
    rights = (solution.answer, *solution.others)
    number = _number(answer)
    if task == "coin_flip":
        return number is not None and _is_rounded(answer, number, Fraction(solution.others[0]))
    if number is not None:
        return number in map(_number, rights)
    return answer.casefold() in {right.casefold() for right in rights}


def _factors(text: str) -> list[str]:
    return sorted(re.findall(r"\d+", text))


def _number(text: str) -> Fraction | None:
    # Reject exponents, because huge powers would take practically for ever.
    if re.fullmatch(r"-?\d{1,40}(\.\d{1,40}|/0*[1-9]\d{0,40})?", text) is None:
        return None
    return Fraction(text)


def _is_rounded(answer: str, number: Fraction, exact: Fraction) -> bool:
    """Return True if a number is the exact value, or the value rounded to at least three significant digits."""
    digits = answer.partition(".")[2]
    return number == exact or (len(digits.lstrip("0")) >= 3 and number == round(exact, len(digits)))


def _is_conclusion(question: str, answer: str) -> bool:
    if not re.fullmatch(r"[()A-Z\s" + SIGNS + r"]{1,200}", answer):
        return False
    with contextlib.suppress(IndexError, KeyError, UnsolvedError):  # not a formula of the premises' letters
        return Premises(question).conclude(answer)
    return False
