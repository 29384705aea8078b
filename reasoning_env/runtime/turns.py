"""Keep the event loop free: do work on threads, or in short pieces with turns of the loop in between."""

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
"""For prompts and for decoding tokens, which leaves the interpreter free. Replies that wait behind BACKGROUND's work
take memory."""

NUMBERS_IN_A_TURN = 2**15
"""Numbers that `each_in_turn` gives to one turn: half a millisecond of `tolist`, beside .03 ms for the turn itself."""
PIECES_IN_A_HOP = 8
"""Pieces that `together` gives to the thread at a time."""
LONGEST_HOP_S = 0.005
"""Seconds after which the thread of `together` begins no further piece, so that finished pieces do not wait."""


async def together(work: Callable[..., R], *arguments: object) -> R:
    """Do `work` on the thread DECODER and return its result.

    Work that arrives while the thread is busy goes there together: to a thread and back takes 0.1 ms of the event
    loop's time.
    """
    return await _turns().pieces.add(partial(work, *arguments))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class _Piece:
    """Work for a thread, and the future that gets the result or the error of the work."""

    work: Callable[[], Any]
    result: asyncio.Future[Any]


class _Pieces:
    """The pieces of work that wait for the thread DECODER, on one event loop."""

    def __init__(self) -> None:
        self._waiting: deque[_Piece] = deque()
        self._is_busy = False

    def add(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        """Return the future result of `work`. Work whose future is cancelled before the work begins is not done."""
        piece = _Piece(work, asyncio.get_running_loop().create_future())
        self._waiting.append(piece)
        if not self._is_busy:
            self._send()
        return piece.result

    def _send(self) -> None:
        pieces = [self._waiting.popleft() for _ in range(min(PIECES_IN_A_HOP, len(self._waiting)))]
        self._is_busy = bool(pieces)
        if pieces:
            hop = asyncio.get_running_loop().run_in_executor(DECODER, _do_some, pieces)
            hop.add_done_callback(partial(self._deliver, pieces))

    def _deliver(self, pieces: Sequence[_Piece], hop: asyncio.Future[list[tuple[Any, Exception | None]]]) -> None:
        outcomes = hop.result()
        self._waiting.extendleft(reversed(pieces[len(outcomes) :]))
        for piece, (result, error) in zip(pieces, outcomes, strict=False):
            if piece.result.done():  # its caller is gone
                continue
            if error is None:
                piece.result.set_result(result)
            else:
                piece.result.set_exception(error)
        self._send()


def _do_some(pieces: Sequence[_Piece]) -> list[tuple[Any, Exception | None]]:
    """Do pieces of work for LONGEST_HOP_S, one at least; return the result or the error of each piece that was done."""
    began_s = time.monotonic()
    outcomes: list[tuple[Any, Exception | None]] = []
    for piece in pieces:
        if outcomes and time.monotonic() - began_s > LONGEST_HOP_S:
            break
        try:
            outcomes.append((None if piece.result.cancelled() else piece.work(), None))
        except Exception as error:
            outcomes.append((None, error))
    return outcomes


@dataclass(frozen=True)
class _Turns:
    """What all work on one event loop shares.

    Two replies are read at a time: a reply takes several times the memory of its rollouts.
    """

    pieces: _Pieces = field(default_factory=_Pieces)

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


async def each_in_turn(work: Callable[[Sequence[float]], T], sequences: Sequence[Sequence[float]]) -> list[T]:
    """Return the results of `work` on sequences. A turn takes several short ones: turns would take longer than they.

    Sequences that are short together take no turn of their own.
    """
    if sum(map(len, sequences)) <= NUMBERS_IN_A_TURN:
        return [work(sequence) for sequence in sequences]
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
