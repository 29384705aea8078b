"""Keep the event loop responsive: run work on a thread, or in short steps between which the loop runs other tasks."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")
R = TypeVar("R")

DECODER = ThreadPoolExecutor(1, thread_name_prefix="decoder")
"""The thread that builds prompts and decodes tokens. On the thread BACKGROUND, replies would wait behind other work,
and waiting replies take much memory."""

NUMBERS_PER_TURN = 2**15
"""Numbers to convert per iteration of the event loop. `tolist` takes 0.5 ms for them, the loop itself 0.03 ms."""
CALLS_PER_BATCH = 8
"""Maximum number of calls in a batch for the thread DECODER. The event loop needs 0.1 ms to send a batch."""
MAX_BATCH_S = 0.005
"""After this many seconds, the remaining calls of a batch move to the next batch, so that results return soon."""


async def run_on_decoder(work: Callable[..., R], *arguments: object) -> R:
    """Run `work` on the thread DECODER and return its result."""
    return await _turns().calls.add(partial(work, *arguments))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class _Call:
    """One call for the thread DECODER, and the future that gets the result or the error of the call."""

    work: Callable[[], Any]
    result: asyncio.Future[Any]


class _CallQueue:
    """Queues the calls that one event loop sends to the thread DECODER."""

    def __init__(self) -> None:
        self._waiting: deque[_Call] = deque()
        self._is_busy = False

    def add(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        """Return a future for `work`'s result. If the future is cancelled before `work` begins, `work` never runs."""
        call = _Call(work, asyncio.get_running_loop().create_future())
        self._waiting.append(call)
        if not self._is_busy:
            self._send()
        return call.result

    def _send(self) -> None:
        calls = [self._waiting.popleft() for _ in range(min(CALLS_PER_BATCH, len(self._waiting)))]
        self._is_busy = bool(calls)
        if calls:
            batch = asyncio.get_running_loop().run_in_executor(DECODER, _run_calls, calls)
            batch.add_done_callback(partial(self._deliver, calls))

    def _deliver(self, calls: Sequence[_Call], batch: asyncio.Future[list[tuple[Any, Exception | None]]]) -> None:
        outcomes = batch.result()
        self._waiting.extendleft(reversed(calls[len(outcomes) :]))
        for call, (result, error) in zip(calls, outcomes, strict=False):
            if call.result.done():  # the caller was cancelled
                continue
            if error is None:
                call.result.set_result(result)
            else:
                call.result.set_exception(error)
        self._send()


def _run_calls(calls: Sequence[_Call]) -> list[tuple[Any, Exception | None]]:
    """Run one call, then others until MAX_BATCH_S seconds are over. Return each finished call's result or error."""
    began_s = time.monotonic()
    outcomes: list[tuple[Any, Exception | None]] = []
    for call in calls:
        if outcomes and time.monotonic() - began_s > MAX_BATCH_S:
            break
        try:
            outcomes.append((None if call.result.cancelled() else call.work(), None))
        except Exception as error:
            outcomes.append((None, error))
    return outcomes


@dataclass(frozen=True)
class _Turns:
    """The queue, the lock and the semaphore that all callers on one event loop share.

    The semaphore limits how many replies are parsed at the same time, because parsing needs much memory.
    """

    calls: _CallQueue = field(default_factory=_CallQueue)

    one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)
    room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(2))


_TURNS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Turns] = WeakKeyDictionary()


def _turns() -> _Turns:
    return _TURNS.get(asyncio.get_running_loop()) or _TURNS.setdefault(asyncio.get_running_loop(), _Turns())


async def in_turn(work: Callable[[], T]) -> T:
    """Let the event loop run other tasks, then run `work` on the loop. `work` should take only some milliseconds."""
    async with _turns().one_at_a_time:
        # The loop needs two iterations to resume a task whose timer has run out: one for the timer, one for the task.
        # So such a task waits for at most one call of `work`.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return work()


async def map_in_turns(work: Callable[[Sequence[float]], T], sequences: Sequence[Sequence[float]]) -> list[T]:
    """Call `work` on each sequence, and return the results. Yield to the event loop every NUMBERS_PER_TURN numbers."""
    if sum(map(len, sequences)) <= NUMBERS_PER_TURN:
        return [work(sequence) for sequence in sequences]
    results: list[T] = []

    def pieces() -> Generator[None, None, list[T]]:
        numbers = 0
        for sequence in sequences:
            numbers += len(sequence)
            if numbers > NUMBERS_PER_TURN and results:
                numbers = len(sequence)
                yield
            results.append(work(sequence))
        return results

    return await run_in_turns(pieces())


async def run_in_turns(pieces: Generator[None, None, T]) -> T:
    """Run a generator and return its result. The event loop runs other tasks before each step."""

    def step() -> tuple[T] | None:
        try:
            next(pieces)
        except StopIteration as end:
            return (end.value,)
        return None

    while (result := await in_turn(step)) is None:
        pass
    return result[0]


def reply_slot() -> asyncio.Semaphore:
    """Return the semaphore that limits how many replies are read and parsed at the same time."""
    return _turns().room
