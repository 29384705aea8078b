"""The delivery queue: sends scored groups to run-api in order, and keeps each group until run-api confirms it.

After a broken connection a request is sent again, so a group may arrive twice. Run-api accepts all groups of a request
or, with status 422, none. A group is dropped only if run-api refuses the group for good, or if the group cannot be
written as JSON. Groups that still wait at the end are lost; a resumed run repeats their problems.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import islice

from ..metrics.stats import DeliveryStats
from ..runtime.concurrency import BACKGROUND, cancel_all
from ..runtime.retries import OutageLog, pauses
from .run_api import GROUPS, ONE_GROUP, RunApiFault, RunApiSession
from .wire import encode_body, join_bodies

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class _WaitingGroup:
    """A waiting group's JSON from `encode_body`, and a future that is done once the group was delivered or dropped."""

    body: Future[list[bytes]]
    done: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class DeliveryQueue:
    """Delivers groups, one request at a time. Use it on one event loop.

    The queue has no maximum size. `put` never waits, but returns a future. If too many groups wait, callers must
    await these futures.

    Args:
        session: Sends requests to run-api.
        on_drop: Called for every dropped group.
    """

    batch_bytes = 8 * 2**20
    batch_groups = 32
    """Maximum groups per request. Run-api reads one request at a time, so a long request delays other environments."""
    send_interval_s = 0.1
    """Minimum time between two requests, so that one request sends all groups scored in this time."""

    def __init__(self, session: RunApiSession, *, on_drop: Callable[[], None]) -> None:
        self._session = session
        self._on_drop = on_drop
        self._entries: deque[_WaitingGroup] = deque()
        self._one_by_one = 0
        """Number of oldest groups to send one by one, because run-api refused a request with all of these groups."""
        self._filled = asyncio.Event()
        self._sender: asyncio.Task[None] | None = None
        self._delivered = 0
        self._dropping = OutageLog(logger)
        self._failing = OutageLog(logger)

    @property
    def stats(self) -> DeliveryStats:
        return DeliveryStats(self._delivered, len(self._entries))

    def start(self) -> None:
        """Start to send. Call this after the registration at run-api; a second call has no effect."""
        if self._sender is None:
            self._sender = asyncio.create_task(self._send_all())

    def put(self, group: Mapping[str, object]) -> asyncio.Future[None]:
        """Put a group into the queue; return a future that is done when the group was delivered or dropped.

        The future never raises. The group stays in the queue if the caller is cancelled.
        """
        entry = _WaitingGroup(BACKGROUND.submit(encode_body, dict(group)))
        self._entries.append(entry)
        self._filled.set()
        return asyncio.shield(entry.done)  # cancelling the caller cancels only the outer future

    async def drain(self, timeout_s: float) -> None:
        """Wait until all groups are delivered or dropped, for at most `timeout_s` seconds."""
        done = [entry.done for entry in self._entries]
        if done and self._sender is not None:
            await asyncio.wait(done, timeout=timeout_s)

    async def close(self) -> None:
        """Stop sending. The futures of groups that still wait are never done. A second call has no effect."""
        if self._sender is not None:
            await cancel_all([self._sender])

    async def _send_all(self) -> None:
        loop = asyncio.get_running_loop()
        waits = pauses()
        while True:
            await self._filled.wait()
            next_send = loop.time() + self.send_interval_s
            try:
                batch = await self._next_batch()
                number = await self._session.clear_to_send()
                sent = not batch or await self._send(batch, number)
            except Exception:  # if this task ended, no group would be delivered any more
                logger.exception("groups could not be sent because of an unexpected error; trying again")
                sent = False
            if sent:
                waits = pauses()
            await asyncio.sleep(max(next_send - loop.time(), 0.0) if sent else next(waits))

    async def _next_batch(self) -> list[_WaitingGroup]:
        """Return the oldest waiting groups that fit into one request.

        If the oldest group cannot be written as JSON, drop this group and return an empty list.
        """
        batch: list[_WaitingGroup] = []
        size = 0
        for entry in list(islice(self._entries, 1 if self._one_by_one else self.batch_groups)):
            if not batch:
                await asyncio.wait([asyncio.wrap_future(entry.body)])
            if not entry.body.done():
                break
            if entry.body.exception() is not None:
                if not batch:
                    self._drop(f"the group cannot be written as JSON ({entry.body.exception()})")
                break
            size += sum(map(len, entry.body.result()))
            if batch and size > self.batch_bytes:
                break
            batch.append(entry)
        return batch

    async def _send(self, batch: Sequence[_WaitingGroup], number: int) -> bool:
        """Send a batch once. `number` is this environment's number at run-api. Return False to request a retry."""
        endpoint = GROUPS if len(batch) > 1 else ONE_GROUP
        try:
            body = join_bodies([entry.body.result() for entry in batch], number)
            await self._session.send(endpoint, body)
        except RunApiFault as fault:
            if fault.status in (400, 413, 422):  # these statuses are permanent refusals; all other faults are temporary
                if len(batch) == 1:
                    self._drop(str(fault))
                else:
                    self._one_by_one = len(batch)
                return True
            if fault.status is not None:  # the session logs faults without a reply
                self._failing.note(f"run-api did not accept scored groups ({fault}); trying again")
            return False
        self._failing.over("run-api accepts scored groups again")
        self._dropping.over("run-api accepts scored groups again; no more groups are dropped")
        self._delivered += len(batch)
        for _ in batch:
            self._remove_oldest()
        return True

    def _drop(self, reason: str) -> None:
        """Drop the group that has waited longest, and count it."""
        self._remove_oldest()
        self._on_drop()
        self._dropping.note(f"dropped a scored group: {reason}")

    def _remove_oldest(self) -> None:
        self._one_by_one = max(self._one_by_one - 1, 0)
        self._entries.popleft().done.set_result(None)
        if not self._entries:
            self._filled.clear()
