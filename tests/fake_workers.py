"""A worker pool without processes. Functions make the problems and verdicts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from reasoning_env.errors import GenerationError
from reasoning_env.records import Problem, ProblemSpec, Reason, Verdict

from .records import problem_of


def is_the_answer(problem: Problem, answer: str) -> Verdict:
    return Verdict(float(answer == problem.answer), Reason.SCORED, answer, 0.001)


def ask(spec: ProblemSpec) -> Problem:
    """Make a problem whose question depends on the seed, because an evaluation repeats no question."""
    return problem_of(spec, f"What is 1 + 1? Think of {spec.seed}, too.")


def no_luck(spec: ProblemSpec) -> Problem:
    raise GenerationError(f"{spec.task}, position {spec.index}: no luck")


def fails_where(
    condition: Callable[[ProblemSpec], bool], make: Callable[[ProblemSpec], Problem] = ask
) -> Callable[[ProblemSpec], Problem]:
    return lambda spec: no_luck(spec) if condition(spec) else make(spec)


class FakeWorkers:
    """Records all requests in `specs` and `asked`. The functions `make` and `verify` may raise."""

    def __init__(
        self,
        make: Callable[[ProblemSpec], Problem] = ask,
        verify: Callable[[Problem, str], Verdict] = is_the_answer,
    ) -> None:
        self.specs: list[ProblemSpec] = []
        self.asked: list[tuple[Problem, list[str]]] = []
        self._make, self._verify = make, verify

    async def generate(self, spec: ProblemSpec, deadline_s: float, *, cpu_s: float | None = None) -> Problem:
        self.specs.append(spec)
        await asyncio.sleep(0)
        return self._make(spec)

    async def score(self, problem: Problem, answers: Sequence[str], *, plainly: bool = False) -> list[Verdict]:
        self.asked.append((problem, list(answers)))
        return [self._verify(problem, answer) for answer in answers]
