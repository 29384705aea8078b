"""The declaration of a task: all that is known of one task of the library, and all that is done for it.

The families beside this module hold the declarations, each next to the functions that it names. `serving.py` carries
out what they say of problems.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ..answers import boards, numbers, types
from ..answers.rules import AnswerRules, Dataset, Entry
from ..answers.shortcuts import choice, is_copied

MANY_QUESTIONS = 10_000
"""A task with at least this many different questions has enough. If 300 draws do not repeat, there are this many with a
confidence of 99 % (`tools/pools.py`)."""
QUESTION_LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Levels at which the different questions of a task were counted."""
SHOWN_LEVELS = (0.0, 0.5, 1.0)
"""Levels at which the parameters of a task are shown, and those of a user's task are checked."""

A_BOARD = AnswerRules(boards.board)
A_NUMBER = AnswerRules(numbers.number)
A_TEXT = AnswerRules(types.text())
"""The rules of answers that many tasks share."""
BOTH_OPTIONS = "naming both options contains the right one"


@dataclass(frozen=True)
class FieldLevels:
    """Levels that replace the library's levels of one field of a config, or of a range; the easiest comes first.

    A range has a lower and an upper field. A level of a range is one number for both, or a pair of bounds. Between two
    levels, numbers are interpolated, unless the levels are `drawn`.
    """

    fields: tuple[str, ...]
    levels: Sequence[object]
    reason: str
    drawn: bool = False
    """Between two levels, the seed draws one of the two: for few values, which rounding would leave unused steps."""


@dataclass(frozen=True)
class Clarification:
    """Makes a question that can be read in several ways unambiguous.

    - `ambiguity` names what the library's question leaves open.
    - `wording` is the text that the clarified question adds; braces mark a word that depends on the problem.
    - `rewrite` returns the clarified question of an entry. It returns the question unchanged if the question is already
      clear, or if its wording is not the library's.
    """

    ambiguity: str
    wording: str
    rewrite: Callable[[Entry, Dataset], str]


def replacing(old: str, new: str) -> Callable[[Entry, Dataset], str]:
    """Return a rewriter that puts `new` in the place of `old` where it stands first."""
    return lambda entry, dataset: str(entry["question"]).replace(old, new, 1)


def added(ambiguity: str, wording: str, *, after: str) -> Clarification:
    """Return a clarification that inserts the sentence `wording` after the text `after` of the question."""
    return Clarification(ambiguity, wording, replacing(after, f"{after} {wording}"))


Corrected = tuple[str | None, Mapping[str, object]]
"""The right answer, None where many are right; and the metadata that the library's verifier reads and that change."""


class Cause(StrEnum):
    """Why a problem is drawn again: the words of metrics and reports."""

    WRONG = "wrong"
    """Its expected answer is wrong, or its question has two meanings."""
    COPIED = "copied"
    """Its answer is a part of the question."""
    EASY = "easy"
    """A simple rule solves it, which is not the task's own method."""
    FREQUENT = "frequent"
    """Its answer is right too often."""


@dataclass(frozen=True)
class RejectionRule:
    """Entries that must not be served: `applies` tells which. `reason` completes a sentence after "because".

    `served` is the share of these entries that is served all the same, each by its seed's hash: as many as keep the
    policy that solves them within its bound.
    """

    cause: Cause
    reason: str
    applies: Callable[[Entry], bool]
    served: float = 0.0


def wrong(reason: str, applies: Callable[[Entry], bool]) -> RejectionRule:
    """Reject entries whose expected answer is wrong, or whose question has two meanings."""
    return RejectionRule(Cause.WRONG, reason, applies)


def easy(reason: str, applies: Callable[[Entry], bool], *, served: float = 0.0) -> RejectionRule:
    """Reject entries that a simple rule solves, but for a share."""
    return RejectionRule(Cause.EASY, reason, applies, served)


def copied(*, served: float = 0.0) -> RejectionRule:
    """Reject entries whose answer a copy gives, but for a share."""
    return RejectionRule(
        Cause.COPIED,
        "a part of the question is the right answer",
        lambda entry: is_copied(str(entry["question"]), str(entry["answer"])),
        served,
    )


def frequent(answer: str, *, served: float) -> RejectionRule:
    """Reject entries with the answer that is right most often, but for a share."""
    return RejectionRule(
        Cause.FREQUENT, f"its answer is {answer}, as of too many", lambda entry: entry["answer"] == answer, served
    )


@dataclass(frozen=True)
class FailureRule:
    """Errors with which the library ends on some seeds, and why such a seed has no problem."""

    errors: tuple[type[BaseException], ...]
    reason: str


@dataclass(frozen=True)
class Replacement:
    """Faster functions for a module of the library, or for the modules of a package.

    `installer` names the function of `workers/faster/` that installs them, as `module.function`.
    The argument that all problems stay the same rests on the files of this module; `fingerprint` is the first 16 digits
    of their SHA-256.
    """

    module: str
    fingerprint: str
    installer: str


def chosen_option(entry: Entry) -> str:
    """Return the right answer, in lower case; where the question has a single blank, the content of the blank."""
    return choice(str(entry["question"]), str(entry["answer"]))


@dataclass(frozen=True)
class Task:
    """All about one task. By default the library's problems, levels and answers stay as they are."""

    name: str
    category: str
    """The library's category of the task."""

    # How many questions there are
    has_small_pool: bool = False
    """It has fewer than about five million questions: among 3,000 random seeds at the defaults, one came twice."""
    question_counts: tuple[int | None, ...] = (None,) * (1 + len(QUESTION_LEVELS))
    """Different questions at the defaults and at each of QUESTION_LEVELS, by `python -m tools.pools`; None for
    MANY_QUESTIONS or more. Levels behind the last were not measured, since problems take long to make; a task without
    levels has one number."""

    # How the library makes them
    levels: tuple[FieldLevels, ...] | None = ()
    """Levels in place of the library's, at which the library cannot build problems, takes seconds to minutes, makes
    wrong answers, or makes nothing harder. None where its levels change nothing: the task counts as one without."""
    served_params: Mapping[str, object] = field(default_factory=dict)
    """Parameters of served problems, where neither the user nor a level sets any: with the library's own, most problems
    are rejected, or the question gives its answer away."""
    constructor_uses_seed: bool = False
    """The constructor of its dataset consumes the seed."""
    constructor_params: tuple[str, ...] | None = None
    """The only parameters that its constructor reads, where construction is slow; None where it may read all."""
    class_data: str = ""
    """The attribute of its class in which its constructor keeps the loaded data."""
    preview: Callable[[Dataset, int], Entry] | None = None
    """Returns what is known of an entry before it is made, where that takes long: what is rejected is not made."""
    reads_clock: bool = False
    """It runs code that may read the time, or writes today's date; the clock stands still meanwhile."""
    failure: FailureRule | None = None
    """Seeds on which the library ends with an error, and that have no problem."""
    faster: Replacement | None = None
    """Faster functions in place of its slow generator, for the same problems."""

    # Which problems are served, and how they are asked
    rejected: tuple[RejectionRule, ...] = ()
    """Problems that must not be served; `serving.find_flaw` has the rules for all tasks."""
    right_answer: Callable[[Entry, Dataset], Corrected] | None = None
    """Computes the right answer where the library's is wrong. The first line of its docstring says what is right."""
    clarification: Clarification | None = None
    """Makes an ambiguous question unambiguous."""
    options: int = 0
    """The number of answers to choose from; 0 for open answers."""
    option: Callable[[Entry], str] = chosen_option
    """Returns which of its options an entry's right answer is, in lower case."""

    # What answers earn
    answer_leak: str = ""
    """How a question reveals its answer, in whatever way problems are drawn: training leaves the task out."""
    verifier_flaw: str = ""
    """Nonsense that the library's verifier pays for; strict rewards correct it."""
    answer: AnswerRules = field(default_factory=AnswerRules)
    """How its answers are read and judged."""
    scores_without_params: bool = False
    """Its constructor loads much data that its verifier does not read."""
