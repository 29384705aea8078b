"""Send requests to a rate-limited server as fast as it accepts them."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable

from ..runtime.retries import FIRST_PAUSE_S, LONGEST_PAUSE_S

RATE_REPLIES = 10
"""Replies after which the rate of a server that refused a request is logged."""


class AdaptiveLimit:
    """Sends as many requests at a time as a server accepts.

    A server that limits its clients refuses requests, and may say how long to wait. Nothing is sent for that long. From
    then on each span of that length has a quota: as many requests as the server took since the refusal before. After a
    span without a refusal the quota grows. Without any refusal there is no quota.

    Where the server does not say how long to wait, spans have FIRST_PAUSE_S, or a quarter of the time in which nothing
    was taken if that is longer, and at most LONGEST_PAUSE_S. After a span without a refusal they halve: the server may
    be back from a restart and have no limit at all. `sent` requests were sent before, none of which was refused.
    """

    GROWTH = 1.25
    """Factor of the quota after a span without a refusal. Where a server takes 3 requests a second, 100 requests take
    1.0 to 1.2 times their own time, with 20 to 130 refusals; with a factor of 2, there are up to twice as many."""

    MARGIN = 1.05
    """Factor of the time that the server asks for: requests of two spans reach the server with other delays."""

    def __init__(self, sent: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._quota = math.inf
        self._sent = sent
        """Requests of the present span that were not refused."""
        self._span_s = 0.0
        self._is_asked = False
        """Whether the server asked for the length of the present span."""
        self._begins_s = -math.inf
        """When the present span begins; a pause lasts until then."""
        self._refused_s = -math.inf
        self._began_s = clock()
        self._replies = 0
        self._last_taken_s = clock()
        """When a refusal came after requests that were taken."""

    async def wait(self) -> float:
        """Wait until one more request may be sent; return the time, for `refused`."""
        while True:
            now_s = self._clock()
            ends_s = self._begins_s + self._span_s
            if now_s < self._begins_s:
                await asyncio.sleep(self._begins_s - now_s)
            elif now_s >= ends_s and self._quota < math.inf:
                self._begins_s, self._sent = now_s, 0
                self._quota = math.ceil(self._quota * self.GROWTH)
                self._span_s = max(self._span_s if self._is_asked else self._span_s / 2, FIRST_PAUSE_S)
            elif self._sent < self._quota:
                self._sent += 1
                return now_s
            else:
                await asyncio.sleep(ends_s - now_s)

    def refused(self, sent_s: float, wait_s: float | None) -> None:
        """Note that the request which was sent at a time was refused, and how long the server asks to wait, if it does.

        Requests that were sent together are refused together, which counts as one refusal.
        """
        now_s = self._clock()
        if sent_s <= self._refused_s:
            self._quota = max(1, self._quota - 1)
            self._begins_s = max(self._begins_s, now_s + (wait_s or 0.0))
            return
        taken = self._sent - 1
        if taken > 0:
            self._last_taken_s = now_s
        if taken > 0 or self._quota == math.inf:
            self._quota = max(1, taken)
        if wait_s is not None:
            self._span_s = wait_s * self.MARGIN
        else:
            self._span_s = min(max(FIRST_PAUSE_S, (now_s - self._last_taken_s) / 4), LONGEST_PAUSE_S)
        self._is_asked = wait_s is not None
        self._sent = 0
        self._refused_s = now_s
        self._begins_s = now_s + self._span_s

    def replied(self) -> float | None:
        """Note a reply. Returns the replies a second since the first refusal, at the reply number RATE_REPLIES."""
        self._replies += 1
        return self._replies / (self._clock() - self._began_s) if self._replies == RATE_REPLIES else None
