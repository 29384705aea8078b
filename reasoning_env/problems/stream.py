"""The ordered, resumable stream of problems, and the record of problems in flight.

A position of the stream goes through these states:

| state | where | meaning |
| --- | --- | --- |
| undrawn | from `_next_index` on | its spec (task, level and seed) is not drawn yet |
| restored | `_restored`, in order | an earlier run drew its spec, so it is not drawn again |
| ahead | `_ahead` | its problem is being generated or is ready, or its spec could not be drawn |
| in flight | `_in_flight` | `next` returned its problem |
| done | nowhere | its group was delivered or dropped |

Problems are returned in the order of their positions. After a restart, problems that were in flight come first. To keep
this order, the stream waits for the next problem, and generates it again after an infrastructure error. `state()` has
all positions that were drawn and are not done. `giving_up.py` says when a position is drawn again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Container
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from ..errors import ClosedError, ConfigError, GenerationError, WorkerError
from ..metrics.stats import StreamStats
from ..records import Pool, Problem, ProblemSpec, Rejection
from ..runtime.concurrency import cancel_all
from ..runtime.retries import FailureStreak, pauses
from .giving_up import MAX_FAILURES, MAX_REJECTED, MAX_REPEATS, MAX_UNFIT, MIN_UNFIT
from .references import hash_question
from .repeats import RepeatCounter
from .sampling import TaskSampler, nearest_level
from .state import StreamState, pack_position, unpack_position

logger = logging.getLogger(__name__)

T = TypeVar("T")


class ExhaustedError(GenerationError):
    """Too many draws in a row were rejected, so the task probably has no further usable problem."""


class DrawAttempts:
    """Counts rejected and failed draws since the last usable problem, and raises an error at the limits.

    Args:
        max_failures: Limit of failures in a row. With 1, the first failure is raised unchanged.
        rejected: Number of earlier rejected draws in a row.
        repeats: How many of these draws repeated a question.
    """

    def __init__(self, *, max_failures: int = 1, rejected: int = 0, repeats: int = 0) -> None:
        self.made = 0
        self.rejected = rejected
        self.repeats = repeats
        self._failures = FailureStreak()
        self._max_failures = max_failures

    def reject(self, why: Rejection) -> None:
        """Count a rejected draw. Raises ExhaustedError after too many rejections, or repeated questions, in a row."""
        self.made += 1
        self.rejected += 1
        self._failures.end()
        if why is Rejection.REPEATED:
            self.repeats += 1
        if self.rejected >= MAX_REJECTED or self.repeats >= MAX_REPEATS:
            raise ExhaustedError(f"{self.rejected} generated problems in a row could not be used; the last was {why}")

    def fail(self, error: GenerationError) -> None:
        """Count a failed draw. Raises GenerationError after `max_failures` failures in a row."""
        self.made += 1
        self._failures.add(error)
        if self._max_failures == 1:
            raise error
        if self._failures.count == self._max_failures:
            raise GenerationError(f"{self._failures.count} failures in a row, the last: {error}") from error

    def succeed(self) -> None:
        """Reset the counts of rejections and failures after a draw that gave a usable problem."""
        self.rejected = self.repeats = 0
        self._failures.end()


async def draw_problem(attempt: Callable[[int], Awaitable[T | Rejection]], tries: DrawAttempts) -> T:
    """Draw until a draw gives a usable problem, and return the result of `attempt` for this draw.

    Args:
        attempt: Makes the next draw. Its argument is the number of earlier draws. Returns a Rejection if the problem
            is not usable. Raises GenerationError if the draw gives no problem.
        tries: Counts the draws, and raises ExhaustedError or GenerationError to give up.
    """
    while True:
        try:
            drawn = await attempt(tries.made)
        except GenerationError as error:
            tries.fail(error)
            continue
        if not isinstance(drawn, Rejection):
            tries.succeed()
            return drawn
        tries.reject(drawn)


async def generate_with_retries(generator: Pool, spec: ProblemSpec, deadline_s: float) -> Problem:
    """Generate a problem. After infrastructure errors, retry the same problem without a limit.

    Raises GenerationError if the task cannot generate the problem, and ClosedError if the pool is closed.
    """
    for pause_s in pauses():
        try:
            return await generator.generate(spec, deadline_s)
        except ClosedError:
            raise
        except WorkerError as error:
            logger.debug("%s, seed %d: generation failed (%s); next try in %g s", spec.task, spec.seed, error, pause_s)
        await asyncio.sleep(pause_s)
    raise AssertionError("unreachable: the loop above never ends")


@dataclass(frozen=True)
class _Ready(Generic[T]):
    """A generated problem, and the value that `next` returns for it: the result of `prepare`."""

    problem: Problem
    prepared: T


@dataclass(eq=False)
class _Position(Generic[T]):
    """A position of the stream, with its spec and the asyncio task that generates its problem.

    If the problem was in flight in an earlier run, `question_hash` is the hash that its question must have.
    """

    index: int
    spec: ProblemSpec | None
    question_hash: str | None = None
    ready: asyncio.Task[_Ready[T]] = field(init=False)

    def redraw(self, spec: ProblemSpec) -> None:
        """Replace the spec (task, level and seed), and forget the hash of the old question."""
        self.spec = spec
        self.question_hash = None


@dataclass(frozen=True)
class _InFlight:
    attempt: int
    reference: str


class Exclusions:
    """Stops drawing tasks that fail repeatedly, and levels whose problems mostly exceed the token limit.

    Args:
        sampler: Stops drawing the excluded tasks and levels.
        state: The stream's state in an earlier run, which includes the result of `Exclusions.state`.
    """

    def __init__(self, sampler: TaskSampler, state: StreamState) -> None:
        self._sampler = sampler
        self.failures = 0
        self.quarantined: list[str] = list(state.get("quarantined", ()))
        for task in self.quarantined:
            sampler.quarantine(task)
        self._failures_in_a_row = {
            task: FailureStreak(count) for task, count in state.get("failures_in_a_row", {}).items()
        }
        for task, level in state.get("ceilings", {}).items():
            sampler.exclude_levels(task, level)
        self._fits: defaultdict[tuple[str, float | None], Counter[bool]] = defaultdict(Counter)
        """By task and level, the numbers of problems that fit into the token limit (True) and that do not (False)."""
        self._any_fits = False
        self._unfit: Counter[str] = Counter()
        """Number of problems that do not fit into the token limit, by task."""
        self._logged_tasks: set[str] = set()
        """Tasks whose first failure was logged."""

    def state(self) -> dict[str, object]:
        """Return the excluded tasks and levels, and each task's number of consecutive failures, as JSON values."""
        return {
            "failures_in_a_row": {task: failures.count for task, failures in self._failures_in_a_row.items()},
            "quarantined": list(self.quarantined),
            "ceilings": dict(self._sampler.ceilings),
        }

    def record_success(self, task: str) -> None:
        """Forget the task's consecutive failures, because a problem of the task can be served."""
        self._failures_in_a_row.pop(task, None)

    def record_failure(self, task: str, error: GenerationError) -> None:
        """Log the first failure of a task, and quarantine the task after MAX_FAILURES failures in a row."""
        self.failures += 1
        in_a_row = self._failures_in_a_row.setdefault(task, FailureStreak())
        in_a_row.add(error)
        if in_a_row.count >= MAX_FAILURES and task not in self.quarantined:
            self.quarantined.append(task)
            self._sampler.quarantine(task)
            logger.warning("task %s is quarantined after %d failures in a row; the last: %s", task, MAX_FAILURES, error)
        elif task not in self._logged_tasks:
            logger.warning("%s failed to make a problem (%s); trying the next seed", task, error)
        self._logged_tasks.add(task)

    def record_fit(self, problem: Problem, *, fits: bool) -> None:
        """Record whether the prompt and the expected answer of a problem fit into the token limit.

        If most problems of a level do not fit, exclude this level, but never the lowest level or a fixed level.
        Raises ConfigError if none of the stream's first MAX_UNFIT problems fits.
        """
        task = problem.task
        level = problem.level
        counts = self._fits[task, level]
        counts[fits] += 1
        if fits:
            self._any_fits = True
            return
        self._unfit[task] += 1
        if not self._any_fits and self._unfit.total() >= MAX_UNFIT:
            raise ConfigError(
                f"in each of the first {MAX_UNFIT} problems, prompt and expected answer together exceed the "
                "token limit",
                remedy="raise the token limit ({max_token_length})",
            )
        if self._unfit[task] == 1:
            logger.warning(
                "replaced a problem of %s, because its prompt and expected answer together exceed the token limit "
                "(max_token_length); to train on such problems, raise the limit; this is logged once per task",
                task,
            )
        mostly_unfit = counts[False] >= MIN_UNFIT and counts[False] > counts[True]
        if level and mostly_unfit and self._sampler.exclude_levels(task, level):
            logger.warning(
                "no more problems of %s are drawn at level %g or above: most problems at this level exceed the token "
                "limit (max_token_length) or have answers that are too long",
                task,
                level,
            )


class ProblemStream(Generic[T]):
    """Generates problems ahead of demand, and returns the problems in order.

    The number of problems ahead is twice the highest number in flight so far, but at least `min_ahead` and at most
    `max_ahead`.

    Args:
        deadline_s: Seconds that the generation of a problem may take.
        prepare: Converts a generated problem to the object that `next` returns. If `prepare` returns a Rejection
            instead, the stream draws another problem for the same position.
        state: The result of `state()` in an earlier run. The positions in the state are served first.
        done: Positions to skip, each by its `index`.
    """

    min_ahead = 8
    """Minimum number of problems to generate in advance. A small number lets levels adapt fast."""
    max_ahead = 256
    """Maximum number of problems to generate in advance."""

    def __init__(
        self,
        generator: Pool,
        sampler: TaskSampler,
        *,
        deadline_s: float,
        prepare: Callable[[Problem], Awaitable[T | Rejection]],
        state: StreamState | None = None,
        done: Container[int] = frozenset(),
    ) -> None:
        self._generator = generator
        self._sampler = sampler
        self._deadline_s = deadline_s
        self._prepare = prepare
        self._done = done
        saved: StreamState = state or {"next_index": 0, "positions": []}
        self._next_index = saved["next_index"]
        self._restored: deque[_Position[T]] = deque(
            _Position(position[0], *unpack_position(position)) for position in saved["positions"]
        )
        self._ahead: deque[_Position[T]] = deque()
        self._in_flight: dict[int, _InFlight] = {}
        self._most_in_flight = 0
        self._turn = asyncio.Lock()
        self._closed = False
        self._exclusions = Exclusions(sampler, saved)
        self._flawed: Counter[str] = Counter()
        self._clamped: Counter[str] = Counter()
        self._repeats = RepeatCounter()

    def start(self) -> None:
        """Start to generate problems in advance. If nobody calls `start`, the first call of `next` calls it."""
        depth = min(max(2 * self._most_in_flight, self.min_ahead), self.max_ahead)
        while len(self._ahead) < depth:
            position = self._draw_next()
            position.ready = asyncio.create_task(self._fill(position))
            position.ready.add_done_callback(_retrieve)
            self._ahead.append(position)

    async def next(self) -> T:
        """Return the next prepared problem, which is in flight from now on.

        If no worker can be started, wait until one can. Raises GenerationError, ClosedError, any error of `prepare`,
        and ConfigError if no problem fits into the token limit.
        """
        async with self._turn:
            if self._closed:
                raise ClosedError("the stream of problems is closed")
            self.start()
            head = self._ahead[0]
            if not head.ready.done():  # `wait`, because a cancelled `await` would also cancel the generation
                await asyncio.wait([head.ready])
            if head.ready.cancelled():
                raise ClosedError("the stream of problems is closed")
            ready = head.ready.result()
            self._ahead.popleft()
            self._in_flight[head.index] = _InFlight(ready.problem.spec.attempt, ready.problem.reference)
            self._most_in_flight = max(self._most_in_flight, len(self._in_flight))
            self.start()
        self._count_repeat(ready.problem)
        logger.debug("next: %s", ready.problem.reference)
        return ready.prepared

    def done(self, problem: Problem) -> None:
        """Mark a problem as done, because its group was delivered or dropped. Unknown problems are ignored."""
        in_flight = self._in_flight.get(problem.spec.index)
        if in_flight is not None and in_flight.reference == problem.reference:
            del self._in_flight[problem.spec.index]

    @property
    def in_flight(self) -> int:
        """Number of problems that `next` returned and that are not done."""
        return len(self._in_flight)

    async def close(self) -> None:
        """Stop generating. `state()` still has the problems that `next` has not returned. Safe to call twice."""
        self._closed = True
        await cancel_all(position.ready for position in self._ahead)
        self._next_index = self._first_without_spec()
        self._restored.extendleft(position for position in reversed(self._ahead) if position.spec is not None)
        self._ahead.clear()

    def state(self) -> dict[str, object]:
        """Return the stream's state as JSON: the drawn positions, and which tasks and levels are excluded.

        A position is [index, attempt, problem's reference]. Positions in flight come first.
        """
        in_flight = [[index, problem.attempt, problem.reference] for index, problem in sorted(self._in_flight.items())]
        drawn = [
            pack_position(position.spec, position.question_hash)
            for position in (*self._ahead, *self._restored)
            if position.spec is not None
        ]
        return {"next_index": self._first_without_spec(), "positions": [*in_flight, *drawn], **self._exclusions.state()}

    @property
    def stats(self) -> StreamStats:
        return StreamStats(
            ready=sum(position.ready.done() for position in self._ahead),
            in_flight=len(self._in_flight),
            failures=self._exclusions.failures,
            flawed=dict(self._flawed),
            quarantined=tuple(self._exclusions.quarantined),
            repeated=self._repeats.repeated,
            clamped=self._clamped.total(),
        )

    def _count_repeat(self, problem: Problem) -> None:
        if self._repeats.add(problem.task, problem.question):
            logger.warning(
                "%.0f %% of the questions of %s are repeats: the task has few questions (see `tasks %s`)",
                100 * self._repeats.share(problem.task),
                problem.task,
                problem.task,
            )

    def _first_without_spec(self) -> int:
        """Return the first index whose spec is not drawn."""
        return min((position.index for position in self._ahead if position.spec is None), default=self._next_index)

    def _draw_next(self) -> _Position[T]:
        if self._restored and self._restored[0].index <= self._next_index:  # otherwise, an undrawn position is next
            position = self._restored.popleft()
            self._next_index = max(self._next_index, position.index + 1)
            return position
        while self._next_index in self._done:
            with suppress(GenerationError):
                self._sampler.draw(self._next_index, 0)  # repeat the earlier run's draw, so that later draws are equal
            self._next_index += 1
        index = self._next_index
        self._next_index += 1
        try:
            return _Position(index, self._sampler.draw(index, 0))
        except GenerationError:  # `_fill` raises this error again, and `next` passes it on
            return _Position(index, None)

    async def _fill(self, position: _Position[T]) -> _Ready[T]:
        """Generate and prepare a position's problem. After a failure, draw a new task, level and seed."""
        while True:
            if position.spec is None:
                position.spec = self._sampler.draw(position.index, 0)
            try:
                ready = await draw_problem(partial(self._attempt, position), DrawAttempts())
            except GenerationError as error:
                logger.debug("problem %d of the stream is replaced by a new problem: %s", position.index, error)
                self._exclusions.record_failure(position.spec.task, error)
                position.redraw(self._sampler.draw(position.index, position.spec.attempt + 1))
            else:
                self._exclusions.record_success(ready.problem.task)
                return ready

    async def _attempt(self, position: _Position[T], number: int) -> _Ready[T] | Rejection:
        """Generate and prepare a problem. From attempt 1 on, first draw a new spec of the same task."""
        assert position.spec is not None
        if number > 0:
            position.redraw(self._sampler.redraw(position.spec))
        spec = position.spec
        problem = await generate_with_retries(self._generator, spec, self._deadline_s)
        self._check_restored(position, problem)
        self._flawed.update(problem.flawed)
        self._count_clamped(spec, problem)
        prepared = await self._prepare(problem)
        if prepared is not Rejection.HELD_OUT:  # a held-out problem's length is unknown
            self._exclusions.record_fit(problem, fits=prepared is not Rejection.TOO_LONG)
        if isinstance(prepared, Rejection):
            self._flawed[prepared] += 1
            return prepared
        return _Ready(problem, prepared)

    def _check_restored(self, position: _Position[T], problem: Problem) -> None:
        """Raise GenerationError if the problem was in flight in an earlier run and its question has changed."""
        expected = position.question_hash
        if expected is not None and hash_question(problem.question) != expected:
            message = f"reference {problem.reference!r}: the question differs from the question in the earlier run"
            logger.warning("%s; a new problem is drawn", message)
            raise GenerationError(message)

    def _count_clamped(self, spec: ProblemSpec, problem: Problem) -> None:
        """Count a problem whose level differs from the drawn level, because that level has no valid parameters."""
        if spec.level is None or problem.level is None or problem.level == nearest_level(spec.level):
            return
        self._clamped[spec.task] += 1
        if self._clamped[spec.task] == 1:
            logger.warning(
                "%s has no problems of level %g with its parameters (task_params); level %g, the nearest, is served",
                spec.task,
                nearest_level(spec.level),
                problem.level,
            )


def _retrieve(task: asyncio.Task[_Ready[T]]) -> None:
    """Mark an asyncio task's error as retrieved. `next` raises only the first error; asyncio would log all others."""
    if not task.cancelled():
        task.exception()
