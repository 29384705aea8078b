"""Scored groups on their way to run-api: sent in order, and kept until run-api has confirmed them.

Groups have no ids, so whether a request arrived whose connection broke cannot be asked. It is sent again, and counted
as `repeated`. A list of groups is taken whole or, with status 422, not at all. A group is dropped, and counted, only if
run-api refuses it for good or JSON cannot hold it. What waits at the end is not kept: its problems are still in flight,
and a resumed run samples them again.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import zlib
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

from pydantic_core import to_json

from ..concurrency import BACKGROUND, cancel_all
from ..outage_log import OutageLog
from ..retries import pauses
from ..stats import DeliveryStats
from .run_api import RunApiFault, RunApiSession

logger = logging.getLogger(__name__)

LONG_FIELDS = ("tokens", "masks", "inference_logprobs")
"""The fields of a packed group that have a number for each token."""
_GZIP = 31
"""What zlib calls its largest window, in gzip's format."""
_PIECE_BYTES = 2**18
"""How much is encoded before it is compressed or written: after each such call a thread waits for the event loop's, and
to join a whole group's megabytes holds that one up."""


@dataclass(eq=False)
class _Entry:
    """A group that waits; `maybe_sent` where it may have arrived, and nobody knows."""

    body: Future[list[bytes]]
    maybe_sent: bool = False
    done: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class DeliveryQueue:
    """Delivers groups by way of `session`, one request at a time.

    There is no limit to what may wait: who puts groups in waits for their delivery where many wait already. `on_drop`
    is called for every group that is given up. Used on one event loop.
    """

    batch_bytes = 8 * 2**20
    batch_groups = 32
    send_interval_s = 0.1
    """The least time between two requests, so that groups collect for the next."""

    def __init__(self, session: RunApiSession, *, on_drop: Callable[[], None]) -> None:
        self._session = session
        self._on_drop = on_drop
        self._entries: deque[_Entry] = deque()
        self._one_by_one = 0
        """How many of the oldest are sent alone, to find out which of them run-api refuses."""
        self._filled = asyncio.Event()
        self._sender: asyncio.Task[None] | None = None
        self._delivered = self._dropped = self._repeated = 0
        self._dropping = OutageLog(logger)
        self._failing = OutageLog(logger)

    @property
    def stats(self) -> DeliveryStats:
        return DeliveryStats(self._delivered, len(self._entries), self._dropped, self._repeated)

    def start(self) -> None:
        """Begin to send; the session must have registered. Nothing happens when it has begun."""
        if self._sender is None:
            self._sender = asyncio.create_task(self._send_all())

    def put(self, group: Mapping[str, Any]) -> asyncio.Future[None]:
        """Take a group; the future is done when it was delivered, refused or dropped, and does not raise.

        The group is in the queue when this returns, and stays there whatever happens to the caller.
        """
        entry = _Entry(BACKGROUND.submit(_encode, dict(group)))
        self._entries.append(entry)
        self._filled.set()
        return asyncio.shield(entry.done)  # a caller that is cancelled cancels its own future

    async def drain(self, timeout_s: float) -> None:
        """Wait until everything was delivered, at most so long."""
        done = [entry.done for entry in self._entries]
        if done and self._sender is not None:
            await asyncio.wait(done, timeout=timeout_s)

    async def close(self) -> None:
        """Stop sending; the futures of what is left are never done. Safe to call twice."""
        if self._sender is not None:
            await cancel_all([self._sender])

    async def _send_all(self) -> None:
        loop, waits = asyncio.get_running_loop(), pauses()
        while True:
            await self._filled.wait()
            next_send = loop.time() + self.send_interval_s
            try:
                batch = await self._next_batch()
                number = await self._session.clear_to_send()
                sent = not batch or await self._send(batch, number)
            except Exception:  # without its sender nothing would be delivered any more
                logger.exception("groups could not be sent; they are tried again")
                sent = False
            if sent:
                waits = pauses()
            await asyncio.sleep(max(next_send - loop.time(), 0.0) if sent else next(waits))

    async def _next_batch(self) -> list[_Entry]:
        """Return the oldest entries that go into one request; none when the oldest cannot be sent at all."""
        batch: list[_Entry] = []
        size = 0
        for entry in list(islice(self._entries, 1 if self._one_by_one else self.batch_groups)):
            if not batch:
                await asyncio.wait([asyncio.wrap_future(entry.body)])
            if not entry.body.done():
                break
            if entry.body.exception() is not None:
                if not batch:
                    self._drop(f"JSON cannot hold one ({entry.body.exception()})")
                break
            size += sum(map(len, entry.body.result()))
            if batch and size > self.batch_bytes:
                break
            batch.append(entry)
        return batch

    async def _send(self, batch: Sequence[_Entry], number: int) -> bool:
        """Send a batch once; return whether the next request may follow without a pause."""
        again = sum(entry.maybe_sent for entry in batch)
        path = "/scored_data_list" if len(batch) > 1 else "/scored_data"
        try:
            body = _join([entry.body.result() for entry in batch], number)
            await self._session.send(path, body)
        except RunApiFault as fault:
            if fault.status in (400, 413, 422):  # run-api will never take these groups; any other fault will pass
                if len(batch) == 1:
                    self._drop(str(fault))
                else:
                    self._one_by_one = len(batch)
                return True
            if fault.maybe_taken:
                self._repeated += again
                for entry in batch:
                    entry.maybe_sent = True
            if fault.status is not None:  # the session tells of the others
                self._failing.note(f"scored groups wait, because {fault}")
            return False
        self._failing.over("scored groups are delivered again")
        self._dropping.over("scored groups are taken again")
        self._repeated += again
        self._delivered += len(batch)
        for _ in batch:
            self._remove_oldest()
        return True

    def _drop(self, reason: str) -> None:
        """Give up the oldest group."""
        self._remove_oldest()
        self._dropped += 1
        self._on_drop()
        self._dropping.note(f"scored groups are dropped: {reason}")

    def _remove_oldest(self) -> None:
        self._one_by_one = max(self._one_by_one - 1, 0)
        self._entries.popleft().done.set_result(None)
        if not self._entries:
            self._filled.clear()


def _encode(group: Mapping[str, Any]) -> list[bytes]:
    """Return a group as JSON without its closing brace, compressed; `_join` adds the rest.

    By Huffman coding alone: the token ids and log-probabilities of long completions hardly repeat, so that to look for
    repetitions takes twice the time and brings nothing. Of short completions to long prompts it would leave a third.
    """
    compressor = zlib.compressobj(wbits=_GZIP, strategy=zlib.Z_HUFFMAN_ONLY)
    compressed = [compressor.compress(piece) for piece in chain([b"{"], encode_members(group.items()))]
    return [*compressed, compressor.flush()]


def _join(bodies: Sequence[Sequence[bytes]], env_id: int) -> list[bytes]:
    """Return the pieces of one request's body; what was compressed in pieces is a compressed whole."""
    end = gzip.compress(f',"env_id":{env_id}}}'.encode())
    if len(bodies) == 1:
        return [*bodies[0], end]
    pieces = [gzip.compress(b"[")]
    for body in bodies:
        pieces += [*body, end, gzip.compress(b",")]
    return [*pieces[:-1], gzip.compress(b"]")]


def encode_members(fields: Iterable[tuple[str, Any]]) -> Iterator[bytes]:
    """Yield a packed group as the members of a JSON object, without its braces, in pieces; slow for long ones.

    Raises TypeError or ValueError for what JSON cannot hold.
    """
    waiting, size = [], 0
    for piece in _small_pieces(fields):
        waiting.append(piece)
        size += len(piece)
        if size >= _PIECE_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    yield b"".join(waiting)


def _small_pieces(fields: Iterable[tuple[str, Any]]) -> Iterator[bytes]:
    """Yield the members; those that have a number for each token in pieces."""
    comma = ""
    for name, value in fields:
        yield f"{comma}{json.dumps(name)}:".encode()
        comma = ","
        if name in LONG_FIELDS and value is not None:
            yield b"["
            for number, sequence in enumerate(value):
                if number:
                    yield b","
                yield from _numbers(sequence) if isinstance(sequence, (array, list, tuple)) else [to_json(sequence)]
            yield b"]"
        else:
            yield json.dumps(value).encode()


def _numbers(sequence: Sequence[float]) -> Iterator[bytes]:
    """Yield the JSON of a list or an array, 4,096 items at a time.

    They are encoded by pydantic's core: json takes ten times as long for log-probabilities. A call holds the
    interpreter's lock until it is done, so that the event loop waits for it.
    """
    yield b"["
    for begin in range(0, len(sequence), 4096):
        some = sequence[begin : begin + 4096]
        items = to_json(some.tolist() if isinstance(some, array) else some)[1:-1]
        yield b"," + items if begin else items
    yield b"]"
