"""Answers whose scores are frozen, by kind: all are made again from the seeds of problems, and none is stored.

A kind gives each answer to a problem a name. A name says the same of every problem of a task, so that a score is found
by task, level, number of the problem, and name.
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
"""Problem n of a task is evaluation sample n of this seed."""
FOLLOWING = 5
"""Number of problems after a problem among which another answer is looked for."""
DECORATIONS = 3
"""Number of decorated answers to a served problem."""


class FrozenProblem:
    """A problem by its number: `right` is a right answer, None where no answer is known."""

    def __init__(self, library: Library, task: str, level: float | None, number: int, run_seed: int = RUN_SEED) -> None:
        self.task = task
        self.level = level
        self.number = number
        # A plan with more moves is not found at once.
        params = {"max_moves": 8} if task == "rush_hour" and level is None else {}
        self.request = ProblemRequest(task, eval_seed(run_seed, task, number), params, level)
        self._run_seed = run_seed
        self._library = library

    @cached_property
    def made(self) -> Generated:
        """The problem. Raises ValueError where none may be served."""
        with contextlib.redirect_stdout(io.StringIO()):  # the programs of codeio print
            return self._library.generate(self.request)

    @cached_property
    def right(self) -> str | None:
        return known_answer(self.task, self.made)

    @cached_property
    def scorer(self) -> Scorer:
        return self._library.scorer(self.task, self.made.params, self.made.entry, self.made.level)

    @cached_property
    def other(self) -> str:
        """A right answer to one of the following problems that is another one."""
        for number in range(self.number + 1, self.number + 1 + FOLLOWING):
            answer = frozen_problem(self._library, self.task, self.level, number, self._run_seed).right
            if answer and self.right and answer.casefold() != self.right.casefold():
                return answer
        return OTHER_ANSWER


def score_or_zero(scorer: Answers, answer: str) -> float:
    """Return the score of an answer as the answer rule passes it on, without blanks around it."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # some verifiers print
            return scorer.score(answer.strip())
    except Exception:  # verifiers raise anything
        return 0.0


def is_same_score(old: str, new: str) -> bool:
    return math.isclose(float(old), float(new), rel_tol=1e-3, abs_tol=1e-6)


@lru_cache(maxsize=2000)
def frozen_problem(
    library: Library, task: str, level: float | None, number: int, run_seed: int = RUN_SEED
) -> FrozenProblem:
    """Return a problem that all kinds of answers share."""
    return FrozenProblem(library, task, level, number, run_seed)


def open_library() -> Library:
    """Return the library with the fast generators of workers."""
    library = Library(None)
    FasterGenerators(library.module, library.tasks).install()
    return library


Make = Callable[[FrozenProblem, str], Mapping[str, str]]
"""Returns answers to a problem by name, from the problem and its right answer."""


@dataclass(frozen=True)
class Kind:
    """A kind of answers, and the problems of each task that it is made for: so many at each level.

    A kind without answers freezes the problems themselves.
    """

    levels: tuple[float | None, ...]
    problems: int
    make: Make | None = None

    def texts(self, problem: FrozenProblem) -> Mapping[str, str]:
        """Return the texts that are measured, by name. Raises ValueError where no problem may be served."""
        if self.make is None:
            return {"question": problem.made.question}
        return self.make(problem, problem.right) if problem.right else {}

    def measure(self, problem: FrozenProblem, text: str) -> str:
        """Return the score of an answer; of a question, the start of its problem's digest."""
        if self.make is None:
            return digest(problem.made)[:6]
        return f"{score_or_zero(problem.scorer, text):.4g}"

    def is_same(self, old: str, new: str) -> bool:
        """Tell whether two measures are the same, but for the last digits of a score."""
        return old == new if self.make is None else is_same_score(old, new)


def _forms(problem: FrozenProblem, right: str) -> Mapping[str, str]:
    return {name: form.text for name, form in honest_forms(problem.task, right, problem.made.question).items()}


def _wrong_forms(problem: FrozenProblem, right: str) -> Mapping[str, str]:
    return _forms(problem, spoilt(right))


def _near_misses(problem: FrozenProblem, right: str) -> Mapping[str, str]:
    """Make the near misses in every way, those included that leave the answer right."""
    right = in_asked_digits(problem.task, right)
    ways = {**DOUBLED, **DENIED, **NEAR}
    if NUMBER.fullmatch(right) and float(right):
        ways |= SIGNED
    made = {name: way(right, problem.other) for name, way in ways.items()}
    return {name: text for name, text in made.items() if text is not None}


def _two_answers(problem: FrozenProblem, right: str) -> Mapping[str, str]:
    return {join: join.replace("RIGHT", right).replace("OTHER", problem.other) for join in TWO_ANSWERS}


class _Unset(Traps):
    """Traps that are not there: their names are the same in each run."""

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
    """Make a right and two wrong answers, and some of the forms of the right one and of a wrong one."""
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
    """Return a name that stays the same while others come and go."""
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
