"""The ordered, resumable stream of problems, and the one ledger of those in flight.

A position of the stream is drawn, generated ahead of demand, handed out by `next`, and in flight until `done`. The
order never depends on how long a problem takes, so that a resumed run goes on with the sequence of a run that was never
stopped: a late position is waited for. A position whose generation fails is drawn again, a task that keeps failing is
quarantined, and a problem that is to be avoided is replaced by another of its task. `state()` holds all that was drawn
and is not done.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Container, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from .concurrency import cancel_all
from .errors import GenerationError
from .records import Problem, ProblemSpec, Split, StreamStats

logger = logging.getLogger(__name__)

MAX_AVOIDED = 300
"""Problems of one position that are avoided, after which its task counts as failing, and another is drawn."""


class Generator(Protocol):
    """The worker pool as a generator; raises GenerationError, and WorkerError without workers."""

    async def generate(self, spec: ProblemSpec, deadline_s: float) -> Problem: ...


class Sampler(Protocol):
    """Chooses what to generate; raises GenerationError when no task is left.

    `redraw` gives another problem of the same task, `quarantine` takes a task out.
    """

    def draw(self, index: int, attempt: int) -> ProblemSpec: ...

    def redraw(self, spec: ProblemSpec) -> ProblemSpec: ...

    def quarantine(self, task: str) -> None: ...


@dataclass(eq=False)
class _Position:
    """A place in the stream: its spec, which a redraw replaces, and the generation under way."""

    index: int
    spec: ProblemSpec | None
    problem: asyncio.Task[Problem] = field(init=False)


class ProblemStream:
    """Keeps `depth` positions generated or under way; `next` hands them out in order, `done` ends them.

    A task is quarantined after `quarantine_after` failures in a row, each an error or a missed `deadline_s`. Problems
    that `avoid` says yes to are drawn again. `state` is what `state()` returned in an earlier run: the positions that
    it owes are served in their order, and the others from `next_index` on are drawn. Positions in `done`
    are passed over.
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
        done: Container[int] = frozenset(),
    ) -> None:
        self._generator = generator
        self._sampler = sampler
        self._depth = depth
        self._deadline_s = deadline_s
        self._quarantine_after = quarantine_after
        self._avoid = avoid
        self._done = done
        saved = state or {}
        self._next_index: int = saved.get("next_index", 0)
        self._owed = deque(_unpacked(spec) for spec in saved.get("owed", ()))
        self._pending: deque[_Position] = deque()
        self._in_flight: dict[int, ProblemSpec] = {}
        self._turn = asyncio.Lock()
        self._failures_in_a_row: Counter[str] = Counter(saved.get("failures_in_a_row", {}))
        self._quarantined: list[str] = list(saved.get("quarantined", ()))
        for task in self._quarantined:
            sampler.quarantine(task)
        self._counts: Counter[str] = Counter(saved.get("counts", {}))

    def start(self) -> None:
        """Begin to generate, as `next` does by itself."""
        while len(self._pending) < self._depth:
            position = self._draw_next()
            position.problem = asyncio.create_task(self._fill(position))
            position.problem.add_done_callback(_retrieve)
            self._pending.append(position)

    async def next(self) -> Problem:
        """Hand out the next problem, which is in flight from now on. Raises GenerationError and WorkerError."""
        async with self._turn:
            self.start()
            head = self._pending[0]
            await asyncio.wait([head.problem])
            problem = head.problem.result()
            self._pending.popleft()
            assert head.spec is not None, "it made the problem"
            # As it was drawn: the seed that made the problem after flawed ones would be followed to another one.
            self._in_flight[head.index] = head.spec
            self.start()
        self._counts["served"] += 1
        return problem

    def done(self, problem: Problem) -> None:
        """End a problem: its group is scored, or it was given up. Safe to call twice."""
        self._in_flight.pop(problem.spec.index, None)

    def under_way(self, task: str) -> int:
        """Return how many problems of a task are drawn and not done."""
        return sum(spec.task == task for spec in (*self._in_flight.values(), *self._drawn(), *self._owed))

    @property
    def in_flight(self) -> int:
        """How many problems were handed out and are not done."""
        return len(self._in_flight)

    async def close(self) -> None:
        """Stop generating; what was drawn and not handed out stays part of `state()`."""
        await cancel_all(position.problem for position in self._pending)
        self._next_index = self.state()["next_index"]
        self._owed.extendleft(reversed(self._drawn()))
        self._pending.clear()

    def state(self) -> dict[str, Any]:
        """Return what a later stream goes on from, as JSON: what is in flight first, then what is drawn."""
        undrawn = [position.index for position in self._pending if position.spec is None]
        in_flight = [self._in_flight[index] for index in sorted(self._in_flight)]
        return {
            "next_index": min(undrawn, default=self._next_index),
            "owed": [_packed(spec) for spec in (*in_flight, *self._drawn(), *self._owed)],
            "failures_in_a_row": dict(self._failures_in_a_row),
            "quarantined": list(self._quarantined),
            "counts": dict(self._counts),
        }

    @property
    def stats(self) -> StreamStats:
        return StreamStats(
            ready=sum(position.problem.done() for position in self._pending),
            served=self._counts["served"],
            failures=self._counts["failures"],
            flawed=self._counts["flawed"],
            quarantined=tuple(self._quarantined),
        )

    def _drawn(self) -> list[ProblemSpec]:
        return [position.spec for position in self._pending if position.spec is not None]

    def _draw_next(self) -> _Position:
        if self._owed and self._owed[0].index <= self._next_index:
            spec = self._owed.popleft()
            self._next_index = max(self._next_index, spec.index + 1)
            return _Position(spec.index, spec)
        while self._next_index in self._done:
            with suppress(GenerationError):
                self._sampler.draw(self._next_index, 0)  # as in the run that did it: what follows is drawn alike
            self._next_index += 1
        index, self._next_index = self._next_index, self._next_index + 1
        try:
            return _Position(index, self._sampler.draw(index, 0))
        except GenerationError:  # raised again where somebody waits for it
            return _Position(index, None)

    async def _fill(self, position: _Position) -> Problem:
        avoided = 0
        while True:
            if position.spec is None:
                position.spec = self._sampler.draw(position.index, 0)
            spec = position.spec
            try:
                problem = await self._generator.generate(spec, self._deadline_s)
                self._counts["flawed"] += problem.flawed
                if self._avoid is None or not await self._avoid(problem):
                    self._failures_in_a_row.pop(spec.task, None)
                    return problem
                self._counts["flawed"] += 1
                avoided += 1
                if avoided == MAX_AVOIDED:
                    raise GenerationError(f"{MAX_AVOIDED} problems in a row had to be avoided")
                position.spec = self._sampler.redraw(spec)
            except GenerationError as error:
                self._record_failure(spec, error)
                avoided = 0
                position.spec = self._sampler.draw(spec.index, spec.attempt + 1)

    def _record_failure(self, spec: ProblemSpec, error: GenerationError) -> None:
        task, limit = spec.task, self._quarantine_after
        self._counts["failures"] += 1
        self._failures_in_a_row[task] += 1
        logger.debug("position %d is drawn again: %s", spec.index, error)
        if self._failures_in_a_row[task] >= limit and task not in self._quarantined:
            self._quarantined.append(task)
            self._sampler.quarantine(task)
            logger.warning("task %s is quarantined after %d failures in a row; the last: %s", task, limit, error)


def _packed(spec: ProblemSpec) -> dict[str, Any]:
    # By hand, because `asdict` copies all parameters, which takes longer than the event loop may stand still.
    return {**vars(spec), "split": spec.split.value, "params": dict(spec.params)}


def _unpacked(packed: Mapping[str, Any]) -> ProblemSpec:
    return ProblemSpec(**{**packed, "split": Split(packed["split"])})


def _retrieve(task: asyncio.Task[Problem]) -> None:
    """Mark a failure as seen: without workers every position fails, and `next` raises only the first."""
    if not task.cancelled():
        task.exception()
