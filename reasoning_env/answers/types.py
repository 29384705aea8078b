"""Answer types: functions that read a whole answer as a value.

A type takes an answer without formatting and returns the value in the notation that the verifier expects. It returns
None for an unreadable answer, such as "not 5" or "5 or 6" for a number.

If the type returns the expected answer, the answer scores 1. The verifier scores any other value. In tasks with one
right answer, this score is always below 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ProblemData:
    """The part of a problem that answer types use: the expected answer ("" if there is none) and the metadata."""

    expected: str
    metadata: Mapping[str, Any]


AnswerType = Callable[[str, ProblemData], str | None]
"""Returns the expected answer for an equal value, other values in the verifier's notation, and None for an unreadable
answer."""


def text(*, case_counts: bool = False, blanks_count: bool = True, may_be_spelled: bool = False) -> AnswerType:
    """Make an answer type for words and sentences: any string, compared word by word.

    With `blanks_count=False`, `a b` equals `ab`. With `may_be_spelled`, a word may be spelled out: `s-u-n`. A letter
    outside ASCII never equals an ASCII letter.
    """

    def words(answer: str) -> list[str]:
        parts = answer.split() if blanks_count else list("".join(answer.split()))
        return parts if case_counts else [part.casefold() for part in parts]

    def is_right(answer: str, problem: ProblemData) -> bool:
        return words(answer) == words(problem.expected) and answer.isascii() == problem.expected.isascii()

    def read(answer: str, problem: ProblemData) -> str:
        spelled = SPELLED.fullmatch(answer) if may_be_spelled else None
        if spelled is not None:
            answer = answer.replace(spelled["joint"], "")
        return problem.expected if is_right(answer, problem) else answer

    return read


SPELLED = re.compile(r"[^\W\d_](?P<joint>-|, ?| )[^\W\d_](?:(?P=joint)[^\W\d_])*")
"""Pattern of a word that is spelled out: `s-u-n`, `s, u, n`."""


def either(word: str, otherwise: AnswerType) -> AnswerType:
    """Return an answer type that accepts `word`, in upper or lower case, or a value of the type `otherwise`."""
    return lambda answer, problem: word if answer.casefold() == word.casefold() else otherwise(answer, problem)


def yes_with(otherwise: AnswerType) -> AnswerType:
    """Make an answer type that ignores "Yes" before a list: `Yes, ["w,A1,B3"]` is read as `["w,A1,B3"]`."""
    return lambda answer, problem: otherwise(IMPLIED_YES.sub("", answer), problem)


IMPLIED_YES = re.compile(r"\Ayes[,.:;]?\s+(?=\[)", re.IGNORECASE)
JOINT = r"[,;]?\n\s*|[,;\u2192]|[-=]{1,2}>"
BLANK_JOINT = r"(?:[\s,;\u2192]|[-=]{1,2}>|\b(?:and|then)\b)+"
WORD = r"[\w'\u2019-]+"
LAST_JOINT = re.compile(r",? and (?=[^\s,;]+\Z)")
"""The "and" before the last item, as in `a, b and c`."""
QUOTED = re.compile(r"(?P<mark>[\"'`])(?P<inner>.+)(?P=mark)", re.DOTALL)


def sequence(
    token: str,
    *,
    length: int = 0,
    joint: str = BLANK_JOINT,
    write: str = " ",
    spell: Callable[[str], str] | None = None,
    case_counts: bool = True,
) -> AnswerType:
    """Make an answer type for sequences of words, moves or numbers, with or without brackets and quotes.

    - `token` and `joint`: the patterns of elements and of separators.
    - `length`: elements of this length need no separator; 0 if all elements need one.
    - `write`: the separator that the verifier expects.
    - `spell`: converts an element to the verifier's notation.
    """
    element = re.compile(token)
    side_by_side = re.compile(f"(?:{token})+") if length else None
    joints = re.compile(joint)

    def read(answer: str, problem: ProblemData) -> str | None:
        if (answer[:1], answer[-1:]) in (("[", "]"), ("(", ")"), ("{", "}")) and len(answer) > 2:
            answer = answer[1:-1].strip()
        items = joints.split(LAST_JOINT.sub(", ", answer.rstrip(" ,;\n")))
        words = [unquoted(item.strip()) for item in items]
        if side_by_side is not None and len(words) == 1 and side_by_side.fullmatch(words[0]):
            words = [words[0][start : start + length] for start in range(0, len(words[0]), length)]
        if not all(map(element.fullmatch, words)):
            return None
        written = write.join(words if spell is None else map(spell, words))
        is_right = not case_counts and written.casefold() == problem.expected.casefold()
        return problem.expected if is_right else written

    return read


def unquoted(word: str) -> str:
    """Return a word without the quotes around it; a word without quotes is returned unchanged."""
    match = QUOTED.fullmatch(word)
    return word if match is None else match["inner"]


def _parts(answer: str, between: str) -> list[str]:
    """Split an answer at the pattern `between`, after removing braces around the whole answer."""
    if answer[:1] == "{" and answer[-1:] == "}":
        answer = answer[1:-1].strip()
    return [part.strip() for part in re.split(between, answer.rstrip(" ,;\n"))]


LETTER_VALUE = re.compile(r"(?P<q>[\"']?)([A-Z])(?P=q)\s?(?:=|:|->|\u2192)\s?(?P<r>[\"']?)(\d)(?P=r)")
"""A letter and its digit: `A = 1`, `A: 1`, `"A": "1"`."""


def letter_values(answer: str, problem: ProblemData) -> str | None:
    """Read pairs of a letter and a digit, as in `A=1,B=2`."""
    found = [LETTER_VALUE.fullmatch(part) for part in _parts(answer, r"[,;]?\n|[,;]|\band\b|(?<=\d)\s(?=[A-Z])")]
    pairs = {match[2]: match[4] for match in found if match}
    return ",".join(map("=".join, pairs.items())) if len(pairs) == len(found) else None


CLAIM = re.compile(
    r"(?:and\s+)?(?P<q>[\"']?)(?P<name>[^\s.,;:()\"']+)(?P=q)"
    r"(?:\s+is|\s?(?::|=|->|\u2192)|\s[-\u2013\u2014]|\s(?=\())\s?(?P<bracket>\()?(?P<r>[\"']?)(?:(?:an?|the)\s)?(?P<role>\w+)(?P=r)"
    r"(?(bracket)\))",
    re.IGNORECASE,
)
"""A name and a role: `Ann is a saint`, `Ann: saint`, `"Ann": "saint"`, `Ann (a saint)`."""


def claims(answer: str, problem: ProblemData) -> str | None:
    """Read one claim about each person in the question: `Ann is a saint, and Bob is a sinner.`"""
    terms = problem.metadata["knight_knave_terms"]
    roles = {str(terms[term]).casefold(): str(terms[f"a_{term}"]) for term in ("knight", "knave")}
    names = {str(name).casefold(): str(name) for name in problem.metadata["names"]}
    parts = _parts(answer.removesuffix("."), r"[.,;]?\n|[,;]|\.\s|\sand\s")
    found = [CLAIM.fullmatch(part) for part in parts if part]
    claimed = {match["name"].casefold(): match["role"].casefold() for match in found if match}
    if len(claimed) < len(found) or claimed.keys() != names.keys() or not roles.keys() >= {*claimed.values()}:
        return None
    truths = [claimed[name] == str(terms["knight"]).casefold() for name in names]
    if truths == [bool(truth) for truth in problem.metadata["solution"]]:
        return problem.expected
    return ", and ".join(f"{names[name]} is {roles[role]}" for name, role in claimed.items())
