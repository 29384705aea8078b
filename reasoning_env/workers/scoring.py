"""Jobs for verifier workers, and whose turn it is: slow answers do not keep quick ones waiting.

A job is a problem with the answers of one group. It waits in the quick lane, or in the slow lane when its task was slow
lately. Of the workers at most half, but at least one, serve the slow lane while there are quick jobs, so that these
always find a worker. Slow jobs take turns by answer. A quick job that turns out to be slow gives its worker up as soon
as others wait, and goes on in the slow lane; the answer that it was at begins anew.

Everything here runs on the event loop's thread.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..records import Problem, Verdict

SLOW_S = 0.3
"""Processor time from which an answer is slow; a worker that is killed for it costs its successor about a second."""
RECENT_S = 60.0
"""For how long a task that was slow counts as slow."""
SECOND_TRY_SHARE = 0.1
"""The share of the deadline that an answer gets which looks like one that timed out."""

_DECORATION = re.compile(r"[\s()\[\]{}]+")


@dataclass(eq=False)
class ScoringJob:
    """What is to be scored, and how far that has come: one verdict for each of the first answers."""

    problem: Problem
    answers: Sequence[str]
    result: asyncio.Future[list[Verdict]]
    slow: bool
    plainly: bool = False
    """Whether it is scored as the library's own evaluation does."""
    in_slow_lane: bool = False
    """Whether its turn counts against the share of the slow lane."""
    verdicts: list[Verdict] = field(default_factory=list)
    died_at: int | None = None
    """The position of the answer of which a worker died last."""
    faulty: bool = False
    """Whether a fault of ours has cost this job a worker."""
    timed_out: set[str] = field(default_factory=set)

    @property
    def left(self) -> Sequence[str]:
        return self.answers[len(self.verdicts) :]

    def note_timeout(self, answer: str) -> None:
        self.timed_out.add(_DECORATION.sub("", answer))

    def deadline_s(self, answer: str, full_s: float) -> float:
        """Return what an answer gets: less when only blanks and brackets tell it from one that timed out."""
        return full_s * SECOND_TRY_SHARE if _DECORATION.sub("", answer) in self.timed_out else full_s


class ScoringQueue:
    """Hands out jobs to verifier workers, of which there are `workers`."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._quick: deque[ScoringJob] = deque()
        self._slow: deque[ScoringJob] = deque()
        self._slow_under_way = 0
        self._slow_is_next = False
        self._slow_until: dict[str, float] = {}
        self._quick_until = 0.0
        self._changed = asyncio.Event()

    @property
    def waiting(self) -> int:
        """Jobs that wait for a worker."""
        return len(self._quick) + len(self._slow)

    def put(self, problem: Problem, answers: Sequence[str], *, plainly: bool = False) -> asyncio.Future[list[Verdict]]:
        """Take a job; cancelling the future gives it up."""
        loop = asyncio.get_running_loop()
        slow = self._slow_until.get(problem.task, 0.0) > loop.time()
        job = ScoringJob(problem, answers, loop.create_future(), slow, plainly)
        if slow:
            self._slow.append(job)
        else:
            self._quick.append(job)
            self._quick_until = loop.time() + RECENT_S
        self._changed.set()
        return job.result

    async def take(self) -> ScoringJob:
        """Return the job whose turn it is; `end_turn` has to follow."""
        while (job := self._next()) is None:
            self._changed.clear()
            await self._changed.wait()
        return job

    def end_turn(self, job: ScoringJob) -> None:
        """Put a job back that is not done."""
        self._slow_under_way -= job.in_slow_lane
        job.in_slow_lane = False
        if not job.result.done():
            self._slow.append(job)
        self._changed.set()

    def must_yield(self, job: ScoringJob) -> bool:
        """Tell whether others are to have the worker of a slow answer at once."""
        if job.in_slow_lane:
            return bool(self._quick) and self._slow_under_way > self._slow_share()
        return self.waiting > 0

    def note_slow(self, job: ScoringJob) -> None:
        """Serve a job, and for a while all of its task, in the slow lane."""
        job.slow = True
        self._slow_until[job.problem.task] = asyncio.get_running_loop().time() + RECENT_S

    def fail(self, error: Exception) -> None:
        """Fail everything that waits."""
        for lane in (self._quick, self._slow):
            for job in lane:
                if not job.result.done():
                    job.result.set_exception(error)
            lane.clear()

    def _next(self) -> ScoringJob | None:
        for lane in (self._quick, self._slow):
            while lane and lane[0].result.done():  # its caller is gone
                lane.popleft()
        if self._slow and self._slow_under_way < self._slow_share() and (self._slow_is_next or not self._quick):
            job = self._slow.popleft()
            job.in_slow_lane = True
            self._slow_is_next = False
            self._slow_under_way += 1
            return job
        self._slow_is_next = True
        return self._quick.popleft() if self._quick else None

    def _slow_share(self) -> int:
        """Return how many workers may serve the slow lane: all where no quick job has come for a while."""
        quick_lately = self._quick_until > asyncio.get_running_loop().time()
        return max(1, self._workers // 2) if quick_lately else self._workers
