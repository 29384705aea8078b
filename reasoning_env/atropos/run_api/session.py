"""The environment's registration at run-api: whether groups may be sent, and in whose name."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
import time
from collections.abc import Awaitable, Container, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, TypeVar

from ...errors import ServerError
from ...outage_log import OutageLog
from .client import SERVER_ERROR, RunApiClient, RunApiFault

logger = logging.getLogger(__name__)

RETRY_S = 0.2
POLL_S = 1.0
MAX_PAUSE_S = 8.0
"""The longest pause between two registrations that have no effect."""
RESTART_S = 0.4
"""run-api cannot be restarted in less."""
SLOW_S = 10.0
"""After so long without a reply the log says that one is waited for."""
LEAVE_TIMEOUT_S = 3.0
TRAINER_PATIENCE_S = 60.0
"""How long a whole batch may lie at run-api before the log says that the trainer takes none."""
ANSWERED: Container[int | None] = range(200, 600)
UNKNOWN_NUMBER = 500
"""How run-api answers /status-env for a number that it has not given."""
NO_TRAINER = -1
"""The batch size that a run-api without a trainer tells."""
MIN_SHARE = 0.01
"""run-api tells no smaller share of the weights."""
OWN_PART = 2.0**-12
"""At most so much of its weight a session adds to it, by chance, so that no other has the same."""

T = TypeVar("T")


class State(StrEnum):
    """What is known of the number that run-api gave. Groups are sent in `REGISTERED` only.

    A registration leads from any state to `REGISTERED`. An absence in which run-api may have been restarted, an answer
    that the number is unknown, and a step that went back lead from there to `UNCERTAIN`; leaving, to `UNREGISTERED`.
    """

    UNREGISTERED = "unregistered"
    REGISTERED = "registered"
    UNCERTAIN = "uncertain"


@dataclass(frozen=True)
class Registration:
    """What run-api answers; `num_steps` and `checkpoint_interval` are -1 where the trainer sets none."""

    env_id: int
    wandb_name: str
    checkpoint_dir: str
    starting_step: int
    checkpoint_interval: int
    num_steps: int


class RunApiSession:
    """Keeps an environment registered at the run-api at `url`; `entry` is what `/register-env` is sent.

    All coroutines but `leave` and `send` wait while run-api is away, and raise ServerError when the first answer at
    `url` is not run-api's. Used on one event loop.
    """

    def __init__(self, url: str, entry: Mapping[str, Any]) -> None:
        self._client = RunApiClient(url)
        self._entry = {**entry, "weight": entry["weight"] * (1 + OWN_PART * random.SystemRandom().random())}
        self._state = State.UNREGISTERED
        self._registration: Registration | None = None
        self._registering = asyncio.Lock()
        self._step = 0
        self._met = False
        self._failing_since = math.inf
        self._lost_number = False
        self._idle_since = time.monotonic()
        self._absence = OutageLog(logger)
        self._no_trainer = OutageLog(logger)
        self._unknown = OutageLog(logger)
        self._idle = OutageLog(logger)

    @property
    def state(self) -> State:
        return self._state

    @property
    def registration(self) -> Registration:
        """The one that counts; another object after the environment had to take another number."""
        assert self._registration is not None, "register() comes first"
        return self._registration

    async def wait_until_there(self, timeout_s: float) -> None:
        """Return when run-api answers; raises ServerError after `timeout_s`, which may be infinite."""
        try:
            async with asyncio.timeout(None if math.isinf(timeout_s) else timeout_s):
                await self._ask("GET", "/", ("message",))
        except TimeoutError as error:
            raise ServerError(
                f"run-api is not at {self._client.url}; start it with `run-api`, or correct env.rollout_server_url"
            ) from error

    async def wandb_group_and_project(self) -> tuple[str | None, str]:
        """Return what the trainer registered with; waits for it."""
        while (info := await self._ask("GET", "/wandb_info", ("project",)))["project"] is None:
            await self._wait_for_trainer()
        return info.get("group"), info["project"]

    async def register(self) -> Registration:
        """Register, as soon as a trainer has and asks for batches."""
        async with self._registering:
            while self._registration is None:
                await self._register()
        return self._registration

    async def info(self) -> dict[str, Any]:
        """Return `batch_size` and `max_token_len` of the trainer; -1 where it sets none."""
        return await self._ask("GET", "/info", ("batch_size", "max_token_len"))

    async def status(self) -> dict[str, Any]:
        """Return what run-api says of this environment, after registering again where that is needed."""
        assert self._state is not State.UNREGISTERED, "register() comes first"
        async with self._registering:
            pause_s = 0.0
            while True:
                number = self.registration.env_id
                status = await self._status_of(number)
                if status is None or status["current_step"] < self._step:
                    self._doubt()
                if status is not None and self._state is State.REGISTERED:
                    self._unknown.over("run-api tells the state again")
                    self._step = status["current_step"]
                    return status
                if not pause_s:
                    logger.info("run-api may have forgotten environment %d, which registers again", number)
                else:
                    self._unknown.note(
                        f"run-api does not tell the state of environment {number}, which has just registered; with no "
                        f"inference_weight above 0 (here {self._entry['weight']:.3g}) it never does"
                    )
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s + 1.0, MAX_PAUSE_S)
                await self._register()

    async def clear_to_send(self) -> int:
        """Return the number to send as, once run-api knows it and a trainer takes groups of this size."""
        while True:
            await self.status()
            if (await self.info())["batch_size"] < self._entry["group_size"]:
                await self._wait_for_trainer()
            elif self._state is State.REGISTERED:
                self._no_trainer.over("a trainer is there")
                return self.registration.env_id

    async def send(self, path: str, body: bytes) -> None:
        """Send groups, right after `clear_to_send`, in one try; raises RunApiFault."""
        await self._attempt(self._client.ask("POST", path, ("status",), body), ANSWERED)

    def watch_trainer(self, *, batch_waits: bool) -> None:
        """Say when a whole batch has waited at run-api for long, and nobody takes it."""
        now = time.monotonic()
        if not batch_waits:
            self._idle_since = now
            self._idle.over("the trainer takes batches again")
        elif now - self._idle_since > TRAINER_PATIENCE_S:
            self._idle.note("waiting for the trainer: a whole batch lies at run-api, and it takes none")

    async def leave(self) -> None:
        """Disconnect, unless the number may be another's by now; does nothing the second time."""
        state, self._state = self._state, State.UNREGISTERED
        if state is State.REGISTERED:
            number = self.registration.env_id
            try:
                async with asyncio.timeout(LEAVE_TIMEOUT_S):
                    # Nobody may have asked for a while, and run-api may have been restarted meanwhile.
                    status = await self._status_of(number)
                    if status is None or status["current_step"] < self._step:
                        state = State.UNCERTAIN
                    else:
                        await self._disconnect(number)
                        logger.info("disconnected from run-api")
            except (RunApiFault, TimeoutError) as error:  # the end goes on without it
                logger.info("run-api could not be told that this environment ends: %s", str(error) or "no reply")
        if state is State.UNCERTAIN:
            logger.info("run-api is not told that this environment ends: it was away, and may have forgotten it")

    # ------------------------------------------------------------------ registering

    async def _register(self) -> None:
        """Register; where run-api has the old number still, keep that and give the new one back."""
        old, new = self._registration, await self._take_number()
        self._state = State.REGISTERED
        candidates = range(new.env_id) if self._lost_number else [] if old is None else [old.env_id]
        own = [number for number in candidates if number < new.env_id and await self._is_own(number, new.env_id)]
        if self._state is State.UNCERTAIN:  # run-api went away meanwhile, so that the comparison says nothing
            self._lost_number = True
            return
        if old is not None and old.env_id in own:
            kept = old.env_id
            logger.info("run-api still knows this environment, by the number %d", kept)
        else:
            kept, self._registration, self._step = new.env_id, new, new.starting_step
            logger.info("registered at run-api with the number %d, at step %d", kept, new.starting_step)
        self._lost_number = False
        with contextlib.suppress(RunApiFault):  # after another absence the rest may be others'
            for number in {*own, new.env_id} - {kept}:
                await self._attempt(self._disconnect(number))

    async def _take_number(self) -> Registration:
        """Register as often as it takes; waits for a trainer."""
        while True:
            # Until the trainer has registered, its asking for batches can let environments in, which it then clears.
            if (await self.info())["batch_size"] != NO_TRAINER:
                try:
                    reply = await self._attempt(self._client.ask("POST", "/register-env", ("status",), self._entry))
                except RunApiFault as fault:
                    self._lost_number |= fault.maybe_taken
                    await asyncio.sleep(RETRY_S)
                    continue
                if reply["status"] == "success":
                    self._no_trainer.over("a trainer is there")
                    return Registration(**{field.name: reply[field.name] for field in fields(Registration)})
            await self._wait_for_trainer()

    async def _is_own(self, number: int, known: int) -> bool:
        """Tell whether a number has exactly the share of `known`, which is this environment's own."""
        while True:
            before, share, after = [await self._share(one) for one in (number, known, number)]
            if share is None:  # it was given a moment ago
                self._doubt()
            if before == after:  # otherwise somebody came or left
                return share is not None and share > MIN_SHARE and share == before

    async def _share(self, number: int) -> float | None:
        status = await self._status_of(number)
        return None if status is None else status["env_weight"]

    async def _status_of(self, number: int) -> dict[str, Any] | None:
        keys = ("current_step", "queue_size", "env_weight")
        with contextlib.suppress(RunApiFault):
            return await self._ask("GET", "/status-env", keys, {"env_id": number}, answers=(UNKNOWN_NUMBER,))
        return None

    async def _wait_for_trainer(self) -> None:
        self._no_trainer.note(
            "waiting for a trainer to register at run-api and to ask for batches that hold a group of "
            f"{self._entry['group_size']}; where one has, run-api was given a group before that, and gets over it by "
            f"{self._client.url}/reset_data or a restart only, after which the trainer must register again"
        )
        await asyncio.sleep(POLL_S)

    async def _disconnect(self, number: int) -> None:
        await self._client.ask("POST", "/disconnect-env", (), {"env_id": number})

    # ------------------------------------------------------------------ requests

    async def _ask(
        self, method: str, path: str, keys: Sequence[str], body: Any = None, *, answers: Container[int | None] = ()
    ) -> dict[str, Any]:
        """Return a reply with these keys, however late; raises RunApiFault for a status in `answers`."""
        while True:
            try:
                reply = await self._attempt(self._client.ask(method, path, keys, body), answers)
            except RunApiFault as fault:
                if fault.status in answers:
                    raise
                # Later, whatever stands between may answer in place of a run-api that is away.
                if fault.status is not None and fault.status < SERVER_ERROR and not self._met:
                    raise ServerError(f"{fault}; correct env.rollout_server_url ({self._client.url})") from None
                await asyncio.sleep(RETRY_S)
            else:
                self._met = True
                return reply

    async def _attempt(self, request: Awaitable[T], answers: Container[int | None] = ()) -> T:
        """Make a request and note whether run-api was there; it was where the status is one of `answers`."""
        began = time.monotonic()
        silent = f"waiting for run-api at {self._client.url}: it does not reply"
        slow = asyncio.get_running_loop().call_later(SLOW_S, self._absence.note, silent)
        try:
            result = await request
        except RunApiFault as fault:
            if fault.status in answers:
                self._note_presence()
            else:
                self._note_absence(fault, began)
            raise
        finally:
            slow.cancel()
        self._note_presence()
        return result

    def _note_absence(self, fault: RunApiFault, began: float) -> None:
        self._failing_since = min(began, self._failing_since)
        # A request that breaks, or an error, may come from a run-api that lives on, unless there was time to restart.
        if fault.unreachable or time.monotonic() - self._failing_since >= RESTART_S:
            self._doubt()
        self._absence.note(f"waiting for run-api at {self._client.url} ({fault})")

    def _note_presence(self) -> None:
        self._failing_since = math.inf
        self._absence.over(f"run-api at {self._client.url} answers again")

    def _doubt(self) -> None:
        if self._state is State.REGISTERED:
            self._state = State.UNCERTAIN
