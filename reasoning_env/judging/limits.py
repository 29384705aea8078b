"""Limits of a judge server: the size of a request, the memory of all requests, and the time for a client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

HEAD_TIMEOUT_S = 10.0
"""Time limit for the head of a request, and for the pause between two requests of a connection."""
BODY_TIMEOUT_S = 30.0
"""Time limit for sending the body of a request."""
REPLY_TIMEOUT_S = 30.0
"""Time limit for reading the reply."""
BODIES_AT_ONCE = 18
"""Number of bodies of the largest size that may be in memory, each from its first byte until its reply is sent."""
TEXTS_AT_ONCE = 2
"""Number of requests of the largest size that may be decoded; decoded, a body may take four times its memory."""


class JudgeLimits(BaseModel):
    """Limits of a request to a judge server."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    max_texts: Annotated[int, Field(ge=1, le=1_000_000)] = 4096
    """maximum completions per request"""
    max_body_mb: Annotated[int, Field(ge=1, le=1024)] = 12
    """maximum body of a request in megabytes; 64 completions of 32,000 tokens have about 8 MB"""

    @property
    def max_body_bytes(self) -> int:
        """Maximum size of a request's body, in bytes."""
        return self.max_body_mb * 2**20

    @property
    def max_values(self) -> int:
        """Maximum JSON values in a request: enough for the three lists of /get_reward, with prompts as messages."""
        return 8 * self.max_texts + 64


class Room:
    """A semaphore that counts bytes: a caller waits until enough bytes are free.

    Small requests may overtake large ones, so a small request waits only if no byte is free.
    """

    def __init__(self, size: int) -> None:
        self._free = size
        self._left = asyncio.Event()

    @asynccontextmanager
    async def take(self, size: int) -> AsyncIterator[None]:
        """Reserve `size` bytes inside the context; `size` must not exceed the room's size."""
        while size > self._free:
            self._left.clear()
            await self._left.wait()
        self._free -= size
        try:
            yield
        finally:
            self._free += size
            self._left.set()
