"""Limits of a judge server, and the account of the memory that its clients take."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from .replies import Refused

REQUEST_BYTES = 1 << 14
"""Bytes that a request takes beside its texts: 3,000 requests that waited took 14 kB each, with their connections."""


class JudgeLimits(BaseModel):
    """Limits of one request to a judge server, and of all requests."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    head_timeout_s: Annotated[float, Field(gt=0.0, le=3600.0)] = 10.0
    """Seconds for the head of a request, and between two requests of a connection."""
    transfer_timeout_s: Annotated[float, Field(gt=0.0, le=3600.0)] = 30.0
    """Seconds in which the client sends the body of a request, and in which it reads the reply."""
    max_texts: Annotated[int, Field(ge=1, le=1_000_000)] = 4096
    """Most completions in a request."""
    max_body_mb: Annotated[int, Field(ge=1, le=1024)] = 12
    """Largest body of a request, in megabytes. A group of 64 completions of 32,000 tokens has about 8. While the server
    reads a body of 12, other requests wait for 50 ms at most."""
    max_held_mb: Annotated[int, Field(ge=2, le=1_048_576)] = 512
    """Megabytes of all requests and replies that the server holds."""

    @property
    def max_values(self) -> int:
        """Most JSON values in a request: the three lists of /get_reward, and prompts that are lists of messages."""
        return 8 * self.max_texts + 64


@dataclass(eq=False)
class Holding:
    """What one request takes of an account, in bytes. `is_cut` tells that its transfer was ended to make room.

    The server makes one for each request and sets it three times: to the bytes of the body while they come, to what the
    record of the body takes while its answers are judged, and to the bytes of the reply while they go. A transfer may
    be cut to make room for another request; answers that are judged are not.
    """

    size: int = 0
    is_cut: bool = False


class Account:
    """Counts what all requests take, from the first bytes of a body until the last of the reply have gone.

    One rule where there is no room: the oldest transfer is ended, a body that still comes or a reply that still goes.
    So clients that send or read slowly lock nobody out. Whole requests stay until they have their verdicts; while they
    alone take everything, a request that needs more is refused.
    """

    def __init__(self, limits: JudgeLimits) -> None:
        self._limits = limits
        self._free_bytes = limits.max_held_mb * 2**20
        self._holdings: set[Holding] = set()
        self._transfers: dict[Holding, asyncio.Timeout] = {}
        """In the order in which they began."""

    @property
    def requests(self) -> int:
        """Number of the requests that take something."""
        return len(self._holdings)

    @property
    def held_bytes(self) -> int:
        """Bytes of all requests and replies."""
        return self._limits.max_held_mb * 2**20 - self._free_bytes

    def hold(self, holding: Holding, size: int) -> None:
        """Set what a request takes to `size` bytes and REQUEST_BYTES. Raises the reply 503 where there is no room."""
        self._set(holding, REQUEST_BYTES + size)
        while self._free_bytes < 0:
            oldest = next((other for other in self._transfers if other is not holding and other.size > 0), None)
            if oldest is None:
                self.release(holding)
                raise self.no_room()
            self._cut(oldest)

    def release(self, holding: Holding) -> None:
        """Take a request out of the account."""
        self._set(holding, 0)

    @asynccontextmanager
    async def transfer(self, holding: Holding) -> AsyncIterator[None]:
        """Limit the time in which a body comes, or a reply goes. Raises TimeoutError, also to make room for others."""
        async with asyncio.timeout(self._limits.transfer_timeout_s) as timeout:
            self._transfers[holding] = timeout
            try:
                yield
            finally:
                self._transfers.pop(holding, None)

    def no_room(self) -> Refused:
        """Return the reply to a request without room."""
        line = f"other requests take all of max_held_mb, {self._limits.max_held_mb} megabytes"
        return Refused(503, line, retry_after_s=1)

    def _set(self, holding: Holding, size: int) -> None:
        self._free_bytes += holding.size - size
        holding.size = size
        if size > 0:
            self._holdings.add(holding)
        else:
            self._holdings.discard(holding)

    def _cut(self, holding: Holding) -> None:
        timeout = self._transfers.pop(holding)
        if not timeout.expired():
            timeout.reschedule(asyncio.get_running_loop().time())
        holding.is_cut = True
        self.release(holding)
