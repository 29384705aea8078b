"""When a checkpoint of the environment is saved, and what it holds beside the state."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from ..checkpoints.keeper import StateKeeper
from .run_api import DeliveryQueue

logger = logging.getLogger(__name__)

SAVE_INTERVAL_S = 10.0
"""How often the state is saved beside the trainer's checkpoints, in case the environment is killed."""


class Checkpointer:
    """Has `keeper` save what `collect` returns and what waits for delivery; used on the event loop."""

    def __init__(self, keeper: StateKeeper, queue: DeliveryQueue, collect: Callable[[], Mapping[str, Any]]) -> None:
        self._keeper = keeper
        self._queue = queue
        self._collect = collect

    def save(self, step: int, *, latest: bool = False) -> None:
        """Save under the step and as the latest, or only as the latest; a thread writes the file."""
        if self._keeper.folder is not None:
            queue = self._queue
            self._keeper.save(step, self._collect(), queue.waiting(), queue.delivered_up_to, latest=latest)

    async def save_regularly(self, progress: Callable[[], tuple[int, object]]) -> None:
        """Save the latest state while it changes; `progress` returns the step, and what changes with the state."""
        saved: object = None
        while True:
            await asyncio.sleep(SAVE_INTERVAL_S)
            now = progress()
            # In an outage nothing changes, but a great deal may wait.
            if now == saved or self._keeper.busy:
                continue
            try:
                self.save(now[0], latest=True)
                saved = now
            except Exception:
                logger.exception("the state could not be saved")
