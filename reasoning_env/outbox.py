"""Scored groups on their way to run-api: sent in order, kept while it is away, each delivered once.

One task sends, a request at a time, so that groups arrive in the order in which they were put in. A group leaves the
outbox when run-api has confirmed it. When a connection broke after a request had gone out, run-api is asked at once
whether the groups are there: whether the newest group that it was given is one of them, and whether as many more of
this environment's groups lie in its queue as were sent. That is certain for one environment, and for several unless
others send and the trainer takes a batch in between; then the groups count as delivered, which they nearly always are.

run-api must not be given a group before a trainer has registered, because it takes no trainer then. So it is asked for
the state of this environment right before every request, requests are at least SEND_INTERVAL_S apart, and when it turns
out right after one that there is no trainer, run-api is emptied again.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from .atropos.group_writer import encode_group
from .outage_log import OutageLog
from .records import DeliveryStats
from .run_api import FAULTS, NeverSent, RunApi, RunApiError, as_mapping

logger = logging.getLogger(__name__)

MAX_BYTES = 256 * 2**20
"""How much may wait, compressed; about a thousand groups of eight completions of 4096 tokens."""
BATCH_BYTES = 8 * 2**20
BATCH_GROUPS = 32
SEND_INTERVAL_S = 0.1
RETRY_S = 0.5
MAX_RETRY_S = 4.0
REFUSALS = (400, 413, 422)
"""What run-api answers to a group that it will never take; any other status is a fault that will pass."""
SEND_PATHS = ("/scored_data", "/scored_data_list")


@dataclass(frozen=True)
class _Queue:
    """The trainer's step, and how many of this environment's groups lie in run-api's queue, where it says so."""

    step: int
    groups: int | None


class _Entry:
    """A group that waits: its JSON without the closing brace, compressed by a thread as soon as it is put in.

    `number` counts all groups from 1, over all runs that went on from each other.
    """

    def __init__(self, number: int, body: Future[bytes]) -> None:
        self.number = number
        self.body = body
        self.tried = False
        self.settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Outbox:
    """Delivers groups to `run_api`.

    `ready` is awaited before each request: what must have happened to groups first. `on_loss` is called for every group
    that is given up, `on_delivery` with the number of the newest group that was delivered, which `restore` takes in a
    later run. Used on one event loop.
    """

    def __init__(
        self,
        run_api: RunApi,
        *,
        ready: Callable[[], Awaitable[None]],
        on_loss: Callable[[], None],
        on_delivery: Callable[[int], None] = lambda number: None,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._run_api = run_api
        self._ready = ready
        self._on_loss = on_loss
        self._on_delivery = on_delivery
        self._newest = 0
        self._max_bytes = max_bytes
        self._encoder = ThreadPoolExecutor(1, thread_name_prefix="group-encoder")
        self._entries: deque[_Entry] = deque()
        self._bytes = 0
        self._changed = asyncio.Event()
        self._registered = asyncio.Event()
        self._env_id = 0
        self._times_held = 0
        self._interruptions = 0
        self._delivered = 0
        self._lost = 0
        self._losing = OutageLog(logger)
        self._failing = OutageLog(logger)
        self._sender: asyncio.Task[None] | None = None

    def restore(self, groups: Sequence[Mapping[str, Any]], *, delivered: int = 0, still_there: bool = False) -> None:
        """Take up what `saved_groups` gave in an earlier run, which had delivered the group number `delivered` last.

        Groups up to that one were delivered after they had been saved. With `still_there`, which says that the run-api
        that got them lives on, they are left out; otherwise they went with it, and are delivered again.
        """
        self._newest = delivered
        for saved in groups:
            if still_there and saved["number"] <= delivered:
                continue
            body: Future[bytes] = Future()
            body.set_result(base64.b64decode(saved["body"]))
            # It may have been delivered without anybody noting it.
            self._append(body).tried = True

    @property
    def stats(self) -> DeliveryStats:
        return DeliveryStats(self._delivered, len(self._entries), self._lost)

    @property
    def is_open(self) -> bool:
        return self._registered.is_set()

    def open(self, env_id: int, *, interruptions: int = 0) -> None:
        """Begin or go on to send, in the name of this environment; run-api must know it.

        It is known to do so since it had gone away that many times. When that is more often, nothing is sent before
        this is called again: what came back may be another run-api.
        """
        self._env_id = env_id
        self._interruptions = interruptions
        self._registered.set()
        if self._sender is None:
            self._sender = asyncio.create_task(self._send_all())

    def hold(self) -> None:
        """Send nothing until `open`: run-api has forgotten this environment, and must not be given groups."""
        self._registered.clear()
        self._times_held += 1

    def put(self, group: Mapping[str, Any]) -> asyncio.Future[None]:
        """Take a group; the future is done when it was delivered or given up, and does not raise.

        The group is in the outbox when this returns, and stays there whatever happens to the caller.
        """
        if self._bytes >= self._max_bytes:
            self._lost += 1
            self._on_loss()
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
        if waiting and self._sender is not None and not self._sender.done():
            await asyncio.wait(waiting, timeout=timeout_s)

    async def close(self) -> None:
        """Stop sending; what is left goes on to be part of `state()`. Safe to call twice."""
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.wait([self._sender])
        await asyncio.to_thread(self._encoder.shutdown)

    def state(self) -> list[tuple[int, Future[bytes]]]:
        """The numbers and texts of what waits now, for `saved_groups` to make JSON of in another thread."""
        return [(entry.number, entry.body) for entry in self._entries]

    def _append(self, body: Future[bytes]) -> _Entry:
        self._newest += 1
        entry = _Entry(self._newest, body)
        self._entries.append(entry)
        loop = asyncio.get_running_loop()
        body.add_done_callback(lambda done: loop.call_soon_threadsafe(self._weigh, done))
        self._changed.set()
        return entry

    def _weigh(self, body: Future[bytes]) -> None:
        if body.exception() is None:
            self._bytes += len(body.result())

    async def _send_all(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            while not self._entries:
                self._changed.clear()
                await self._changed.wait()
            await self._registered.wait()
            try:
                await self._ready()
                next_send = loop.time() + SEND_INTERVAL_S
                await self._deliver(await self._next_batch())
                await asyncio.sleep(next_send - loop.time())
            except Exception:  # without its sender nothing would be delivered any more
                logger.exception("groups could not be sent; they are tried again")
                await asyncio.sleep(MAX_RETRY_S)

    async def _next_batch(self) -> list[_Entry]:
        """The oldest entries, as many as go into one request; none when the oldest cannot be sent at all."""
        batch: list[_Entry] = []
        size = 0
        for entry in list(self._entries)[:BATCH_GROUPS]:
            if not batch:
                await asyncio.wait([asyncio.wrap_future(entry.body)])
            # What was sent together is asked for together.
            if not entry.body.done() or (batch and entry.tried != batch[0].tried):
                break
            error = entry.body.exception()
            if error is not None:  # what one group holds must not keep the others back
                if not batch:
                    logger.error("a group cannot be sent and is lost: %s: %s", type(error).__name__, error)
                    self._retire([entry], delivered=False)
                break
            size += len(entry.body.result())
            if batch and size > BATCH_BYTES:
                break
            batch.append(entry)
        return batch

    async def _deliver(self, batch: list[_Entry]) -> None:
        """Send until it succeeds, is refused for good, or this environment is registered no more."""
        pause_s = 0.0
        before: _Queue | None = None
        times_held = self._times_held
        while batch:
            if self._run_api.interruptions != self._interruptions and self._registered.is_set():
                await asyncio.sleep(SEND_INTERVAL_S)
                continue
            if self._times_held != times_held:
                return
            try:
                if batch[0].tried:
                    if await self._has_no_trainer():
                        await self._undo(batch)
                        return
                    arrived = await self._arrived(batch, before)
                    if self._times_held != times_held:
                        return
                    self._retire(batch[:arrived], delivered=True)
                    batch = batch[arrived:]
                    if not batch:
                        break
                before = await self._queue()
                if before is None:
                    self.hold()
                if self._times_held != times_held:
                    return
                await self._post(batch)
                if await self._was_emptied():
                    await self._undo(batch)
                    return
            except RunApiError as error:
                if error.path in SEND_PATHS and error.status in REFUSALS:
                    await self._give_up(batch, error)
                    return
                self._failing.note(f"scored groups wait, because {error}")
            except (*FAULTS, NeverSent) as error:
                self._run_api.note_absence(error)
            else:
                break
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, MAX_RETRY_S) or RETRY_S
        self._run_api.note_presence()
        self._failing.over("scored groups are delivered again")
        self._retire(batch, delivered=True)

    async def _give_up(self, batch: list[_Entry], error: RunApiError) -> None:
        """Drop a group that was refused; of several, find out which."""
        if len(batch) > 1:
            for entry in batch:
                await self._deliver([entry])
        else:
            logger.error("a scored group is lost: %s", error)
            self._retire(batch, delivered=False)

    async def _post(self, batch: list[_Entry]) -> None:
        path = SEND_PATHS[len(batch) > 1]
        headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        body = _join([entry.body.result() for entry in batch], self._env_id)
        for entry in batch:
            entry.tried = True
        try:
            await self._run_api.request("POST", path, body, headers)
        except (NeverSent, RunApiError):
            for entry in batch:
                entry.tried = False
            raise

    async def _was_emptied(self) -> bool:
        """Whether run-api says that it had no trainer when it took the groups a moment ago."""
        try:
            return await self._has_no_trainer()
        except (RunApiError, *FAULTS, NeverSent):
            return False  # it was there when it took them

    async def _has_no_trainer(self) -> bool:
        info = as_mapping("/info", ("batch_size",), await self._run_api.request("GET", "/info"))
        return bool(info["batch_size"] == -1)

    async def _undo(self, batch: list[_Entry]) -> None:
        """Empty a run-api without a trainer: it was emptied, or restarted, at the moment at which it got these groups.

        It would take no trainer with groups in its queue. The groups are sent after the next registration.
        """
        logger.warning("run-api was emptied when it was being given groups, and is emptied again: they are sent later")
        await self._run_api.request("GET", "/reset_data")
        for entry in batch:
            entry.tried = False
        self.hold()

    async def _queue(self) -> _Queue | None:
        """This environment's part of run-api's queue; None where run-api does not know the environment."""
        status = await self._run_api.status_now(self._env_id)
        return None if status is None else _Queue(status["current_step"], status.get("self_queue_size"))

    async def _arrived(self, batch: list[_Entry], before: _Queue | None) -> int:
        """How many of the groups run-api has, the first ones; `before` was its queue before they were sent, if known.

        It takes all groups of a request or none. Where that cannot be told, they count as arrived: they had been sent
        to a run-api that lives, and what broke is the way back.
        """
        newest = _parsed(await self._run_api.request("GET", "/latest_example"))
        known = await asyncio.to_thread(_find, newest, [entry.body.result() for entry in batch])
        if known:
            return known
        now = await self._queue()
        if now is None or before is None or newest.get("env_id") == self._env_id:
            return 0  # it has forgotten everything, or the newest group of all is an earlier one of this environment
        if now.groups is not None and before.groups is not None and now.step == before.step:
            return len(batch) if now.groups - before.groups >= len(batch) else 0
        return len(batch)

    def _retire(self, entries: Sequence[_Entry], *, delivered: bool) -> None:
        for entry in entries:
            self._entries.remove(entry)
            if entry.body.exception() is None:
                self._bytes -= len(entry.body.result())
            if not entry.settled.done():
                entry.settled.set_result(None)
            if delivered:
                self._delivered += 1
            else:
                self._lost += 1
                self._on_loss()
        if entries and delivered:
            self._on_delivery(entries[-1].number)


def _encode(group: Mapping[str, Any]) -> bytes:
    # The lowest level: token ids shrink almost as much by it, in a fifth of the time.
    return gzip.compress(encode_group(group)[:-1], compresslevel=1)


def _join(bodies: Sequence[bytes], env_id: int) -> bytes:
    """One request's body; compressed pieces one after the other are a compressed whole."""
    end = gzip.compress(f',"env_id":{env_id}}}'.encode())
    if len(bodies) == 1:
        return bodies[0] + end
    return gzip.compress(b"[") + (end + gzip.compress(b",")).join(bodies) + end + gzip.compress(b"]")


def _parsed(reply: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(reply)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _find(newest: Mapping[str, Any], bodies: Sequence[bytes]) -> int:
    """The number, from 1, of the last group that is the newest one; 0 where none is."""
    for number in range(len(bodies), 0, -1):
        group = json.loads(gzip.decompress(bodies[number - 1]) + b"}")
        if all(newest.get(key) == group[key] for key in ("tokens", "scores")):
            return number
    return 0


def saved_groups(waiting: Sequence[tuple[int, Future[bytes]]]) -> list[dict[str, Any]]:
    """What `Outbox.state` gave, as JSON; waits for an encoding that is under way, so it belongs in a thread."""
    wait([body for _, body in waiting])
    return [
        {"number": number, "body": base64.b64encode(body.result()).decode("ascii")}
        for number, body in waiting
        if not body.cancelled() and body.exception() is None
    ]
