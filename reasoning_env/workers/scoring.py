"""Score the answers of a group on a verifier worker: deadlines, the group's budget, second tries.

An answer has a deadline of processor time, beyond which it scores 0, and a group a budget of it, beyond which the group
is not scored at all. Where the system does not tell another process's processor time (only Linux does), both are time
of the clock.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import ScoringError
from ..metrics.stats import PoolStats
from ..records import Problem, ProblemSpec, Reason, Verdict
from .fork_server import PoolSettings
from .protocol import Frame, ProtocolFault
from .worker import DeadlineExceeded, Slot, Worker, WorkerDied

logger = logging.getLogger(__name__)


@dataclass
class Group:
    """Answers to one problem, the verdicts on the first of them, and the processor time left for the others."""

    problem: Problem
    answers: Sequence[str]
    plainly: bool
    budget_s: float
    verdicts: list[Verdict] = field(default_factory=list)

    @property
    def left(self) -> Sequence[str]:
        return self.answers[len(self.verdicts) :]


class _BudgetSpent(ScoringError):
    """A group's answers take too much processor time; another try would take as much."""


class GroupScorer:
    """Scores groups; `replace` gives a slot a fresh worker, and `stats` are counted up."""

    def __init__(self, settings: PoolSettings, stats: PoolStats, replace: Callable[[Slot], Awaitable[None]]) -> None:
        self._settings = settings
        self._stats = stats
        self._replace = replace

    def group(self, problem: Problem, answers: Sequence[str], *, plainly: bool) -> Group:
        """Return a group with its whole budget: four deadlines of an answer where none is set."""
        budget_s = self._settings.scoring_budget_s or 4 * self._settings.scoring_deadline_s
        return Group(problem, answers, plainly, budget_s)

    async def score(self, slot: Slot, group: Group) -> list[Verdict]:
        """Return a verdict on each answer of a group.

        A worker that dies costs the answer it was at a second try on a fresh one; only when that one dies of the same
        answer is the answer to blame. A fault of ours is tried again once.
        """
        died_at: int | None = None
        failed = False
        while group.left:
            try:
                await self._score_with(slot.worker, group)
                continue
            except DeadlineExceeded:
                self._stats.timeouts += 1
                deadline_s = self._settings.scoring_deadline_s
                group.verdicts.append(Verdict(0.0, Reason.TIMEOUT, group.left[0], deadline_s))
            except (WorkerDied, ProtocolFault) as error:
                if isinstance(error, ProtocolFault):
                    self._stats.protocol_faults += 1
                position = len(group.verdicts)
                if position == died_at:
                    self._stats.crashes += 1
                    group.verdicts.append(Verdict(0.0, Reason.CRASH, group.left[0]))
                died_at = position
            except ScoringError as error:
                if failed or isinstance(error, _BudgetSpent):
                    await self._replace(slot)
                    raise
                failed = True
            await self._replace(slot)
        return group.verdicts

    async def _score_with(self, worker: Worker, group: Group) -> None:
        """Have a worker score what is left of a group, and add its verdicts; raises what went wrong on the way."""
        spec, answers = group.problem.spec, group.left
        request = {"task": spec.task, "params": dict(spec.params), "level": group.problem.level}
        worker.send({**request, "answers": answers, "plainly": group.plainly}, group.problem.entry)
        await self._await_task(worker, spec)
        for position, answer in enumerate(answers):
            reply = await self._await_verdict(worker, group)
            group.verdicts.append(read_verdict(reply, position, answer))
            self._stats.scored += 1

    async def _await_task(self, worker: Worker, spec: ProblemSpec) -> None:
        """Wait until a verifier worker has built its task, which is no answer's time. Raises ScoringError."""
        limit_s = self._settings.start_timeout_s
        try:
            header = (await worker.receive(limit_s)).header
            if "fault" not in header and header.get("ready") is not True:
                raise ProtocolFault(f"a verdict before the verifier worker was ready: {str(header)[:200]}")
        except DeadlineExceeded:
            raise ScoringError(f"{spec.task}: a verifier worker took over {limit_s:g} s to build the task") from None
        except (WorkerDied, ProtocolFault) as error:
            if isinstance(error, ProtocolFault):
                self._stats.protocol_faults += 1
            raise ScoringError(f"{spec.task}: a verifier worker failed before it had built the task") from error
        if "fault" in header:
            fault = str(header["fault"])[:500]
            raise ScoringError(f"{spec.task}, seed {spec.seed}: the verifier worker cannot score: {fault}")

    async def _await_verdict(self, worker: Worker, group: Group) -> Frame:
        """Wait for the verdict on a group's next answer, and take its processor time from the group's budget.

        Raises DeadlineExceeded where the answer is too slow, _BudgetSpent where the group is, and ScoringError where
        the machine gives the worker next to no time.
        """
        deadline_s = self._settings.scoring_deadline_s
        limit_s = min(deadline_s, group.budget_s)
        used_s, measure = 0.0, _stopwatch(worker)
        began = asyncio.get_running_loop().time()
        try:
            while used_s < limit_s:
                try:
                    # At least 20 ms between two measurements, however close the worker is to its deadline.
                    return await worker.receive(max(limit_s - used_s, 0.02))
                except DeadlineExceeded:
                    used_s = measure()
                waited_s = asyncio.get_running_loop().time() - began
                if used_s < limit_s and waited_s > self._settings.start_timeout_s:
                    message = f"the machine gave a verifier worker {used_s:.1f} s in {waited_s:.0f} s"
                    raise ScoringError(f"{group.problem.task}: {message}")
        finally:
            group.budget_s -= min(measure(), deadline_s)
        if limit_s == deadline_s:
            raise DeadlineExceeded
        self._stats.over_budget += 1
        spec = group.problem.spec
        message = f"{spec.task}, seed {spec.seed}: the answers take more processor time than a group may"
        logger.warning("%s; the group is dropped, see scoring_budget_s", message)
        raise _BudgetSpent(f"{message} ({len(group.verdicts)} of {len(group.answers)} were scored)")


def read_verdict(reply: Frame, position: int, answer: str) -> Verdict:
    """Return the verdict at a position. A verifier worker has read model text and may reply anything.

    Raises ProtocolFault for what no verifier worker says.
    """
    said: Any = reply.header
    score, reason, scoring_s = said.get("score"), said.get("reason"), said.get("scoring_s")
    genuine = (
        _is_number(said.get("position"), position)
        and said["position"] == position
        and _is_number(score, 1.0)
        and _is_number(scoring_s, 1e6)  # more than any deadline
        and (reason == Reason.SCORED or (reason == Reason.VERIFIER_ERROR and score == 0.0))
    )
    if not genuine:
        raise ProtocolFault(f"a verdict that cannot be one: {str(said)[:500]}")
    return Verdict(float(score), Reason(reason), answer, float(scoring_s))


def _is_number(value: Any, highest: float) -> bool:
    return type(value) in (int, float) and 0 <= value <= highest


def _stopwatch(worker: Worker) -> Callable[[], float]:
    """Return a function that tells the processor time that a worker has used since, or time of the clock."""
    now = asyncio.get_running_loop().time
    began, cpu_began_s = now(), worker.cpu_s()

    def elapsed_s() -> float:
        cpu_s = worker.cpu_s()
        if cpu_s is None or cpu_began_s is None:
            return now() - began
        return cpu_s - cpu_began_s

    return elapsed_s
