"""Requests to Atropos' run-api, and an environment's registration there.

Limits of run-api (atroposlib 0.4.0), and how this module handles them:

- An environment is only a number for run-api. Numbers start again at 0 after a restart and after `/reset_data`. An
  unassigned number gets status 500. So an environment registers again after status 500, or if run-api's step decreased.
  If an environment misses a restart, another one may get the same number.
- If the reply to a registration is lost, run-api keeps the registration until a restart. The lost registration takes a
  share of the work and, with a `min_batch_allocation`, blocks all batches.
- If a group arrives before a trainer registers, the trainer's `/register` has no effect. So `/info` is checked right
  before groups are sent. If run-api is reset between check and sending, the log says what to do.
- When a trainer registers, run-api forgets all environments. Until then, `/info` has the batch size -1, and this module
  waits.
- A group larger than the trainer's batch blocks run-api's queue, so this module never sends such a group. Other sizes
  can block the queue too (see `always_fill_batches`); the log then names the sizes.
- A second trainer's registration has no effect. But each batch then goes to one of the two, the step counts the batches
  of both, and no reply reveals the second trainer.
- Groups have no ids. After a broken connection a group is sent again, and may arrive twice.
"""

from __future__ import annotations

import asyncio
import logging
import math
import socket
import time
from collections.abc import AsyncIterator, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, NotRequired, TypedDict, TypeVar

import aiohttp
import msgspec

from ..errors import ServerError
from ..runtime.retries import OutageLog, pauses
from ..runtime.text import error_text

logger = logging.getLogger(__name__)


T = TypeVar("T")

# Limits for numbers in run-api's replies. Without them, a step of 10**9 from a server that is not run-api would end
# the run as complete. At one step per second, a run reaches 10**8 steps after three years.
BoundedCount = Annotated[int, msgspec.Meta(ge=0, lt=10**8)]
Choice = Annotated[int, msgspec.Meta(ge=-1, lt=10**8)]
"""A number in the trainer's configuration, such as the batch size; -1 if the trainer does not set this number."""
FolderName = Annotated[str, msgspec.Meta(pattern=r"^[^\0]*\Z")]
"""A path without null characters, because no operating system accepts null characters in paths."""
MAX_REPLY_BYTES = 2**20
"""Maximum size of a reply. Run-api's own replies have a few hundred bytes."""


class Welcome(TypedDict):
    message: str


class WandbInfo(TypedDict):
    group: NotRequired[str | None]
    project: str | None


class TrainerInfo(TypedDict):
    batch_size: Choice
    max_token_len: Choice


class EnvironmentStatus(TypedDict):
    """The state of an environment. `env_weight` is its share of all work: at most 1, except for rounding.

    Only BaseEnv uses `unallocated_fraction`.
    """

    current_step: BoundedCount
    queue_size: BoundedCount
    self_queue_size: BoundedCount
    max_group_size: Annotated[int, msgspec.Meta(ge=1, lt=10**8)]
    env_weight: Annotated[float, msgspec.Meta(ge=0, le=2)]
    unallocated_fraction: Annotated[float, msgspec.Meta(ge=0, le=1)]


class Registration(msgspec.Struct, frozen=True, tag_field="status", tag="success"):
    """Run-api's reply to a registration."""

    env_id: BoundedCount
    wandb_name: str
    checkpoint_dir: FolderName
    starting_step: BoundedCount
    checkpoint_interval: Choice
    num_steps: Choice


class TooEarly(msgspec.Struct, frozen=True, tag_field="status", tag="wait for trainer to start"):
    """Run-api's reply if an environment registers before the trainer."""


class Done(TypedDict):
    status: str


@dataclass(frozen=True)
class Endpoint(Generic[T]):
    """A request that run-api accepts. If `decoder` cannot decode the reply, the request has failed."""

    method: str
    path: str
    decoder: msgspec.json.Decoder[T]


WELCOME = Endpoint("GET", "/", msgspec.json.Decoder(Welcome))
WANDB_INFO = Endpoint("GET", "/wandb_info", msgspec.json.Decoder(WandbInfo))
TRAINER_INFO = Endpoint("GET", "/info", msgspec.json.Decoder(TrainerInfo))
STATUS = Endpoint("GET", "/status-env", msgspec.json.Decoder(EnvironmentStatus))
REGISTER: Endpoint[Registration | TooEarly] = Endpoint(
    "POST", "/register-env", msgspec.json.Decoder(Registration | TooEarly)
)
ONE_GROUP = Endpoint("POST", "/scored_data", msgspec.json.Decoder(Done))
GROUPS = Endpoint("POST", "/scored_data_list", msgspec.json.Decoder(Done))
LEAVE = Endpoint("POST", "/disconnect-env", msgspec.json.Decoder(Done))


class RunApiFault(Exception):
    """A request failed: `status` is the HTTP status of an error reply, or None if there was no reply."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


CONNECT_TIMEOUT_S = 5.0
"""Time limit for connecting, long enough for the three attempts that Linux sends at 0, 1 and 3 s."""


async def request(url: str, endpoint: Endpoint[T], body: object = None) -> T:
    """Send one request to the run-api at `url`, without retries, and return the reply; raises RunApiFault.

    `body` is a JSON-serializable mapping, or gzipped JSON as a list of pieces.
    """
    sent: Mapping[str, Any] = {"json": body}
    if isinstance(body, list):
        headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        headers["Content-Length"] = str(sum(map(len, body)))
        sent = {"data": _yield_to_loop_between(body), "headers": headers}
    # The server could close a connection just when it is used again. Then a group would be sent twice.
    connector = aiohttp.TCPConnector(force_close=True, socket_factory=_make_socket)
    # No time limit for the reply: a slow run-api has already accepted the request, and must not get it twice.
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        try:
            async with session.request(endpoint.method, f"{url}{endpoint.path}", **sent) as response:
                reply, status = await _read(response), response.status
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise RunApiFault(str(error)) from error
        except (aiohttp.ClientError, OSError) as error:
            raise RunApiFault(error_text(error)) from error
    reason = f"status {status}"
    if status < 400:
        try:
            return endpoint.decoder.decode(reply)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            reason = f"{reason}, {error}"
    text = " ".join(reply[:200].decode(errors="replace").split())
    raise RunApiFault(f"unexpected reply to {endpoint.path} ({reason}): {text}", status=status)


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """Return the body of a reply. Raises RunApiFault if the body has more than MAX_REPLY_BYTES."""
    body = b""
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > MAX_REPLY_BYTES:
            raise RunApiFault(f"the reply has more than {MAX_REPLY_BYTES} bytes", status=response.status)
    return body


async def _yield_to_loop_between(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Yield the pieces of a body, and let the event loop run other tasks before each piece."""
    for piece in pieces:
        await asyncio.sleep(0)
        yield piece


def _make_socket(address: tuple[Any, ...]) -> socket.socket:
    """Create a socket that fails after the other host has been silent for 30 s."""
    family, socket_type, protocol, _, _ = address
    connection = socket.socket(family, socket_type, protocol)
    connection.setblocking(False)
    # Without these options, a request to a host without a network still waited after 4 minutes; with them, it failed
    # after 36 s.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # 10 s of silence, then four probes 5 s apart. The last option, in ms, limits the wait for an acknowledgement of
    # data.
    options = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4, "TCP_USER_TIMEOUT": 30_000}
    for name, value in options.items():
        if hasattr(socket, name):  # macOS lacks some of these options
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return connection


WORKING = "the trainer is registered at run-api, and so is this environment"


class RunApiSession:
    """Keeps an environment registered at run-api. Use it on one event loop.

    All coroutines except `leave` and `send` wait until run-api is reachable. A waiting coroutine raises ServerError if
    the first reply at `url` is not from run-api.

    Args:
        url: Address of run-api.
        entry: Body of the request to `/register-env`.
    """

    longest_pause_s = 1.0
    """Maximum seconds between requests. During a longer pause, a restart of run-api could go unnoticed."""
    slow_reply_s = 10.0
    """If run-api does not reply within this many seconds, log a warning."""
    trainer_patience_s = 30.0
    """After this many seconds without a trainer, the log also says what to do if run-api ignored the trainer."""
    leave_timeout_s = 3.0
    """Time limit for disconnecting at the end, so that an absent run-api does not delay the end."""

    def __init__(self, url: str, entry: Mapping[str, object]) -> None:
        self._url = url.rstrip("/")
        self._entry: dict[str, Any] = dict(entry)
        self._registration: Registration | None = None
        self._registering = asyncio.Lock()
        self._step = 0
        """The trainer's step in run-api's last reply."""
        self._left = False
        self._has_replied = False
        """Whether run-api has replied at least once."""
        self._absence = OutageLog(logger)
        """Logs that run-api does not reply."""
        self._waiting = OutageLog(logger)
        """Logs that run-api replies, but has no trainer or does not know this environment."""

    @property
    def registration(self) -> Registration:
        """The current registration. Registering again replaces the object."""
        assert self._registration is not None, "call register() first"
        return self._registration

    async def wait_until_there(self, timeout_s: float) -> None:
        """Wait until run-api replies; raises ServerError after `timeout_s`, which may be infinite."""
        try:
            async with asyncio.timeout(None if math.isinf(timeout_s) else timeout_s):
                await self._ask(WELCOME)
        except TimeoutError as error:
            raise ServerError(
                f"run-api did not reply at {self._url} within {timeout_s:g} s",
                remedy="start it with `run-api`, or correct {env.rollout_server_url}",
            ) from error

    async def wandb_group_and_project(self) -> tuple[str | None, str]:
        """Return the wandb group and project that the trainer registered; waits for the trainer."""
        while (project := (info := await self._ask(WANDB_INFO))["project"]) is None:
            await self._wait_for_trainer()
        return info.get("group"), project

    async def register(self) -> Registration:
        """Register, if not done yet, and return the registration. Waits until a trainer requests batches."""
        async with self._registering:
            if self._registration is None:
                await self._register()
                self._waiting.over(WORKING)
        return self.registration

    async def info(self) -> TrainerInfo:
        """Return the trainer's batch size and token limit."""
        return await self._ask(TRAINER_INFO)

    async def status(self) -> EnvironmentStatus:
        """Return this environment's status at run-api. If run-api has forgotten this environment, register again."""
        async with self._registering:
            status = await self._own_status()
            if status is not None:
                return status
            logger.info("run-api no longer knows environment %d; registering again", self.registration.env_id)
            waits = pauses()
            while True:
                await self._register()
                status = await self._own_status()
                if status is not None:
                    self._waiting.over(WORKING)
                    return status
                self._waiting.note(
                    f"environment {self.registration.env_id} has just registered, but run-api has no status for it; "
                    "probably all environments have an inference_weight of 0; set inference_weight above 0 in at "
                    f"least one environment (this environment has {self._entry['weight']:.3g})"
                )
                await asyncio.sleep(next(waits))

    async def clear_to_send(self) -> int:
        """Wait until groups can be sent, and return this environment's number at run-api.

        Groups can be sent when this environment is registered, and the trainer's batch size is at least the group size.
        """
        while True:
            await self.status()
            if (await self.info())["batch_size"] >= self._entry["group_size"]:
                self._waiting.over(WORKING)
                return self.registration.env_id
            await self._wait_for_trainer()

    async def send(self, endpoint: Endpoint[Done], body: Sequence[bytes]) -> None:
        """Send groups once, without retries; raises RunApiFault. The caller must await `clear_to_send` right before."""
        # The caller logs error replies.
        await self._try_once(endpoint, body, own_errors=range(200, 600))

    async def leave(self) -> None:
        """Disconnect, unless run-api no longer knows this environment. A second call has no effect."""
        if self._left or self._registration is None:
            return
        self._left = True
        try:
            async with asyncio.timeout(self.leave_timeout_s):
                if await self._own_status() is None:
                    logger.info("run-api no longer knows this environment; there is nothing to disconnect")
                    return
                await request(self._url, LEAVE, {"env_id": self._registration.env_id})
            logger.info("disconnected from run-api")
        except (RunApiFault, TimeoutError) as error:  # the environment ends in any case
            logger.info("disconnecting from run-api failed: %s", str(error) or "no reply")

    async def _register(self) -> None:
        """Wait for a trainer, and register this environment, with as many retries as needed."""
        waits = pauses()
        while True:
            # A trainer may request batches before it registers. Environments could register then, but the trainer's
            # registration would clear them.
            if (await self.info())["batch_size"] != -1:
                try:
                    reply = await self._try_once(REGISTER, self._entry)
                except RunApiFault:
                    await asyncio.sleep(min(next(waits), self.longest_pause_s))
                    continue
                if isinstance(reply, Registration):
                    break
            await self._wait_for_trainer()
        self._registration = reply
        self._step = self._registration.starting_step
        logger.info(
            "registered at run-api as environment %d; the trainer is at step %d", self._registration.env_id, self._step
        )

    async def _own_status(self) -> EnvironmentStatus | None:
        """Return this environment's status at run-api; None if run-api has none, or if the trainer's step decreased."""
        number = {"env_id": self.registration.env_id}
        try:
            status = await self._ask(STATUS, number, own_errors=(500,))
        except RunApiFault:
            return None
        if status["current_step"] < self._step:
            return None
        self._step = status["current_step"]
        return status

    async def _wait_for_trainer(self) -> None:
        remedy = ""
        if self._waiting.duration_s >= self.trainer_patience_s:  # a restarted trainer registers within seconds
            remedy = (
                "; if the trainer has already tried to register, run-api ignored the trainer, because a group had "
                f"arrived first: call {self._url}/reset_data or restart run-api, then restart the trainer"
            )
        self._waiting.note(
            "waiting for a trainer to register at run-api with a batch size of at least "
            f"{self._entry['group_size']} (the group size){remedy}"
        )
        await asyncio.sleep(self.longest_pause_s)

    async def _ask(self, endpoint: Endpoint[T], body: object = None, *, own_errors: Container[int | None] = ()) -> T:
        """Return the reply to a request, with retries.

        Raises RunApiFault, without a retry, for an error reply with a status in `own_errors`.
        """
        waits = pauses()
        while True:
            try:
                reply = await self._try_once(endpoint, body, own_errors=own_errors)
            except RunApiFault as fault:
                if fault.status in own_errors:
                    raise
                # After the first reply of run-api, an error status may come from a proxy before an unreachable run-api.
                if fault.status is not None and fault.status < 500 and not self._has_replied:
                    raise ServerError(str(fault), remedy=f"correct {{env.rollout_server_url}} ({self._url})") from None
                await asyncio.sleep(min(next(waits), self.longest_pause_s))
            else:
                self._has_replied = True
                return reply

    async def _try_once(
        self, endpoint: Endpoint[T], body: object = None, *, own_errors: Container[int | None] = ()
    ) -> T:
        """Send one request, and log if run-api is unreachable, slow, or reachable again.

        Raises RunApiFault if the request fails. A failure with a status in `own_errors` counts as a reply.
        """
        slow = asyncio.get_running_loop().call_later(
            self.slow_reply_s, self._absence.note, f"waiting for a reply from run-api at {self._url}; check its log"
        )
        try:
            reply = await request(self._url, endpoint, body)
        except RunApiFault as fault:
            if fault.status in own_errors:
                self._absence.over(f"run-api at {self._url} replies again")
            else:
                self._absence.note(f"waiting for run-api at {self._url} ({fault}); start it with `run-api`")
            raise
        finally:
            slow.cancel()
        self._absence.over(f"run-api at {self._url} replies again")
        return reply


def always_fill_batches(batch_size: int, group_sizes: Collection[int]) -> bool:
    """Return True if groups of these sizes fill every batch of run-api, in whatever order the groups arrive.

    Run-api combines groups of equal size into packs. Each pack has as many rollouts as one group of the largest size.
    A batch consists of whole packs. If packs do not fill a batch exactly, run-api returns no batch.
    """
    largest = max(group_sizes)
    return batch_size % largest == 0 and all(largest % size == 0 for size in group_sizes)


class TrainerWatch:
    """Logs a warning if run-api has enough completions for a batch, but the trainer does not get the batch."""

    patience_s = 60.0
    """Log a warning if the trainer leaves a complete batch at run-api for this many seconds."""

    def __init__(self) -> None:
        self._taken_at = time.monotonic()
        self._idle = OutageLog(logger)

    def note(self, *, batch_waits: bool, batch_size: int, group_sizes: Collection[int]) -> None:
        """Warn if `batch_waits` was True in every call of the last `patience_s` seconds."""
        now = time.monotonic()
        if not batch_waits:
            self._taken_at = now
            self._idle.over("the trainer requests batches again")
        elif now - self._taken_at > self.patience_s:
            sizes = " and ".join(map(str, group_sizes))
            self._idle.note(
                "a complete batch waits at run-api, but the trainer does not fetch it; check whether the trainer runs"
                if always_fill_batches(batch_size, group_sizes)
                else f"run-api returns no batch of {batch_size} to the trainer, probably because groups of {sizes} do "
                "not fill a batch exactly; set group sizes that all divide the largest group size, and a batch size "
                "that is a multiple of the largest group size"
            )
