"""Scored groups on their way to run-api: sent in order, kept while it is away, each delivered once.

One task sends, a request at a time, so that groups arrive in the order in which they were put in. A group leaves the
outbox when run-api has confirmed it. When a connection broke after a request had gone out, run-api is asked for the
newest group that it has before anything is sent again, so that one that had arrived is not sent twice.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from .background import encode_group
from .run_api import FAULTS, NeverSent, RunApi, RunApiError
from .trouble import Trouble

logger = logging.getLogger(__name__)

MAX_BYTES = 256 * 2**20
"""How much may wait, compressed; about a thousand groups of eight completions of 4096 tokens."""
BATCH_BYTES = 8 * 2**20
BATCH_GROUPS = 32
RETRY_S = 0.5
MAX_RETRY_S = 4.0
REFUSALS = (400, 413, 422)
"""What run-api answers to a group that it will never take; any other status is a fault that will pass."""
SEND_PATHS = ("/scored_data", "/scored_data_list")


@dataclass(frozen=True)
class DeliveryStats:
    """Groups that run-api has confirmed, that wait, and that it never got."""

    delivered: int
    waiting: int
    lost: int


class _Entry:
    """A group that waits: its JSON without the closing brace, compressed by a thread as soon as it is put in."""

    def __init__(self, body: Future[bytes]) -> None:
        self.body = body
        self.tried = False
        self.settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Outbox:
    """Delivers groups to `run_api`. `ready` is awaited before each request: what must have happened to groups first.

    `state` is what `state()` returned in an earlier run. Used on one event loop.
    """

    def __init__(
        self,
        run_api: RunApi,
        *,
        ready: Callable[[], Awaitable[None]],
        state: Sequence[Mapping[str, Any]] = (),
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._run_api = run_api
        self._ready = ready
        self._max_bytes = max_bytes
        self._encoder = ThreadPoolExecutor(1, thread_name_prefix="group-encoder")
        self._entries: deque[_Entry] = deque()
        self._bytes = 0
        self._changed = asyncio.Event()
        self._registered = asyncio.Event()
        self._env_id = 0
        self._delivered = 0
        self._lost = 0
        self._losing = Trouble(logger)
        self._failing = Trouble(logger)
        self._sender: asyncio.Task[None] | None = None
        for saved in state:
            body: Future[bytes] = Future()
            body.set_result(base64.b64decode(saved["body"]))
            self._append(body).tried = saved["tried"]

    @property
    def stats(self) -> DeliveryStats:
        return DeliveryStats(self._delivered, len(self._entries), self._lost)

    def open(self, env_id: int) -> None:
        """Begin or go on to send, in the name of this environment; run-api must know it."""
        self._env_id = env_id
        self._registered.set()
        if self._sender is None:
            self._sender = asyncio.create_task(self._send_all())

    def hold(self) -> None:
        """Send nothing until `open`: run-api does not know this environment, and must not be given groups."""
        self._registered.clear()

    def put(self, group: Mapping[str, Any]) -> asyncio.Future[None]:
        """Take a group; the future is done when it was delivered or given up, and does not raise.

        The group is in the outbox when this returns, and stays there whatever happens to the caller.
        """
        if self._bytes >= self._max_bytes:
            self._lost += 1
            self._losing.note(
                f"scored groups are being lost: {self._max_bytes // 2**20} MiB of them wait for run-api already"
            )
            nothing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            nothing.set_result(None)
            return nothing
        self._losing.over("scored groups are kept again")
        return self._append(self._encoder.submit(_encode, dict(group))).settled

    async def drain(self, timeout_s: float) -> None:
        """Wait until everything was delivered, at most so long."""
        waiting = [entry.settled for entry in self._entries]
        if waiting and self._sender is not None:
            await asyncio.wait(waiting, timeout=timeout_s)

    async def close(self) -> None:
        """Stop sending; what is left goes on to be part of `state()`. Safe to call twice."""
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.wait([self._sender])
        await asyncio.to_thread(self._encoder.shutdown)

    def state(self) -> list[Callable[[], dict[str, Any]]]:
        """What waits now, as functions that give JSON: they wait for a thread's work, and belong in another thread."""
        return [partial(_saved, entry.body, entry.tried) for entry in self._entries]

    def _append(self, body: Future[bytes]) -> _Entry:
        entry = _Entry(body)
        self._entries.append(entry)
        loop = asyncio.get_running_loop()
        body.add_done_callback(lambda done: loop.call_soon_threadsafe(self._weigh, done))
        self._changed.set()
        return entry

    def _weigh(self, body: Future[bytes]) -> None:
        if body.exception() is None:
            self._bytes += len(body.result())

    async def _send_all(self) -> None:
        while True:
            while not self._entries:
                self._changed.clear()
                await self._changed.wait()
            await self._registered.wait()
            try:
                await self._ready()
                batch = await self._next_batch()
                if batch:
                    await self._deliver(batch)
            except Exception:  # without its sender nothing would be delivered any more
                logger.exception("groups could not be sent; they are tried again")
                await asyncio.sleep(MAX_RETRY_S)

    async def _next_batch(self) -> list[_Entry]:
        """The oldest entries, as many as go into one request."""
        batch: list[_Entry] = []
        size = 0
        for entry in list(self._entries)[:BATCH_GROUPS]:
            if batch and not entry.body.done():
                break
            try:
                body: bytes = await asyncio.wrap_future(entry.body)
                size += len(body)
            except Exception as error:  # what one group holds must not keep the others back
                logger.error("a group cannot be sent and is lost: %s: %s", type(error).__name__, error)
                self._retire([entry], delivered=False)
                break
            if batch and size > BATCH_BYTES:
                break
            batch.append(entry)
        return batch

    async def _deliver(self, batch: list[_Entry]) -> None:
        """Send until it succeeds, is refused for good, or this environment is registered no more."""
        pause_s = RETRY_S
        while True:
            try:
                if any(entry.tried for entry in batch):
                    batch = await self._without_arrived(batch)
                if batch and not await self._try(batch):
                    return
            except RunApiError as error:
                if error.path in SEND_PATHS and error.status in REFUSALS:
                    await self._give_up(batch, error)
                    return
                self._failing.note(f"scored groups wait, because {error}")
            except (*FAULTS, NeverSent) as error:
                self._run_api.note_absence(error)
            else:
                self._run_api.note_presence()
                self._failing.over("scored groups are delivered again")
                self._retire(batch, delivered=True)
                return
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, MAX_RETRY_S)

    async def _give_up(self, batch: list[_Entry], error: RunApiError) -> None:
        """Drop a group that was refused; of several, find out which."""
        if len(batch) > 1:
            for entry in batch:
                await self._deliver([entry])
        else:
            logger.error("a scored group is lost: %s", error)
            self._retire(batch, delivered=False)

    async def _try(self, batch: list[_Entry]) -> bool:
        """Send once; False when it was not, because run-api has no trainer or does not know this environment."""
        if not await self._run_api.knows_a_trainer():
            self.hold()
        if not self._registered.is_set():
            return False
        body = await asyncio.to_thread(_join, [entry.body.result() for entry in batch], self._env_id)
        path = SEND_PATHS[len(batch) > 1]
        headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        for entry in batch:
            entry.tried = True
        try:
            await self._run_api.request("POST", path, body, headers)
        except (NeverSent, RunApiError):
            for entry in batch:
                entry.tried = False
            raise
        return True

    async def _without_arrived(self, batch: list[_Entry]) -> list[_Entry]:
        """The entries that run-api does not have, as far as the newest group that it was given tells."""
        newest = await self._run_api.request("GET", "/latest_example")
        for number in range(len(batch), 0, -1):
            if await asyncio.to_thread(_is_same, batch[number - 1].body.result(), newest):
                self._retire(batch[:number], delivered=True)
                return batch[number:]
        return batch

    def _retire(self, entries: Sequence[_Entry], *, delivered: bool) -> None:
        for entry in entries:
            self._entries.remove(entry)
            if entry.body.exception() is None:
                self._bytes -= len(entry.body.result())
            if not entry.settled.done():
                entry.settled.set_result(None)
        if delivered:
            self._delivered += len(entries)
        else:
            self._lost += len(entries)


def _encode(group: Mapping[str, Any]) -> bytes:
    # The lowest level: token ids shrink almost as much by it, in a fifth of the time.
    return gzip.compress(encode_group(group)[:-1], compresslevel=1)


def _join(bodies: Sequence[bytes], env_id: int) -> bytes:
    """One request's body; compressed pieces one after the other are a compressed whole."""
    end = gzip.compress(f',"env_id":{env_id}}}'.encode())
    if len(bodies) == 1:
        return bodies[0] + end
    return gzip.compress(b"[") + (end + gzip.compress(b",")).join(bodies) + end + gzip.compress(b"]")


def _is_same(body: bytes, newest: Any) -> bool:
    group = json.loads(gzip.decompress(body) + b"}")
    return isinstance(newest, Mapping) and all(newest.get(key) == group[key] for key in ("tokens", "scores"))


def _saved(body: Future[bytes], tried: bool) -> dict[str, Any]:
    return {"body": base64.b64encode(body.result()).decode("ascii"), "tried": tried}
