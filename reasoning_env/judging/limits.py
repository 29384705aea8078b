"""Limits of a judge server: the size of a request, the memory of all requests, and the time of a client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

HEAD_TIMEOUT_S = 10.0
"""Seconds for the head of a request, and between two requests of a connection."""
BODY_TIMEOUT_S = 30.0
"""Seconds in which the client sends the body of a request."""
REPLY_TIMEOUT_S = 30.0
"""Seconds in which the client reads the reply."""
BODIES_AT_ONCE = 18
"""Bodies of the largest size that the server holds at a time, from the first byte until the reply is sent."""
TEXTS_AT_ONCE = 2
"""Requests of the largest size whose texts the server holds at a time: decoded texts may be four times as large."""


class JudgeLimits(BaseModel):
    """Limits of one request to a judge server."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    max_texts: Annotated[int, Field(ge=1, le=1_000_000)] = 4096
    """Most completions in a request."""
    max_body_mb: Annotated[int, Field(ge=1, le=1024)] = 12
    """Largest body of a request, in megabytes. A group of 64 completions of 32,000 tokens has about 8. While the server
    reads a body of 12, other requests wait for 50 ms at most."""

    @property
    def max_body_bytes(self) -> int:
        """Largest body of a request."""
        return self.max_body_mb * 2**20

    @property
    def max_values(self) -> int:
        """Most JSON values in a request: the three lists of /get_reward, and prompts that are lists of messages."""
        return 8 * self.max_texts + 64


class Room:
    """A semaphore that counts bytes: who asks for more bytes than are free waits until others have left.

    Small requests may overtake large ones, so a small request waits only where every byte is taken.
    """

    def __init__(self, size: int) -> None:
        self._free = size
        self._left = asyncio.Event()

    @asynccontextmanager
    async def take(self, size: int) -> AsyncIterator[None]:
        """Hold `size` bytes, at most the room's size, while the caller is inside."""
        while size > self._free:
            self._left.clear()
            await self._left.wait()
        self._free -= size
        try:
            yield
        finally:
            self._free += size
            self._left.set()
