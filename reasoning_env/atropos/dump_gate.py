"""Hold groups and problems back until dumps are on disk."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Future

from ..dumps.writer import RolloutDumper

logger = logging.getLogger(__name__)

PATIENCE_S = 10.0
"""How long a disk may take for a group before groups go on without it."""


class DumpGate:
    """Open while all groups that were taken for dumping are on disk, or the disk refuses them."""

    def __init__(self, dumper: RolloutDumper | None) -> None:
        self._dumper = dumper
        self._stuck: Future[None] | None = None

    async def wait(self) -> None:
        """Return when the gate is open, or the disk has hung without an error for PATIENCE_S, until it goes on."""
        if self._dumper is None or self._hangs():
            return
        settled = self._dumper.settled()
        if settled.done() or (await asyncio.wait([asyncio.wrap_future(settled)], timeout=PATIENCE_S))[0]:
            return
        if not self._hangs():
            self._stuck = settled
            logger.error("rollouts were not written within %g s; groups do not wait for the disk now", PATIENCE_S)

    def _hangs(self) -> bool:
        return self._stuck is not None and not self._stuck.done()
