"""Requests to Atropos' run-api, and an environment's registration there.

What run-api can and cannot tell (atroposlib 0.4.0), and what follows:

- Environments have no identity. Numbers count registrations from 0, and begin again after a restart and after
  `/reset_data`. A request with an unassigned number gets status 500; any other answer does not say whose number
  it is. An environment registers again if its number is unknown or the step went back. After a restart two
  environments share a number if one registers before the other asks again, at a step that did not go back.
- A registration whose reply was lost leaves an entry behind. The entry takes a share of the work, and with a
  `min_batch_allocation` it stops all batches, until run-api is restarted.
- A group that arrives before a trainer has registered breaks run-api: `/register` then has no effect, for good. Only
  `/reset_data` or a restart mends that, and either would cost other environments their groups. For that reason `/info`
  is asked right before groups are sent. A reset between the two cannot be excluded; the log then says what helps.
- After `/reset_data`, a trainer that asks for a batch opens the registration of environments although the trainer is
  not registered itself; its own registration then clears all entries. `/info` tells a batch size of -1 until then.
- A group larger than the trainer's batch blocks run-api's queue: no such group is sent.
- Groups have no ids. A group whose connection broke is sent again, and may arrive twice.
"""

from __future__ import annotations

import asyncio
import logging
import math
import socket
import time
from collections.abc import AsyncIterator, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, NotRequired, TypedDict, TypeVar

import aiohttp
import msgspec

from ..errors import ServerError
from ..runtime.retries import OutageLog, pauses
from ..runtime.text import named

logger = logging.getLogger(__name__)


T = TypeVar("T")

# What run-api replies, checked where it arrives. A number out of its range is no answer of run-api's: a step of 10**9
# would end the run with status 0. A step a second makes 10**8 in three years.
BoundedCount = Annotated[int, msgspec.Meta(ge=0, lt=10**8)]
Choice = Annotated[int, msgspec.Meta(ge=-1, lt=10**8)]
"""A number of the trainer's, -1 if the trainer sets none."""
FolderName = Annotated[str, msgspec.Meta(pattern=r"^[^\0]*\Z")]
"""A path, in which no system takes a null character."""
MAX_REPLY_BYTES = 2**20
"""Longest reply that is read. Run-api's own have a few hundred bytes."""


class Welcome(TypedDict):
    message: str


class WandbInfo(TypedDict):
    group: NotRequired[str | None]
    project: str | None


class TrainerInfo(TypedDict):
    batch_size: Choice
    max_token_len: Choice


class EnvironmentStatus(TypedDict):
    """The state of an environment. `env_weight` is its share of the work, 1 at most but for rounding.

    `unallocated_fraction` is read by BaseEnv.
    """

    current_step: BoundedCount
    queue_size: BoundedCount
    self_queue_size: BoundedCount
    max_group_size: Annotated[int, msgspec.Meta(ge=1, lt=10**8)]
    env_weight: Annotated[float, msgspec.Meta(ge=0, le=2)]
    unallocated_fraction: Annotated[float, msgspec.Meta(ge=0, le=1)]


class Registration(msgspec.Struct, frozen=True, tag_field="status", tag="success"):
    """Run-api's answer to a registration."""

    env_id: BoundedCount
    wandb_name: str
    checkpoint_dir: FolderName
    starting_step: BoundedCount
    checkpoint_interval: Choice
    num_steps: Choice


class TooEarly(msgspec.Struct, frozen=True, tag_field="status", tag="wait for trainer to start"):
    """Run-api's answer to a registration before the trainer's."""


class Done(TypedDict):
    status: str


@dataclass(frozen=True)
class Endpoint(Generic[T]):
    """A request that run-api takes. `decoder` reads the reply; another reply is a fault."""

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
    """A request without an answer, or with an error as the answer; `status` is the HTTP status, None for no answer."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


CONNECT_TIMEOUT_S = 5.0
"""Seconds until a connection must be there: Linux tries at 0, 1 and 3 s."""


async def request(url: str, endpoint: Endpoint[T], body: object = None) -> T:
    """Make a request to the run-api at `url`, one try, and return the reply; raises RunApiFault.

    Replies have no time limit: a slow run-api has taken the request. Each request opens a connection of its own: a
    server can close a connection at the moment that the client uses it again, and a group would be sent twice. The body
    is a mapping that JSON can hold, or JSON in gzip as a list of pieces.
    """
    sent: Mapping[str, Any] = {"json": body}
    if isinstance(body, list):
        headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        headers["Content-Length"] = str(sum(map(len, body)))
        sent = {"data": _piece_a_turn(body), "headers": headers}
    connector = aiohttp.TCPConnector(force_close=True, socket_factory=_make_socket)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        try:
            async with session.request(endpoint.method, f"{url}{endpoint.path}", **sent) as response:
                reply, status = await _read(response), response.status
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise RunApiFault(str(error)) from error
        except (aiohttp.ClientError, OSError) as error:
            raise RunApiFault(named(error)) from error
    reason = f"status {status}"
    if status < 400:
        try:
            return endpoint.decoder.decode(reply)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            reason = f"{reason}, {error}"
    text = " ".join(reply[:200].decode(errors="replace").split())
    raise RunApiFault(f"the answer to {endpoint.path} is not run-api's ({reason}): {text}", status=status)


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """Return the body of a reply. Raises RunApiFault for a body of more than MAX_REPLY_BYTES."""
    body = b""
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > MAX_REPLY_BYTES:
            raise RunApiFault("the reply is too long", status=response.status)
    return body


async def _piece_a_turn(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Yield the pieces of a body, with a turn of the event loop before each."""
    for piece in pieces:
        await asyncio.sleep(0)
        yield piece


def _make_socket(address: tuple[Any, ...]) -> socket.socket:
    """Make a socket whose connection breaks after its host has been silent for 30 s.

    Observed with an ordinary socket: the host vanished before its reply (its network interface was taken down), and the
    request was still waiting after 4 minutes. With this socket the request failed after 36 s.
    """
    family, socket_type, protocol, _, _ = address
    connection = socket.socket(family, socket_type, protocol)
    connection.setblocking(False)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # 10 s of silence, then four probes 5 s apart. The last option, in ms, limits the wait for an acknowledgement of
    # data.
    options = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4, "TCP_USER_TIMEOUT": 30_000}
    for name, value in options.items():
        if hasattr(socket, name):  # macOS lacks some
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return connection


WORKING = "run-api has a trainer and knows this environment"


class RunApiSession:
    """Keeps an environment registered at run-api. Used on one event loop.

    All coroutines but `leave` and `send` wait while run-api is away, and raise ServerError if the first answer at `url`
    is not run-api's.

    Args:
        url: Address of run-api.
        entry: Content of the request to `/register-env`.
    """

    longest_pause_s = 1.0
    """Maximum seconds between two requests: a late environment may share a number after a restart."""
    slow_reply_s = 10.0
    """Seconds without a reply after which the log says so."""
    trainer_patience_s = 30.0
    """Seconds without a trainer after which the log names the other cause."""
    leave_timeout_s = 3.0
    """Seconds for the farewell at the end, which a run-api that is away must not hold up."""

    def __init__(self, url: str, entry: Mapping[str, object]) -> None:
        self._url = url.rstrip("/")
        self._entry: dict[str, Any] = dict(entry)
        self._registration: Registration | None = None
        self._registering = asyncio.Lock()
        self._step = 0
        """Step of the trainer, as run-api told it last."""
        self._left = False
        self._met = False
        """Whether run-api has answered once."""
        self._absence = OutageLog(logger)
        """Requests have no answer of run-api."""
        self._waiting = OutageLog(logger)
        """Run-api answers, but has no trainer or does not know this environment."""

    @property
    def registration(self) -> Registration:
        """The current registration; a new object after each registration."""
        assert self._registration is not None, "call register() first"
        return self._registration

    async def wait_until_there(self, timeout_s: float) -> None:
        """Wait until run-api answers; raises ServerError after `timeout_s`, which may be infinite."""
        try:
            async with asyncio.timeout(None if math.isinf(timeout_s) else timeout_s):
                await self._ask(WELCOME)
        except TimeoutError as error:
            raise ServerError(
                f"run-api is not at {self._url}", remedy="start it with `run-api`, or correct {env.rollout_server_url}"
            ) from error

    async def wandb_group_and_project(self) -> tuple[str | None, str]:
        """Return wandb's group and project, with which the trainer registered; waits for the trainer."""
        while (project := (info := await self._ask(WANDB_INFO))["project"]) is None:
            await self._wait_for_trainer()
        return info.get("group"), project

    async def register(self) -> Registration:
        """Register as soon as a trainer has registered and asks for batches; does nothing the second time."""
        async with self._registering:
            if self._registration is None:
                await self._register()
                self._waiting.over(WORKING)
        return self.registration

    async def info(self) -> TrainerInfo:
        """Return batch size and token limit of the trainer."""
        return await self._ask(TRAINER_INFO)

    async def status(self) -> EnvironmentStatus:
        """Return the state of this environment at run-api; registers again if run-api has forgotten the environment."""
        async with self._registering:
            status = await self._own_status()
            if status is not None:
                return status
            logger.info("run-api has forgotten environment %d, which registers again", self.registration.env_id)
            waits = pauses()
            while True:
                await self._register()
                status = await self._own_status()
                if status is not None:
                    self._waiting.over(WORKING)
                    return status
                self._waiting.note(
                    f"run-api reports no state of environment {self.registration.env_id}, which has just registered; "
                    f"it never does unless an inference_weight is above 0 (here {self._entry['weight']:.3g})"
                )
                await asyncio.sleep(next(waits))

    async def clear_to_send(self) -> int:
        """Return this environment's number, once run-api knows the number and a trainer takes groups of this size."""
        while True:
            await self.status()
            if (await self.info())["batch_size"] >= self._entry["group_size"]:
                self._waiting.over(WORKING)
                return self.registration.env_id
            await self._wait_for_trainer()

    async def send(self, endpoint: Endpoint[Done], body: Sequence[bytes]) -> None:
        """Send groups, right after `clear_to_send`, in one try; raises RunApiFault."""
        # The sender logs answers with an error.
        await self._try_once(endpoint, body, answers=range(200, 600))

    async def leave(self) -> None:
        """Disconnect, unless run-api has forgotten this environment. Safe to call twice."""
        if self._left or self._registration is None:
            return
        self._left = True
        try:
            async with asyncio.timeout(self.leave_timeout_s):
                if await self._own_status() is None:
                    logger.info("run-api has forgotten this environment, and is not told of its end")
                    return
                await request(self._url, LEAVE, {"env_id": self._registration.env_id})
            logger.info("disconnected from run-api")
        except (RunApiFault, TimeoutError) as error:  # the environment ends all the same
            logger.info("run-api could not be told that this environment ends: %s", str(error) or "no reply")

    async def _register(self) -> None:
        """Register, in as many tries as needed; waits for a trainer."""
        waits = pauses()
        while True:
            # A trainer that asks for batches before it registers lets environments in; its registration clears them.
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
        logger.info("registered at run-api with the number %d, at step %d", self._registration.env_id, self._step)

    async def _own_status(self) -> EnvironmentStatus | None:
        """Return this environment's state at run-api; None if its number is unknown there, or the step went back."""
        number = {"env_id": self.registration.env_id}
        try:
            status = await self._ask(STATUS, number, answers=(500,))
        except RunApiFault:
            return None
        if status["current_step"] < self._step:
            return None
        self._step = status["current_step"]
        return status

    async def _wait_for_trainer(self) -> None:
        remedy = ""
        if self._waiting.duration_s >= self.trainer_patience_s:  # a trainer after another registers within seconds
            remedy = (
                "; if a trainer has registered, a group reached run-api before the trainer: "
                f"call {self._url}/reset_data or restart run-api, then register the trainer again"
            )
        self._waiting.note(
            "waiting for a trainer to register at run-api and to ask for batches that hold a group of "
            f"{self._entry['group_size']}{remedy}"
        )
        await asyncio.sleep(self.longest_pause_s)

    async def _ask(self, endpoint: Endpoint[T], body: object = None, *, answers: Container[int | None] = ()) -> T:
        """Return the reply, however late. Raises RunApiFault for a reply with a status in `answers`."""
        waits = pauses()
        while True:
            try:
                reply = await self._try_once(endpoint, body, answers=answers)
            except RunApiFault as fault:
                if fault.status in answers:
                    raise
                # After the first answer, a proxy may answer in place of a run-api that is away.
                if fault.status is not None and fault.status < 500 and not self._met:
                    raise ServerError(str(fault), remedy=f"correct {{env.rollout_server_url}} ({self._url})") from None
                await asyncio.sleep(min(next(waits), self.longest_pause_s))
            else:
                self._met = True
                return reply

    async def _try_once(self, endpoint: Endpoint[T], body: object = None, *, answers: Container[int | None] = ()) -> T:
        """Make a request, and log if run-api is away, does not reply, or answers again; raises RunApiFault.

        A fault with a status in `answers` is run-api's own answer: run-api is not away.
        """
        slow = asyncio.get_running_loop().call_later(
            self.slow_reply_s, self._absence.note, f"waiting for run-api at {self._url}: it does not reply"
        )
        try:
            reply = await request(self._url, endpoint, body)
        except RunApiFault as fault:
            if fault.status in answers:
                self._absence.over(f"run-api at {self._url} answers again")
            else:
                self._absence.note(f"waiting for run-api at {self._url} ({fault})")
            raise
        finally:
            slow.cancel()
        self._absence.over(f"run-api at {self._url} answers again")
        return reply


class TrainerWatch:
    """Logs that the trainer takes no batches."""

    patience_s = 60.0
    """Seconds that a whole batch may lie at run-api before the log says so."""

    def __init__(self) -> None:
        self._taken_at = time.monotonic()
        self._idle = OutageLog(logger)

    def note(self, *, batch_waits: bool) -> None:
        """Note whether a whole batch waits at run-api for the trainer; called at each status request."""
        now = time.monotonic()
        if not batch_waits:
            self._taken_at = now
            self._idle.over("the trainer takes batches again")
        elif now - self._taken_at > self.patience_s:
            self._idle.note("waiting for the trainer: a whole batch lies at run-api, and the trainer takes none")
