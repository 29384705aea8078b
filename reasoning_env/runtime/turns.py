"""Keep the event loop free: do work on threads, or in short pieces with turns of the loop in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")
R = TypeVar("R")

BACKGROUND = ThreadPoolExecutor(1, thread_name_prefix="background")
"""For work that holds the interpreter for some milliseconds. One thread: the event loop waits for each such piece."""
DECODER = ThreadPoolExecutor(1, thread_name_prefix="decoder")
"""For decoding tokens, which leaves the interpreter free. Replies that wait behind BACKGROUND's work take memory."""

NUMBERS_IN_A_TURN = 2**15
"""Numbers that `each_in_turn` gives to one turn: a millisecond of `list`, beside .03 ms that a turn itself takes."""


async def in_background(work: Callable[..., R], *arguments: object, executor: ThreadPoolExecutor = BACKGROUND) -> R:
    """Do `work` on a thread beside the event loop and return its result."""
    return await asyncio.get_running_loop().run_in_executor(executor, work, *arguments)


@dataclass(frozen=True)
class _Turns:
    """Locks that all replies on one event loop share.

    Two replies are read at a time: a reply takes several times the memory of its rollouts.
    """

    one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)
    room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(2))


_TURNS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Turns] = WeakKeyDictionary()


def _turns() -> _Turns:
    return _TURNS.setdefault(asyncio.get_running_loop(), _Turns())


async def in_turn(work: Callable[[], T]) -> T:
    """Do some milliseconds of work on the event loop, in a turn of the loop without other such work.

    A wake-up takes two turns: the timer's and the task's. With two turns between two pieces, it waits for one piece
    only.
    """
    async with _turns().one_at_a_time:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return work()


async def each_in_turn(work: Callable[[Sequence[float]], T], sequences: Iterable[Sequence[float]]) -> list[T]:
    """Return the results of `work` on sequences. A turn takes several short ones: turns would take longer than they."""
    results: list[T] = []

    def pieces() -> Generator[None, None, list[T]]:
        numbers = 0
        for sequence in sequences:
            numbers += len(sequence)
            if numbers > NUMBERS_IN_A_TURN and results:
                numbers = len(sequence)
                yield
            results.append(work(sequence))
        return results

    return await in_turns(pieces())


async def in_turns(pieces: Generator[None, None, T]) -> T:
    """Do each step of a generator in a turn of its own, and return the generator's result."""

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
    """Return the semaphore to hold while a reply is read and parsed; other replies wait in their connections."""
    return _turns().room
