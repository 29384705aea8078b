"""Types of answers: what a text must be, as a whole, to be a value of the task's kind.

A type is a function from a text, without frames, to the verifier's notation of its value; None where the text is no
such value. Full marks are paid for the right answer's notation, and where many answers are right, for what the verifier
pays for the notation. Nothing is searched for in a text. A denial, a second answer or a sign beside an answer is no
value, without a rule of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Asked:
    """What a type knows of a problem: the expected answer ("" if there is none) and the metadata."""

    right: str
    metadata: Mapping[str, Any]


AnswerType = Callable[[str, Asked], str | None]
"""Returns the verifier's notation of the value that a text is, the expected answer if it is right; else None."""


def text(*, case_counts: bool = False, blanks_count: bool = True, may_be_spelled: bool = False) -> AnswerType:
    """The type of words and sentences: any text, compared word by word, or letter by letter where blanks do not count.

    A single word may be spelled, as in `s-u-n`, where the question asks for its letters.
    A letter beyond ASCII never stands for one of ASCII.
    """

    def words(said: str) -> list[str]:
        parts = said.split() if blanks_count else list("".join(said.split()))
        return parts if case_counts else [part.casefold() for part in parts]

    def is_right(said: str, asked: Asked) -> bool:
        return words(said) == words(asked.right) and said.isascii() == asked.right.isascii()

    def read(said: str, asked: Asked) -> str:
        spelled = SPELLED.fullmatch(said) if may_be_spelled else None
        if spelled is not None:
            said = said.replace(spelled["joint"], "")
        return asked.right if is_right(said, asked) else said

    return read


SPELLED = re.compile(r"[^\W\d_](?P<joint>-|, ?| )[^\W\d_](?:(?P=joint)[^\W\d_])*")
"""The letters of a word: `s-u-n`, `s, u, n`."""


def either(word: str, otherwise: AnswerType) -> AnswerType:
    """The type of answers that are one word, such as `infeasible` in any case, or else of another type."""
    return lambda said, asked: word if said.casefold() == word.casefold() else otherwise(said, asked)


def yes_with(otherwise: AnswerType) -> AnswerType:
    """The type of answers of another type with or without the Yes that they imply: `Yes, ["w,A1,B3"]`."""
    return lambda said, asked: otherwise(IMPLIED_YES.sub("", said), asked)


IMPLIED_YES = re.compile(r"\Ayes[,.:;]?\s+(?=\[)", re.IGNORECASE)
JOINT = r"[,;]?\n\s*|[,;\u2192]|[-=]{1,2}>"
BLANK_JOINT = r"(?:[\s,;\u2192]|[-=]{1,2}>|\b(?:and|then)\b)+"
WORD = r"[\w'\u2019-]+"
LAST_JOINT = re.compile(r",? and (?=[^\s,;]+\Z)")
"""The conjunction of `a, b and c`."""
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
    """The type of words, moves or numbers in order: each matches `token`, and only joints stand between them.

    The whole may stand in brackets, and each element in quotes. Elements that all have `length` characters may stand
    side by side. `spell` writes an element as the verifier wants it.
    """
    element = re.compile(token)
    side_by_side = re.compile(f"(?:{token})+") if length else None
    joints = re.compile(joint)

    def read(said: str, asked: Asked) -> str | None:
        if (said[:1], said[-1:]) in (("[", "]"), ("(", ")"), ("{", "}")) and len(said) > 2:
            said = said[1:-1].strip()
        items = joints.split(LAST_JOINT.sub(", ", said.rstrip(" ,;\n")))
        words = [_unquoted(item.strip()) for item in items]
        if side_by_side is not None and len(words) == 1 and side_by_side.fullmatch(words[0]):
            words = [words[0][start : start + length] for start in range(0, len(words[0]), length)]
        if not all(map(element.fullmatch, words)):
            return None
        written = write.join(words if spell is None else map(spell, words))
        is_right = not case_counts and written.casefold() == asked.right.casefold()
        return asked.right if is_right else written

    return read


def _unquoted(word: str) -> str:
    match = QUOTED.fullmatch(word)
    return word if match is None else match["inner"]


def _parts(said: str, between: str) -> list[str]:
    """Return what a text, in braces or not, has between some separators."""
    if said[:1] == "{" and said[-1:] == "}":
        said = said[1:-1].strip()
    return [part.strip() for part in re.split(between, said.rstrip(" ,;\n"))]


LETTER_VALUE = re.compile(r"(?P<q>[\"']?)([A-Z])(?P=q)\s?(?:=|:|->|\u2192)\s?(?P<r>[\"']?)(\d)(?P=r)")
"""A letter and its digit: `A = 1`, `A: 1`, `"A": "1"`."""


def letter_values(said: str, asked: Asked) -> str | None:
    """The type of `A=1,B=2`: each letter has one digit."""
    found = [LETTER_VALUE.fullmatch(part) for part in _parts(said, r"[,;]?\n|[,;]|\band\b|(?<=\d)\s(?=[A-Z])")]
    pairs = {match[2]: match[4] for match in found if match}
    return ",".join(map("=".join, pairs.items())) if len(pairs) == len(found) else None


CLAIM = re.compile(
    r"(?:and\s+)?(?P<q>[\"']?)(?P<name>[^\s.,;:()\"']+)(?P=q)"
    r"(?:\s+is|\s?(?::|=|->|\u2192)|\s[-\u2013\u2014]|\s(?=\())\s?(?P<bracket>\()?(?P<r>[\"']?)(?:(?:an?|the)\s)?(?P<role>\w+)(?P=r)"
    r"(?(bracket)\))",
    re.IGNORECASE,
)
"""A name and a role: `Ann is a saint`, `Ann: saint`, `"Ann": "saint"`, `Ann (a saint)`."""


def claims(said: str, asked: Asked) -> str | None:
    """The type of `Ann is a saint, and Bob is a sinner.`: one claim about each person of the question."""
    terms = asked.metadata["knight_knave_terms"]
    roles = {str(terms[term]).casefold(): str(terms[f"a_{term}"]) for term in ("knight", "knave")}
    names = {str(name).casefold(): str(name) for name in asked.metadata["names"]}
    parts = _parts(said.removesuffix("."), r"[.,;]?\n|[,;]|\.\s|\sand\s")
    found = [CLAIM.fullmatch(part) for part in parts if part]
    said_roles = {match["name"].casefold(): match["role"].casefold() for match in found if match}
    if len(said_roles) < len(found) or said_roles.keys() != names.keys() or not roles.keys() >= {*said_roles.values()}:
        return None
    truths = [said_roles[name] == str(terms["knight"]).casefold() for name in names]
    if truths == [bool(truth) for truth in asked.metadata["solution"]]:
        return asked.right
    return ", and ".join(f"{names[name]} is {roles[role]}" for name, role in said_roles.items())
