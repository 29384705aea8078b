"""Send requests to a rate-limited server as fast as it accepts them."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable

from ..runtime.retries import FIRST_PAUSE_S, LONGEST_PAUSE_S

RATE_REPLIES = 10
"""The rate of replies is logged after this many replies since the first refusal."""


class AdaptiveLimit:
    """Limits the rate of requests to the rate that a server accepts. There is no limit before the first refusal.

    A server that limits its clients refuses requests, and may say how long to wait. After a refusal, no request is sent
    for that long. Then time is divided into spans of that length, and each span has a quota of requests: the number
    that the server accepted in the span before it refused one. After a span without a refusal, the quota grows.

    If the server does not say how long to wait, this class chooses the length of the spans: a quarter of the time since
    the server last accepted a request, but at least FIRST_PAUSE_S and at most LONGEST_PAUSE_S. After a span without a
    refusal, these spans become half as long, because a server that only restarted may have no limit. `sent` is the
    number of requests that were sent up to the first refusal.
    """

    GROWTH = 1.25
    """The quota of requests is multiplied by this after a time span without a refusal. If a server accepts 3 requests
    per second, 100 requests take 1.0 to 1.2 times the shortest possible time and get 20 to 130 refusals. With a growth
    of 2.0, they get up to 260 refusals."""

    MARGIN = 1.05
    """A span of time lasts as long as the server asks to wait, times this factor, because network delays differ."""

    def __init__(self, sent: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._quota = math.inf
        self._sent = sent
        """Number of requests in the current span of time that were not refused."""
        self._span_s = 0.0
        self._is_asked = False
        """True if the server asked for the length of the current span of time; False if this class chose the length."""
        self._begins_s = -math.inf
        """When the current span of time begins. Before this time, no request is sent."""
        self._refused_s = -math.inf
        self._began_s = clock()
        self._replies = 0
        self._last_taken_s = clock()
        """Approximate time of the last accepted request: the last refusal in a span that also had accepted requests."""

    async def wait(self) -> float:
        """Wait until a request may be sent. Return the time, which the caller passes to `refused` after a refusal."""
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

    def refused(self, sent_s: float, wait_s: float | None, *, is_limit: bool = True) -> None:
        """Lower the limit after a refusal of the request sent at `sent_s`. `wait_s`: the wait requested by the server.

        If `is_limit` is False, the server refused because it was unavailable, so `wait_s` says nothing about its rate
        limit. If the request was sent before the last refusal, its refusal lowers the quota by only 1.
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
        self._is_asked = is_limit and wait_s is not None
        if is_limit and wait_s is not None:
            self._span_s = wait_s * self.MARGIN
        else:
            self._span_s = min(max(FIRST_PAUSE_S, (now_s - self._last_taken_s) / 4), LONGEST_PAUSE_S)
        self._sent = 0
        self._refused_s = now_s
        self._begins_s = now_s + max(self._span_s, wait_s or 0.0)

    def replied(self) -> float | None:
        """Count a reply since the first refusal. For reply number RATE_REPLIES, return the replies per second."""
        self._replies += 1
        return self._replies / (self._clock() - self._began_s) if self._replies == RATE_REPLIES else None
