"""An environment's presence at run-api: it registers, registers again where it is forgotten, and says goodbye.

run-api has no identity: after a restart it gives the same numbers to other environments, and nothing that it says of a
number tells whose it is. But it counts the entries of each name. So an environment leaves a mark: a second entry, of no
weight, under a name that nobody else has. When run-api comes back from an absence, the mark is left again, and the
count that is told says whether the first one is still there.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .atropos.shutdown import finish_within
from .outage_log import OutageLog
from .outbox import Outbox
from .run_api import RunApi

logger = logging.getLogger(__name__)

MARK = "mark-"
NO_WEIGHT: Mapping[str, Any] = {"weight": 0.0, "min_batch_allocation": None}
MAX_PAUSE_S = 8.0
"""The longest pause between two registrations that have no effect."""
POLL_S = 1.0
GOODBYE_TIMEOUT_S = 3.0
TRAINER_PATIENCE_S = 60.0
"""How long a whole batch may lie at run-api before it is said that the trainer takes none."""


@dataclass(frozen=True)
class Registration:
    """What run-api answers; `num_steps` and `checkpoint_interval` are -1 where the trainer sets none."""

    env_id: int
    wandb_name: str
    checkpoint_dir: str
    starting_step: int
    checkpoint_interval: int
    num_steps: int


class Attendance:
    """Keeps an environment registered, and its `outbox` open exactly as long as it is.

    `entry` is what run-api is told of the environment. Everything here waits for a run-api that is away, and raises
    ServerError when something else answers in its place.
    """

    def __init__(self, run_api: RunApi, entry: Mapping[str, Any], outbox: Outbox) -> None:
        self._run_api = run_api
        self._entry = entry
        self._outbox = outbox
        self._env_id: int | None = None
        self._interruptions = 0
        self._mark: Mapping[str, Any] | None = None
        self._unknown = OutageLog(logger)
        self._idle = OutageLog(logger)
        self._idle_since = time.monotonic()

    async def register(self) -> Registration:
        """Register; the outbox stays closed."""
        reply = await self._run_api.register(self._entry)
        registration = Registration(**{name: reply[name] for name in Registration.__dataclass_fields__})
        self._env_id = registration.env_id
        self._interruptions = self._run_api.interruptions
        logger.info(
            "registered at run-api with the number %d, at step %d", registration.env_id, registration.starting_step
        )
        return registration

    def deliver(self) -> None:
        """Let the outbox send in the name of this environment."""
        assert self._env_id is not None, "register() comes first"
        self._outbox.open(self._env_id, interruptions=self._interruptions)

    async def status(self, registered: Callable[[Registration], Awaitable[None]]) -> dict[str, Any]:
        """What run-api says of the environment; `registered` is awaited whenever it had to register again for that."""
        assert self._env_id is not None, "register() comes first"
        pause_s = 0.0
        while (status := await self._run_api.status(self._env_id)) is None or await self._is_forgotten():
            if status is None:
                self._mark = None
            await registered(await self._register_again(pause_s))
            self.deliver()
            pause_s = min(2 * pause_s + 1.0, MAX_PAUSE_S)
        self._unknown.over("run-api tells the state again")
        if self._mark is None:
            self._mark = {**self._entry, **NO_WEIGHT, "desired_name": f"{MARK}{uuid.uuid4().hex}"}
            await self._run_api.register(self._mark)
        return status

    def watch_trainer(self, *, batch_waits: bool) -> None:
        """Say when a whole batch has waited at run-api for long, and nobody takes it."""
        now = time.monotonic()
        if not batch_waits:
            self._idle_since = now
            self._idle.over("the trainer takes batches again")
        elif now - self._idle_since > TRAINER_PATIENCE_S:
            self._idle.note("waiting for the trainer: a whole batch lies at run-api, and it takes none")

    async def say_goodbye(self) -> None:
        """Tell run-api that the environment leaves; safe to call twice, and when run-api is gone."""
        env_id, self._env_id = self._env_id, None
        if env_id is None:
            return
        try:
            await finish_within(self._run_api.disconnect(env_id), GOODBYE_TIMEOUT_S)
            logger.info("disconnected from run-api")
        except Exception as error:  # it may be gone; the end goes on without it
            logger.info("run-api could not be told that this environment ends: %s: %s", type(error).__name__, error)

    async def _is_forgotten(self) -> bool:
        """Whether another environment may have this one's number by now, so that the state was not of this one."""
        while self._outbox.is_open and (interruptions := self._run_api.interruptions) != self._interruptions:
            if self._mark is None or not await self._finds_mark(self._mark):
                return True
            self._interruptions = interruptions
        if not self._outbox.is_open:
            self._mark = None
            return True
        self.deliver()
        return False

    async def _finds_mark(self, mark: Mapping[str, Any]) -> bool:
        """Leave a mark again, and tell whether run-api has an earlier one; where that is not certain, it has not."""
        breaks = self._run_api.breaks
        reply = await self._run_api.register(mark)
        earlier = str(reply["wandb_name"]).rpartition("_")[2]
        # Of those that are there, requests that broke since may have left some.
        return earlier.isdecimal() and int(earlier) > self._run_api.breaks - breaks

    async def _register_again(self, pause_s: float) -> Registration:
        self._outbox.hold()
        if pause_s:
            self._unknown.note(
                f"run-api does not tell the state of environment {self._env_id}, though it has just registered; with "
                f"no inference_weight above 0 (here {self._entry.get('weight')}) it never does"
            )
        else:
            logger.warning("run-api was away or emptied, and may have forgotten this environment; it registers again")
        await asyncio.sleep(pause_s)
        old = self._env_id
        registration = await self.register()
        if old is not None and registration.env_id > old:
            # run-api still has the old entry, which would go on to have a share of the work.
            with contextlib.suppress(Exception):
                await self._run_api.disconnect(old)
        while (await self._run_api.info())["batch_size"] == -1:
            self._unknown.note(
                "run-api takes no trainer, because it was given a group before one had registered; empty it by "
                f"{self._run_api.url}/reset_data, or restart it, and start the trainer again"
            )
            await asyncio.sleep(POLL_S)
        return registration
