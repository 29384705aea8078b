"""Attacks on verifier workers with hostile answers, one after the other."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from reasoning_env.records import Problem, ProblemSpec, Split, Verdict
from reasoning_env.workers.pool import WorkerPool

from .hostile import Hostile, ordinary_answer

GENERATION_DEADLINE_S = 30.0


@dataclass(frozen=True)
class Target:
    """A problem with an ordinary answer to it and the score that this earns."""

    problem: Problem
    ordinary: str
    score: float


@dataclass(frozen=True)
class Attack:
    """What came of one hostile answer: its verdict, or what reached the caller.

    `harmed` names the tasks whose ordinary answers earned another score afterwards.
    """

    target: Target
    hostile: Hostile
    verdict: Verdict | None = None
    harmed: tuple[str, ...] = ()
    error: str = ""

    def __str__(self) -> str:
        if self.verdict is None:
            outcome = self.error
        else:
            outcome = f"{self.verdict.score:g}, {self.verdict.reason.value}, {self.verdict.scoring_s:.2f} s"
        harm = f", harms {', '.join(self.harmed)}" if self.harmed else ""
        task, hostile = self.target.problem.task, self.hostile
        return f"{task}: {hostile.kind.value}, {hostile.name}: {outcome}{harm}: {hostile.answer[:60]!r}"

    @property
    def undeserved(self) -> bool:
        return self.verdict is not None and self.verdict.score > self.hostile.most


async def make_target(pool: WorkerPool, task: str, seed: int = 1) -> Target:
    """A problem that may be served, with what its ordinary answer earns."""
    problem = await pool.generate(ProblemSpec(task, seed, Split.TRAIN, 0), GENERATION_DEADLINE_S)
    ordinary = ordinary_answer(problem)
    (verdict,) = await pool.score(problem, [ordinary])
    return Target(problem, ordinary, verdict.score)


async def attack(pool: WorkerPool, target: Target, hostile: Hostile, witness: Target) -> Attack:
    """Score a hostile answer, then the ordinary ones to another task and to the same, all with one verifier worker."""
    try:
        (verdict,) = await pool.score(target.problem, [hostile.answer])
        others = (witness, target)
        verdicts = await asyncio.gather(*(pool.score(other.problem, [other.ordinary]) for other in others))
    except Exception as error:  # whatever it is, it is a finding
        return Attack(target, hostile, error=f"{type(error).__name__}: {error}")
    harmed = (
        other.problem.task for other, (after,) in zip(others, verdicts, strict=True) if after.score != other.score
    )
    return Attack(target, hostile, verdict, tuple(harmed))
