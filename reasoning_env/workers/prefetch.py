"""A stream of ready problems, generated ahead of demand and handed out in order.

Position k of the stream is always the same draw. A position whose problem is late holds up nobody: after a short
patience the ones behind it are handed out, and it follows as soon as it is there. A position whose generation fails is
drawn again, a task that keeps failing is quarantined, and a flawed problem is replaced by another of its task.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import GenerationError, WorkerError
from ..records import Problem, ProblemSpec

logger = logging.getLogger(__name__)

PATIENCE_S = 0.1
"""How long the next position in order is waited for while later ones are ready."""


MAX_FLAWED = 100
"""Flawed problems of one position after which its task counts as failing, and another is drawn."""


class Generator(Protocol):
    """The part of the worker pool that a stream uses."""

    async def generate(self, spec: ProblemSpec, deadline_s: float) -> Problem: ...


class Sampler(Protocol):
    """Chooses what to generate; pure but for the quarantine, which `quarantine` extends.

    `redraw` gives another problem of the same task.
    """

    def draw(self, index: int, attempt: int) -> ProblemSpec: ...

    def redraw(self, spec: ProblemSpec) -> ProblemSpec: ...

    def quarantine(self, task: str) -> None: ...


@dataclass(frozen=True)
class StreamStats:
    """`ready` problems wait to be handed out; `flawed` ones were drawn again because they must not be served, and
    `passed_over` counts positions that came late and out of order."""

    ready: int
    served: int
    failures: int
    flawed: int
    passed_over: int
    quarantined: tuple[str, ...]


class ProblemStream:
    """Keeps `depth` positions of the stream generated or under way; `next` hands them out.

    A task is quarantined after `quarantine_after` failures in a row, each a raised error or a missed `deadline_s`.
    Problems that `avoid` says yes to are drawn again. `state` is what `state()` returned in an earlier run.
    """

    def __init__(
        self,
        generator: Generator,
        sampler: Sampler,
        *,
        depth: int,
        deadline_s: float,
        quarantine_after: int,
        avoid: Callable[[Problem], Awaitable[bool]] | None = None,
        state: Mapping[str, Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._generator = generator
        self._sampler = sampler
        self._depth = depth
        self._deadline_s = deadline_s
        self._quarantine_after = quarantine_after
        self._avoid = avoid
        self._clock = clock
        self._next_index: int = state["next_index"] if state else 0
        self._owed: deque[int] = deque(state["owed"] if state else ())
        self._pending: dict[int, asyncio.Task[Problem]] = {}
        self._turn = asyncio.Lock()
        self._head_waited_since: tuple[int, float] | None = None
        self._failures_in_a_row: Counter[str] = Counter()
        self._quarantined: list[str] = list((state or {}).get("quarantined", ()))
        for task in self._quarantined:
            sampler.quarantine(task)
        self._served = 0
        self._failures = 0
        self._flawed = 0
        self._passed_over = 0

    def start(self) -> None:
        """Begin to generate; called by `next` where it was not called before."""
        while len(self._pending) < self._depth:
            if self._owed:
                index = self._owed.popleft()
            else:
                index, self._next_index = self._next_index, self._next_index + 1
            task = asyncio.create_task(self._fill(index))
            task.add_done_callback(_retrieve)
            self._pending[index] = task

    async def next(self) -> Problem:
        """The next problem. Raises GenerationError when every task is quarantined, WorkerError without workers."""
        async with self._turn:
            self.start()
            index = await self._choose()
            task = self._pending.pop(index)
            self.start()
        self._served += 1
        return task.result()

    async def close(self) -> None:
        """Stop generating; what was ready and not handed out is dropped, since the same positions give it again."""
        for task in self._pending.values():
            task.cancel()
        await asyncio.gather(*self._pending.values(), return_exceptions=True)
        self._pending.clear()

    def state(self) -> dict[str, Any]:
        """What a later stream needs to go on from here: the next new position, those begun but not handed out, and the
        tasks that are not drawn any more."""
        return {
            "next_index": self._next_index,
            "owed": [*self._pending, *self._owed],
            "quarantined": list(self._quarantined),
        }

    @property
    def stats(self) -> StreamStats:
        return StreamStats(
            ready=sum(task.done() for task in self._pending.values()),
            served=self._served,
            failures=self._failures,
            flawed=self._flawed,
            passed_over=self._passed_over,
            quarantined=tuple(self._quarantined),
        )

    async def _choose(self) -> int:
        """The first position in order or, where that is late by more than the patience, the first that is ready."""
        while True:
            head = next(iter(self._pending))
            if self._pending[head].done():
                return head
            if self._head_waited_since is None or self._head_waited_since[0] != head:
                self._head_waited_since = (head, self._clock())
            patience_left = self._head_waited_since[1] + PATIENCE_S - self._clock()
            if patience_left <= 0:
                for index, task in self._pending.items():
                    if task.done():
                        self._passed_over += 1
                        return index
                await asyncio.wait(list(self._pending.values()), return_when=asyncio.FIRST_COMPLETED)
            else:
                await asyncio.wait([self._pending[head]], timeout=patience_left)

    async def _fill(self, index: int) -> Problem:
        spec = self._sampler.draw(index, 0)
        flaws = 0
        while True:
            try:
                problem = await self._generator.generate(spec, self._deadline_s)
            except GenerationError as error:
                self._record_failure(spec, error)
                spec = self._sampler.draw(index, spec.attempt + 1)
                continue
            flaw = problem.flaw
            if flaw is None and self._avoid is not None and await self._avoid(problem):
                flaw = "the evaluation set asks the same"
            if flaw is None:
                self._failures_in_a_row.pop(spec.task, None)
                return problem
            self._flawed += 1
            logger.debug("%s, seed %d is drawn again: %s", spec.task, spec.seed, flaw)
            flaws += 1
            if flaws % MAX_FLAWED:
                spec = self._sampler.redraw(spec)
            else:
                self._record_failure(spec, GenerationError(f"{MAX_FLAWED} flawed problems in a row: {flaw}"))
                spec = self._sampler.draw(index, spec.attempt + 1)

    def _record_failure(self, spec: ProblemSpec, error: GenerationError | WorkerError) -> None:
        self._failures += 1
        self._failures_in_a_row[spec.task] += 1
        logger.debug("position %d is drawn again: %s", spec.index, error)
        if self._failures_in_a_row[spec.task] == self._quarantine_after and spec.task not in self._quarantined:
            self._quarantined.append(spec.task)
            self._sampler.quarantine(spec.task)
            logger.warning(
                "task %s is quarantined after %d failures in a row; the last: %s",
                spec.task,
                self._quarantine_after,
                error,
            )


def _retrieve(task: asyncio.Task[Problem]) -> None:
    """Mark a failure as seen: when the workers are gone every position fails, and only the next one is asked for."""
    if not task.cancelled():
        task.exception()
