"""Answers whose scores are recorded, by kind.

They are generated from the seeds of problems and not stored. Each kind gives every answer a name. A name means the same
for every problem of a task, so the task, level, problem number and name identify a score.
"""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import count

from reasoning_env.answers.scoring import Scorer
from reasoning_env.records import Problem, ProblemRequest, ProblemSpec, Split
from reasoning_env.seeds import eval_seed, hash_int
from reasoning_env.sources.contract import Answers, Generated
from reasoning_env.workers.faster import FasterGenerators
from reasoning_env.workers.library import Library
from tests.workers.hostile import hostile_answers
from tests.workers.traps import Traps
from tools.same_problems import digest

from .honest_forms import FormClass, honest_forms
from .near_misses import (
    DENIED,
    DOUBLED,
    NEAR,
    NUMBER,
    OTHER_ANSWER,
    SIGNED,
    TWO_ANSWERS,
    in_asked_digits,
    known_answer,
    spoilt,
)

RUN_SEED = 57
"""Problem number n of a task is evaluation sample n of this seed."""
FOLLOWING = 5
"""Number of following problems that are searched for a different answer."""
DECORATIONS = 3
"""Number of decorated answers for each served problem."""


class FrozenProblem:
    """A problem of a task, by level and number. `right` is a right answer, or None if no answer is known."""

    def __init__(self, library: Library, task: str, level: float | None, number: int, run_seed: int = RUN_SEED) -> None:
        self.task = task
        self.level = level
        self.number = number
        # The solver needs long to find a plan with more moves.
        params = {"max_moves": 8} if task == "rush_hour" and level is None else {}
        self.request = ProblemRequest(task, eval_seed(run_seed, task, number), params, level)
        self._run_seed = run_seed
        self._library = library

    @cached_property
    def made(self) -> Generated:
        """The generated problem. Raises ValueError if every attempt is rejected."""
        with contextlib.redirect_stdout(io.StringIO()):  # generated programs of codeio may print
            return self._library.generate(self.request)

    @cached_property
    def right(self) -> str | None:
        return known_answer(self.task, self.made)

    @cached_property
    def scorer(self) -> Scorer:
        return self._library.scorer(self.task, self.made.params, self.made.entry, self.made.level)

    @cached_property
    def other(self) -> str:
        """A right answer to one of the following problems that differs from this problem's right answer."""
        for number in range(self.number + 1, self.number + 1 + FOLLOWING):
            answer = frozen_problem(self._library, self.task, self.level, number, self._run_seed).right
            if answer and self.right and answer.casefold() != self.right.casefold():
                return answer
        return OTHER_ANSWER


def score_or_zero(scorer: Answers, answer: str) -> float:
    """Return the score of an answer without surrounding whitespace, as the answer rule passes it; 0 if it raises."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # some verifiers print
            return scorer.score(answer.strip())
    except Exception:  # verifiers may raise any exception
        return 0.0


def is_same_score(old: str, new: str) -> bool:
    return math.isclose(float(old), float(new), rel_tol=1e-3, abs_tol=1e-6)


@lru_cache(maxsize=2000)
def frozen_problem(
    library: Library, task: str, level: float | None, number: int, run_seed: int = RUN_SEED
) -> FrozenProblem:
    """Return the cached problem that all kinds of answers share."""
    return FrozenProblem(library, task, level, number, run_seed)


def open_library() -> Library:
    """Return the library with the faster generators that workers use."""
    library = Library(None)
    FasterGenerators(library.module, library.tasks).install()
    return library


Make = Callable[[FrozenProblem, str], Mapping[str, str]]
"""Takes a problem and its right answer; returns answers by name."""


@dataclass(frozen=True)
class Kind:
    """A kind of answers: its levels, the number of problems per task and level, and the function that makes the
    answers. A kind without this function records the problems themselves.
    """

    levels: tuple[float | None, ...]
    problems: int
    make: Make | None = None

    def texts(self, problem: FrozenProblem) -> Mapping[str, str]:
        """Return the strings to be measured, by name. Raises ValueError if no problem can be served."""
        if self.make is None:
            return {"question": problem.made.question}
        return self.make(problem, problem.right) if problem.right else {}

    def measure(self, problem: FrozenProblem, text: str) -> str:
        """Return the score of an answer. For a kind without answers, return the start of the problem's digest."""
        if self.make is None:
            return digest(problem.made)[:6]
        return f"{score_or_zero(problem.scorer, text):.4g}"

    def is_same(self, old: str, new: str) -> bool:
        """Return True if two measures are equal, apart from the last digits of a score."""
        return old == new if self.make is None else is_same_score(old, new)


def _forms(problem: FrozenProblem, right: str) -> Mapping[str, str]:
    return {name: form.text for name, form in honest_forms(problem.task, right, problem.made.question).items()}


def _wrong_forms(problem: FrozenProblem, right: str) -> Mapping[str, str]:
    return _forms(problem, spoilt(right))


def _near_misses(problem: FrozenProblem, right: str) -> Mapping[str, str]:
    """Make all near misses of the right answer, including those that are still right."""
    right = in_asked_digits(problem.task, right)
    ways = {**DOUBLED, **DENIED, **NEAR}
    if NUMBER.fullmatch(right) and float(right):
        ways |= SIGNED
    made = {name: way(right, problem.other) for name, way in ways.items()}
    return {name: text for name, text in made.items() if text is not None}


def _two_answers(problem: FrozenProblem, right: str) -> Mapping[str, str]:
    return {join: join.replace("RIGHT", right).replace("OTHER", problem.other) for join in TWO_ANSWERS}


class _Unset(Traps):
    """Fixed paths and numbers in place of real traps, so that hostile answers are the same in each run."""

    def __init__(self) -> None:
        pass

    def arm(self, payload: str) -> str:
        return payload.replace("MARK", "/nowhere/mark").replace("PORT", "9").replace("SLEEP", "86400")

    def bait(self, text: str) -> str:
        return "/nowhere/bait"


def _hostile(problem: FrozenProblem, right: str) -> Mapping[str, str]:
    made = problem.made
    spec = ProblemSpec(problem.request, Split.EVAL, problem.number)
    whole = Problem(spec, made.question, made.answer, made.metadata_json, made.entry)
    named: dict[str, str] = {}
    for hostile in hostile_answers(whole, _Unset()):
        names = (f"{hostile.name} {number}" if number > 1 else hostile.name for number in count(1))
        named[next(name for name in names if name not in named)] = hostile.answer
    return named


def _served(problem: FrozenProblem, right: str) -> Mapping[str, str]:
    """Make a right and two wrong answers, and some notations of the right answer and of one wrong answer."""
    forms = honest_forms(problem.task, right, problem.made.question)
    decorated = {name: form.text for name, form in forms.items() if form.form_class is FormClass.DECORATION}
    core = {name: form.text for name, form in forms.items() if form.form_class is FormClass.CORE}
    wrong = spoilt(right)
    texts = {"right": right, "another": problem.other, "spoilt": wrong}
    texts["core"] = core[_picked(core, problem, "core")]
    for place in range(DECORATIONS):
        texts[f"decorated {place + 1}"] = decorated[_picked(decorated, problem, place)]
    wrong_forms = _forms(problem, wrong)
    texts["spoilt, decorated"] = wrong_forms[_picked(wrong_forms, problem, "spoilt")]
    return texts


def _picked(names: Iterable[str], problem: FrozenProblem, place: object) -> str:
    """Choose a name by hash, so that adding or removing other names rarely changes the choice."""
    return min(names, key=lambda name: hash_int(problem.task, problem.level, problem.number, place, name))


KINDS: Mapping[str, Kind] = {
    "forms": Kind((None, 0.5), 2, _forms),
    "wrong_forms": Kind((None, 0.5), 1, _wrong_forms),
    "near_misses": Kind((None, 0.5), 2, _near_misses),
    "two_answers": Kind((None, 0.5), 3, _two_answers),
    "hostile": Kind((None,), 1, _hostile),
    "digests": Kind((None, 0.0, 0.5, 1.0), 20),
    "served": Kind((None, 0.5), 200, _served),
}
