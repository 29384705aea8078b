"""Probe verifiers: generate problems of each task, score their probes, and tally what each kind earned.

A problem's text and answers are kept only while its own task is probed. Every verdict counts, also those of verifiers
that failed, which score 0.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tqdm import tqdm

from ..errors import GenerationError, ScoringError
from ..records import Problem, ProblemSpec, Reason, Verdict
from ..tasks.sampling import evaluation_spec
from .probes import ROLES, Role, make_probes

HIGH_SCORE = 0.5
"""What a meaningless answer must earn to count as paid for."""
MOST = 0.5
"""More than this share of a task's problems is most of them."""
GENERATION_DEADLINE_S = 20.0
GENERATION_FAILURES = 3
"""After so many a task is probed with what was generated until then."""
TASKS_AT_ONCE = 6
"""Enough to keep all workers busy, few enough to bound what is kept in memory."""
ESCAPED = (Reason.VERIFIER_ERROR, Reason.TIMEOUT, Reason.CRASH)


class Workers(Protocol):
    """The part of the worker pool that probing uses."""

    async def generate(self, spec: ProblemSpec, deadline_s: float) -> Problem: ...

    async def score(self, problem: Problem, answers: Sequence[str]) -> list[Verdict]: ...


@dataclass
class Tally:
    """What one kind of probe earned over a task's problems; `best` is the first of its best verdicts, with its seed."""

    scores: list[float] = field(default_factory=list)
    reasons: Counter[Reason] = field(default_factory=Counter)
    slowest_s: float = 0.0
    best: Verdict | None = None
    best_seed: int = 0

    def add(self, verdict: Verdict, seed: int) -> None:
        self.scores.append(verdict.score)
        self.reasons[verdict.reason] += 1
        self.slowest_s = max(self.slowest_s, verdict.scoring_s)
        if self.best is None or verdict.score > self.best.score:
            self.best, self.best_seed = verdict, seed

    @property
    def mean(self) -> float:
        return sum(self.scores) / len(self.scores)

    @property
    def paid(self) -> int:
        """On how many problems it earned at least HIGH_SCORE."""
        return sum(score >= HIGH_SCORE for score in self.scores)


@dataclass(frozen=True)
class TaskAudit:
    """One task's results over `items` problems: a tally of each kind of probe, and why further problems are missing."""

    task: str
    items: int
    tallies: Mapping[str, Tally]
    failures: tuple[str, ...] = ()

    @property
    def offences(self) -> list[str]:
        """Meaningless kinds that are paid for on most problems, the worst first."""
        return [kind for kind in self._worst_first() if self.share(kind) > MOST]

    @property
    def worst(self) -> str | None:
        """The meaningless kind that is paid for on most problems and, among equals, best; None when all earn 0."""
        return next((kind for kind in self._worst_first() if self.tallies[kind].mean > 0), None)

    @property
    def slowest_s(self) -> float:
        return max((tally.slowest_s for tally in self.tallies.values()), default=0.0)

    @property
    def escaped(self) -> dict[Reason, int]:
        """How many answers the verifier could not cope with, by the way in which it failed."""
        return {reason: sum(tally.reasons[reason] for tally in self.tallies.values()) for reason in ESCAPED}

    def share(self, kind: str) -> float:
        """The share of the problems on which a kind is paid for; where it is the right answer it counts as not paid."""
        return self.tallies[kind].paid / self.items if kind in self.tallies else 0.0

    def _worst_first(self) -> list[str]:
        kinds = [kind for kind, role in ROLES.items() if role is Role.DEGENERATE and kind in self.tallies]
        return sorted(kinds, key=lambda kind: (-self.tallies[kind].paid, -self.tallies[kind].mean))


async def audit_tasks(
    workers: Workers, tasks: Sequence[str], params: Mapping[str, Mapping[str, Any]], *, items: int, seed: int
) -> list[TaskAudit]:
    """Probe tasks with `items` problems each, with a progress bar; `params` are those of the tasks that need some.

    One result a task, in order. Raises WorkerError when there are no workers any more.
    """
    limit = asyncio.Semaphore(TASKS_AT_ONCE)
    with tqdm(total=len(tasks), desc="audit", unit="task", mininterval=1.0) as progress:

        async def run(task: str) -> TaskAudit:
            async with limit:
                specs = [evaluation_spec(task, k, 0, run_seed=seed, params=params.get(task)) for k in range(items)]
                audit = await audit_task(workers, task, specs)
            progress.update()
            return audit

        running = [asyncio.ensure_future(run(task)) for task in tasks]
        try:
            return await asyncio.gather(*running)
        finally:
            for one in running:
                one.cancel()
            await asyncio.gather(*running, return_exceptions=True)


async def audit_task(workers: Workers, task: str, specs: Sequence[ProblemSpec]) -> TaskAudit:
    """Probe one task with the problems of its specs; what cannot be generated or scored is left out and told."""
    problems: list[Problem] = []
    failures: list[str] = []
    for spec in specs:
        try:
            problem = await workers.generate(spec, GENERATION_DEADLINE_S)
        except GenerationError as error:
            failures.append(str(error))
            if len(failures) == GENERATION_FAILURES:
                break
        else:
            if problem.flaw is None:  # flawed problems are never served
                problems.append(problem)
    tallies: defaultdict[str, Tally] = defaultdict(Tally)
    items = 0
    for problem, probes in zip(problems, make_probes(problems), strict=True):
        try:
            verdicts = await workers.score(problem, [probe.answer for probe in probes])
        except ScoringError as error:
            failures.append(str(error))
            continue
        items += 1
        for probe, verdict in zip(probes, verdicts, strict=True):
            tallies[probe.kind].add(verdict, problem.spec.seed)
    return TaskAudit(task, items, dict(tallies), tuple(failures))
