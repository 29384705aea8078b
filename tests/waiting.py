"""Wait with a generous time limit for events that have no notification."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from reasoning_gym_testing import wait_until as wait_for

PATIENCE_S = 300.0
"""Time limit for busy machines. A passing test waits much less."""


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.002)


def wait_until(condition: Callable[[], object], what: str = "what was waited for") -> None:
    wait_for(condition, PATIENCE_S, what)
