"""Scored groups on their way to run-api: sent in order, and kept until run-api has confirmed them."""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from ...concurrency import cancel_all
from ...outage_log import OutageLog
from ...records import DeliveryStats
from ..packing import encode_members
from .client import RunApiFault
from .session import RunApiSession

logger = logging.getLogger(__name__)

BATCH_BYTES = 8 * 2**20
BATCH_GROUPS = 32
SEND_INTERVAL_S = 0.1
"""So much lies between two requests at least, so that groups collect for the next."""
RETRY_S = 0.5
MAX_RETRY_S = 4.0
REFUSALS = (400, 413, 422)
"""What run-api answers to a group that it will never take; any other status is a fault that will pass."""


@dataclass(eq=False)
class _Entry:
    """A group that waits; `unconfirmed` where it may have been sent, and nobody knows whether it arrived."""

    number: int
    body: Future[bytes]
    unconfirmed: bool
    settled: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class DeliveryQueue:
    """Delivers groups by way of `session`, one request at a time.

    There is no limit to what may wait: who puts groups in waits for their delivery where many wait already. Groups are
    numbered from 1, over all runs that went on from each other. `on_drop` is called for every group that is given up.
    Used on one event loop.
    """

    def __init__(self, session: RunApiSession, *, on_drop: Callable[[], None]) -> None:
        self._session = session
        self._on_drop = on_drop
        self._encoder = ThreadPoolExecutor(1, thread_name_prefix="group-encoder")
        self._entries: deque[_Entry] = deque()
        self._next_number = 1
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

    @property
    def delivered_up_to(self) -> int:
        """The number up to which every group was delivered or dropped."""
        return (self._entries[0].number if self._entries else self._next_number) - 1

    def waiting(self) -> list[tuple[int, Future[bytes]]]:
        """Return the numbers and bodies of what waits; a body that JSON cannot hold raises in its future."""
        return [(entry.number, entry.body) for entry in self._entries]

    def restore(self, entries: Sequence[tuple[int, bytes]], next_number: int) -> None:
        """Take up, before `start`, what waited in an earlier run; the next group put gets `next_number`."""
        for number, saved in entries:
            body: Future[bytes] = Future()
            body.set_result(saved)
            self._append(_Entry(number, body, unconfirmed=True))
        self._next_number = next_number

    def start(self) -> None:
        """Begin to send; the session must have registered. Nothing happens when it has begun."""
        if self._sender is None:
            self._sender = asyncio.create_task(self._send_all())

    def put(self, group: Mapping[str, Any]) -> asyncio.Future[None]:
        """Take a group; the future is done when it was delivered or dropped, and does not raise.

        The group is in the queue when this returns, and stays there whatever happens to the caller.
        """
        entry = _Entry(self._next_number, self._encoder.submit(_encode, dict(group)), unconfirmed=False)
        self._next_number += 1
        self._append(entry)
        return asyncio.shield(entry.settled)  # a caller that is cancelled cancels its own future

    async def drain(self, timeout_s: float) -> None:
        """Wait until everything was delivered, at most so long."""
        settled = [entry.settled for entry in self._entries]
        if settled and self._sender is not None:
            await asyncio.wait(settled, timeout=timeout_s)

    async def close(self) -> None:
        """Stop sending; what is left stays in `waiting()`. Safe to call twice."""
        if self._sender is not None:
            await cancel_all([self._sender])
        await asyncio.to_thread(self._encoder.shutdown)

    def _append(self, entry: _Entry) -> None:
        self._entries.append(entry)
        self._filled.set()

    async def _send_all(self) -> None:
        loop, pause_s = asyncio.get_running_loop(), 0.0
        while True:
            await self._filled.wait()
            next_send = loop.time() + SEND_INTERVAL_S
            try:
                batch = await self._next_batch()
                number = await self._session.clear_to_send()
                sent = not batch or await self._send(batch, number)
            except Exception:  # without its sender nothing would be delivered any more
                logger.exception("groups could not be sent; they are tried again")
                sent = False
            pause_s = 0.0 if sent else min(2 * pause_s, MAX_RETRY_S) or RETRY_S
            await asyncio.sleep(max(pause_s, next_send - loop.time()))

    async def _next_batch(self) -> list[_Entry]:
        """Return the oldest entries that go into one request; none when the oldest cannot be sent at all."""
        batch: list[_Entry] = []
        size = 0
        for entry in list(islice(self._entries, 1 if self._one_by_one else BATCH_GROUPS)):
            if not batch:
                await asyncio.wait([asyncio.wrap_future(entry.body)])
            if not entry.body.done():
                break
            if entry.body.exception() is not None:
                if not batch:
                    self._drop(f"JSON cannot hold one ({entry.body.exception()})")
                break
            size += len(entry.body.result())
            if batch and size > BATCH_BYTES:
                break
            batch.append(entry)
        return batch

    async def _send(self, batch: Sequence[_Entry], number: int) -> bool:
        """Send a batch once; return whether the next request may follow without a pause."""
        again = sum(entry.unconfirmed for entry in batch)
        path = "/scored_data_list" if len(batch) > 1 else "/scored_data"
        try:
            await self._session.send(path, _join([entry.body.result() for entry in batch], number))
        except RunApiFault as fault:
            if fault.status in REFUSALS:
                if len(batch) == 1:
                    self._drop(str(fault))
                else:
                    self._one_by_one = len(batch)
                return True
            if fault.maybe_taken:
                self._repeated += again
                for entry in batch:
                    entry.unconfirmed = True
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
        entry = self._entries.popleft()
        self._one_by_one = max(self._one_by_one - 1, 0)
        entry.settled.set_result(None)
        if not self._entries:
            self._filled.clear()


def _encode(group: Mapping[str, Any]) -> bytes:
    """Return a group as JSON without its closing brace, compressed; `_join` adds the rest.

    At the lowest level: token ids shrink almost as much by it, in a fifth of the time.
    """
    return gzip.compress(b"{" + encode_members(group), compresslevel=1)


def _join(bodies: Sequence[bytes], env_id: int) -> bytes:
    """Return one request's body; compressed pieces one after the other are a compressed whole."""
    end = gzip.compress(f',"env_id":{env_id}}}'.encode())
    if len(bodies) == 1:
        return bodies[0] + end
    return gzip.compress(b"[") + (end + gzip.compress(b",")).join(bodies) + end + gzip.compress(b"]")
