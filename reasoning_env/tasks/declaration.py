"""The class of task declarations. A declaration says how problems of one task are generated, served and scored.

`serving.py` applies the fields that change problems.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ..answers import boards, numbers, types
from ..answers.rules import AnswerRules, Dataset, Entry
from ..answers.shortcuts import choice, is_copied

MANY_QUESTIONS = 10_000
"""A task's number of different questions is measured only up to this limit (`tools/pools.py`)."""
QUESTION_LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Levels at which the number of different questions of each task was measured."""
SHOWN_LEVELS = (0.0, 0.5, 1.0)
"""Levels at which the command `tasks` shows parameters, and at which the parameters of a user's task are checked."""

A_BOARD = AnswerRules(boards.board)
A_NUMBER = AnswerRules(numbers.number)
A_TEXT = AnswerRules(types.text())
"""A_BOARD, A_NUMBER and A_TEXT are the answer rules of many tasks, for answers that are boards, numbers or words."""
BOTH_OPTIONS = "the library's verifier accepts an answer that names both options"


@dataclass(frozen=True)
class FieldLevels:
    """Levels that replace the library's levels of one config field or of a range, easiest first.

    A range has two fields, for its lower and its upper bound. A level of a range is a pair of numbers, or one number
    for both fields. `reason` says what is wrong with the library's levels.
    """

    fields: tuple[str, ...]
    levels: Sequence[object]
    reason: str
    drawn: bool = False
    """True: the seed picks one of the two nearest `levels`. False: numbers between two `levels` are interpolated."""


@dataclass(frozen=True)
class Clarification:
    """A change of the question that removes an ambiguity.

    - `ambiguity`: what is unclear in the library's question.
    - `wording`: what the clarified question adds. Braces mark a word that depends on the problem, and ` / ` separates
      additions to different questions.
    - `rewrite`: returns the clarified question of an entry. It returns a clear question unchanged.
    """

    ambiguity: str
    wording: str
    rewrite: Callable[[Entry, Dataset], str]


def replacing(old: str, new: str) -> Callable[[Entry, Dataset], str]:
    """Return a rewriter that replaces the first occurrence of `old` in the question by `new`."""
    return lambda entry, dataset: str(entry["question"]).replace(old, new, 1)


def added(ambiguity: str, wording: str, *, after: str) -> Clarification:
    """Return a clarification that inserts the sentence `wording` into the question, right after the words `after`."""
    return Clarification(ambiguity, wording, replacing(after, f"{after} {wording}"))


Corrected = tuple[str | None, Mapping[str, object]]
"""The right answer (None if several are right), and the changed metadata that the library's verifier reads."""


class Cause(StrEnum):
    """Why a problem is rejected and replaced by another. The values appear in metrics and reports."""

    WRONG = "wrong"
    """The expected answer is wrong, or the question has two meanings."""
    COPIED = "copied"
    """The answer is a part of the question."""
    EASY = "easy"
    """A simple rule solves the problem without the reasoning that the task tests."""
    FREQUENT = "frequent"
    """The answer is right for too many problems of the task."""


@dataclass(frozen=True)
class RejectionRule:
    """A rule that rejects entries for which `applies` returns True. `reason` completes a sentence after "because".

    `served` is the share of these entries, in [0, 1], that is served anyway. Choose the largest share at which the
    shortcuts of `audit` (answers made without reasoning) score below their bound.
    """

    cause: Cause
    reason: str
    applies: Callable[[Entry], bool]
    served: float = 0.0


def wrong(reason: str, applies: Callable[[Entry], bool]) -> RejectionRule:
    """Return a rule that rejects entries whose expected answer is wrong, or whose question has two meanings."""
    return RejectionRule(Cause.WRONG, reason, applies)


def easy(reason: str, applies: Callable[[Entry], bool], *, served: float = 0.0) -> RejectionRule:
    """Return a rule that rejects too easy entries, but keeps a fraction `served` of them."""
    return RejectionRule(Cause.EASY, reason, applies, served)


def copied(*, served: float = 0.0) -> RejectionRule:
    """Return a rule that rejects entries whose answer is in the question, but keeps a fraction `served` of them."""
    return RejectionRule(
        Cause.COPIED,
        "the right answer can be copied from the question",
        lambda entry: is_copied(str(entry["question"]), str(entry["answer"])),
        served,
    )


def frequent(answer: str, *, served: float) -> RejectionRule:
    """Return a rule that rejects entries with the right answer `answer`, but keeps a fraction `served` of them."""
    return RejectionRule(
        Cause.FREQUENT,
        f"{answer} is the right answer to too many problems of the task",
        lambda entry: entry["answer"] == answer,
        served,
    )


@dataclass(frozen=True)
class FailureRule:
    """Errors that the library raises if it cannot make a problem from a seed. `reason` says why this happens."""

    errors: tuple[type[BaseException], ...]
    reason: str


@dataclass(frozen=True)
class Replacement:
    """Faster functions for one module of the library, or for the modules of a package.

    - `installer`: the function of `workers/faster/` that installs the faster functions, as `module.function`.
    - `fingerprint`: the first 16 hexadecimal digits of the SHA-256 of the module's files. Files with another hash keep
      the library's functions.
    """

    module: str
    fingerprint: str
    installer: str


def chosen_option(entry: Entry) -> str:
    """Return the right option: the right answer in lower case, or the value that fills a board's only empty cell."""
    return choice(str(entry["question"]), str(entry["answer"]))


@dataclass(frozen=True)
class Task:
    """Everything about one task. By default, problems, levels and answers are the library's own."""

    name: str
    category: str
    """The library's category of the task."""

    # How many questions there are
    has_small_pool: bool = False
    """True if two of 3,000 random seeds gave the same question with the default parameters. So the task probably has
    fewer than five million questions."""
    question_counts: tuple[int | None, ...] = (None,) * (1 + len(QUESTION_LEVELS))
    """Number of different questions with the library's defaults, then at each of QUESTION_LEVELS, as measured by
    `tools/pools.py`. None means MANY_QUESTIONS or more. Missing levels were too slow to measure. A task without levels
    has one number."""

    # How the library generates problems
    levels: tuple[FieldLevels, ...] | None = ()
    """Replacements for levels of the library. The replaced levels fail, take seconds to minutes, give wrong answers, or
    make problems no harder. None if the library's levels change nothing. The task then has no levels."""
    served_params: Mapping[str, object] = field(default_factory=dict)
    """Parameters that apply unless the user or a level sets them. With the library's defaults, most problems would be
    rejected, or questions would reveal their answers."""
    constructor_uses_seed: bool = False
    """True if the constructor of the task's dataset uses the seed."""
    constructor_params: tuple[str, ...] | None = None
    """Parameters that the constructor of the task's dataset reads; None for all. Given only for slow constructors."""
    class_data: str = ""
    """The class attribute in which the constructor stores the data that it loads; "" if there is none."""
    preview: Callable[[Dataset, int], Entry] | None = None
    """Returns the part of an entry that needs no slow computation. If a rule rejects this part, the problem is not
    generated. Only slow tasks have a preview."""
    reads_clock: bool = False
    """True if a problem may depend on the time or on today's date. The generator then runs with a frozen clock."""
    failure: FailureRule | None = None
    """The errors that the library raises if it cannot make a problem from a seed; None if no such errors are known."""
    faster: Replacement | None = None
    """Faster functions that replace a slow generator and make the same problems."""

    # Which problems are served, and how their questions are worded
    rejected: tuple[RejectionRule, ...] = ()
    """Rules that reject problems of this task. `serving.find_flaw` also rejects every problem whose answer is empty."""
    right_answer: Callable[[Entry, Dataset], Corrected] | None = None
    """Computes the right answer if the library's answer is wrong. docs/defects.md quotes the first line of the
    function's docstring, which must say what the right answer is."""
    clarification: Clarification | None = None
    """The change that makes the task's questions unambiguous; None if they are not ambiguous."""
    options: int = 0
    """Number of options of a multiple-choice task; 0 if answers are open."""
    option: Callable[[Entry], str] = chosen_option
    """Returns the option that is the right answer of an entry, in lower case."""

    # How answers are scored
    answer_leak: str = ""
    """How the task's questions reveal their answers; "" if they do not. Training leaves out tasks with a leak."""
    verifier_flaw: str = ""
    """Which wrong answers the library's verifier rewards; "" if none. Strict rewards do not reward these answers."""
    answer: AnswerRules = field(default_factory=AnswerRules)
    """How answers are parsed and scored."""
    scores_without_params: bool = False
    """True lets one dataset score all answers. Set if building datasets is slow and verifiers read no parameters."""
