"""Keep the event loop free: work on threads beside it, and in pieces between which it has turns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")
R = TypeVar("R")

BACKGROUND = ThreadPoolExecutor(1, thread_name_prefix="background")
"""Does what keeps the interpreter busy for some milliseconds. One thread, because the event loop waits for each."""
DECODER = ThreadPoolExecutor(1, thread_name_prefix="decoder")
"""Decodes tokens, which leaves the interpreter free. Replies that waited behind BACKGROUND's work would take memory."""


async def in_background(work: Callable[..., R], *arguments: Any, executor: ThreadPoolExecutor = BACKGROUND) -> R:
    """Return what `work` returns, done on a thread beside the event loop."""
    return await asyncio.get_running_loop().run_in_executor(executor, work, *arguments)


@dataclass(frozen=True)
class _Turns:
    """What replies on one event loop share.

    Two are read from their connections at a time: one takes several times the memory of its rollouts.
    """

    one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)
    room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(2))


_TURNS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Turns] = WeakKeyDictionary()


def _turns() -> _Turns:
    return _TURNS.setdefault(asyncio.get_running_loop(), _Turns())


async def in_turn(work: Callable[[], T]) -> T:
    """Do some milliseconds of work on the event loop, in a turn of the loop in which no other such work is done.

    A wake-up takes two turns, of the timer and of the task; with both between two pieces, it waits for one piece only.
    """
    async with _turns().one_at_a_time:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return work()


async def in_turns(pieces: Generator[None, None, T]) -> T:
    """Do each step of a generator in a turn of its own, and return what it returns."""

    def step() -> tuple[T] | None:
        try:
            next(pieces)
        except StopIteration as end:
            return (end.value,)
        return None

    while (result := await in_turn(step)) is None:
        pass
    return result[0]


def room_for_reply() -> asyncio.Semaphore:
    """Return what is held while a reply is read and taken apart; others wait in their connections."""
    return _turns().room
