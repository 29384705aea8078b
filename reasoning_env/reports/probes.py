"""The answers with which a verifier is probed: the right one, nearly right ones, and ones that know nothing.

Everything here is a pure function of a task's problems, in order. Where a meaningless answer happens to be a problem's
right one, that problem is not probed with it.
"""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ..records import Problem

LONG_BYTES = 20_000
"""Length of the longest probes: the largest answer that the environment's own default lets through to a verifier."""
FEW_OPTIONS = 8
"""Tasks with at most this many different right answers can be answered by listing them all."""
EXAMPLE_KEYS = ("example_answer", "example_correct_answer", "possible_answer")
"""Where tasks without a single right answer keep one of many in their metadata."""

ORACLE = "oracle"
PERTURBED = "perturbed oracle"
TRAILED = "oracle and garbage"
MOST_FREQUENT = "most frequent answer"
BLANK = "blank"
TAGGED = "junk in answer tags"
QUESTION = "the question"
NEIGHBOUR = "another problem's answer"
ALL_OPTIONS = "every option"
LISTED = "the question's first listed line"
NANS = "nan for every number"
ZEROS = "0 for every number"

NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")
WORD = re.compile(r"[^\W\d_]{2,}")
LISTED_LINE = re.compile(r"\W*\d+[.):]\s+(\S.*)")

JUNK = "qwxz"
CONSTANTS: Mapping[str, str] = {
    **{text: text for text in ("0", "1", "nan", "inf", "I don't know", "True False", "yes no", "[]", "{}", '""')},
    "a dot": ".",
    "a dash": "-",
    "20 kB of words": ("the quick brown fox jumps over the lazy dog " * LONG_BYTES)[:LONG_BYTES].strip(),
    "20 kB of digits": ("1234567890" * LONG_BYTES)[:LONG_BYTES],
}


class Role(StrEnum):
    """What a high score for a probe says about the verifier."""

    REFERENCE = "reference"
    """It pays for the right answer, or for one that is close to it."""
    DEGENERATE = "degenerate"
    """It pays for an answer that shows no knowledge of the problem: a fault."""
    UNREACHABLE = "unreachable"
    """The same, for text that the answer rule refuses, so that no completion can bring it to a verifier."""
    GUESS = "guess"
    """The task's answers are unevenly spread, and one of them is a good guess; the verifier may be right."""


ROLES: Mapping[str, Role] = {
    ORACLE: Role.REFERENCE,
    PERTURBED: Role.REFERENCE,
    TRAILED: Role.REFERENCE,
    MOST_FREQUENT: Role.GUESS,
    BLANK: Role.UNREACHABLE,
    TAGGED: Role.UNREACHABLE,
    **dict.fromkeys(CONSTANTS, Role.DEGENERATE),
    QUESTION: Role.DEGENERATE,
    NEIGHBOUR: Role.DEGENERATE,
    ALL_OPTIONS: Role.DEGENERATE,
    LISTED: Role.DEGENERATE,
    NANS: Role.DEGENERATE,
    ZEROS: Role.DEGENERATE,
}
"""Every kind of probe, in the order in which reports list them."""


@dataclass(frozen=True)
class Probe:
    """One answer to one problem; `kind` is a key of ROLES."""

    kind: str
    answer: str


def make_probes(problems: Sequence[Problem]) -> list[list[Probe]]:
    """The probes of each of one task's problems, in the order of the problems."""
    oracles = [reference_answer(problem) for problem in problems]
    known = [oracle for oracle in oracles if oracle is not None]
    shared = {BLANK: " ", TAGGED: f"<answer>{JUNK}</answer>", **CONSTANTS}
    options = sorted(set(known))
    if 2 <= len(options) <= FEW_OPTIONS:
        # The shortest way to name them all: some verifiers pay by the share of the text that is right.
        shared[ALL_OPTIONS] = " ".join(options)
    made = []
    for position, (problem, oracle) in enumerate(zip(problems, oracles, strict=True)):
        ignorant = {**shared, **_from_question(problem.question)}
        probes: list[Probe] = []
        if oracle is not None:
            probes += _informed(oracle, known)
            ignorant |= _from_layout(oracle)
            others = [other for other in (oracles[position:] + oracles[:position]) if other not in (None, oracle)]
            if others and others[0] is not None:
                ignorant[NEIGHBOUR] = others[0]
        probes += [Probe(kind, answer) for kind, answer in ignorant.items() if not _equal(answer, oracle)]
        made.append(probes)
    return made


def reference_answer(problem: Problem) -> str | None:
    """The oracle's answer or, where many are right, the metadata's example of one; None where there is neither."""
    if problem.answer is not None:
        return problem.answer
    metadata = json.loads(problem.metadata_json)
    if isinstance(metadata, dict):
        for key in EXAMPLE_KEYS:
            if metadata.get(key) is not None:
                example = metadata[key]
                return example if isinstance(example, str) else json.dumps(example)
    return None


def perturb(answer: str) -> str:
    """The answer with its last digit or letter changed to the next one; text without any gets a letter appended."""
    for position in range(len(answer) - 1, -1, -1):
        for alphabet in (string.digits, string.ascii_lowercase, string.ascii_uppercase):
            place = alphabet.find(answer[position])
            if place >= 0:
                changed = alphabet[(place + 1) % len(alphabet)]
                return answer[:position] + changed + answer[position + 1 :]
    return answer + "x"


def _informed(oracle: str, known: Sequence[str]) -> list[Probe]:
    probes = [Probe(ORACLE, oracle), Probe(PERTURBED, perturb(oracle)), Probe(TRAILED, f"{oracle} {JUNK}")]
    frequent, count = Counter(known).most_common(1)[0]
    return [*probes, Probe(MOST_FREQUENT, frequent)] if count > 1 else probes


def _from_question(question: str) -> dict[str, str]:
    """What can be copied from a question without understanding it."""
    copied = {QUESTION: _cut(question.strip())}
    listed = next(filter(None, map(LISTED_LINE.fullmatch, question.splitlines())), None)
    if listed is not None:
        copied[LISTED] = _cut(listed[1].strip())
    return copied


def _from_layout(oracle: str) -> dict[str, str]:
    """Answers in the form that a question asks for, without content; nothing for answers that are mostly words."""
    if len(NUMBER.findall(oracle)) <= len(WORD.findall(oracle)):
        return {}
    return {NANS: NUMBER.sub("nan", oracle), ZEROS: NUMBER.sub("0", oracle)}


def _equal(answer: str, oracle: str | None) -> bool:
    return oracle is not None and answer.strip().casefold() == oracle.strip().casefold()


def _cut(text: str) -> str:
    return text.encode("utf-8", "replace")[:LONG_BYTES].decode("utf-8", "ignore")
