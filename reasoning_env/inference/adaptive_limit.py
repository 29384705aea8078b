"""Send requests to a rate-limited server as fast as it accepts them."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable

from ..runtime.retries import FIRST_PAUSE_S, LONGEST_PAUSE_S

RATE_REPLIES = 10
"""The rate of replies is logged once, after this many replies."""


class AdaptiveLimit:
    """Limits requests to the rate that a server accepts.

    After the first refusal, each window of time has a quota of requests. A refusal ends the current window, pauses all
    requests for the length of a window, and sets the quota to the number of requests accepted in the ended window. A
    window without refusals raises the quota.

    A window is as long as the wait that the server asks for. If the server asks for none, a window is a quarter of the
    time since the last accepted request, but at least FIRST_PAUSE_S and at most LONGEST_PAUSE_S.

    `sent` is the number of requests sent so far.
    """

    GROWTH = 1.25
    """The quota is multiplied by this after a window without a refusal."""
    # If a server accepts 3 requests per second, 100 requests take 1.0 to 1.2 times the shortest possible time and get
    # 20 to 130 refusals. With a growth of 2.0, they get up to 260 refusals.

    MARGIN = 1.05
    """The wait that the server asks for is multiplied by this, because network delays differ."""

    def __init__(self, sent: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._quota = math.inf
        self._sent = sent
        """Number of requests in the current window that were not refused."""
        self._window_s = 0.0
        self._window_is_given = False
        """Whether the length of the current window comes from a reply of the server."""
        self._begins_s = -math.inf
        """Start of the current window. A refusal moves it into the future; no request is sent before this time."""
        self._refused_s = -math.inf
        self._began_s = clock()
        self._replies = 0
        self._last_taken_s = clock()
        """Time of the last refusal in a window with an accepted request. `refused` uses it for the window's length."""

    async def wait(self) -> float:
        """Wait until a request may be sent. Return the current time, which `refused` needs as `sent_s`."""
        while True:
            now_s = self._clock()
            ends_s = self._begins_s + self._window_s
            if now_s < self._begins_s:
                await asyncio.sleep(self._begins_s - now_s)
            elif now_s >= ends_s and self._quota < math.inf:
                self._begins_s, self._sent = now_s, 0
                self._quota = math.ceil(self._quota * self.GROWTH)
                # A server that only restarted may have no limit, so shorten the windows that this class chose.
                self._window_s = max(self._window_s if self._window_is_given else self._window_s / 2, FIRST_PAUSE_S)
            elif self._sent < self._quota:
                self._sent += 1
                return now_s
            else:
                await asyncio.sleep(ends_s - now_s)

    def refused(self, sent_s: float, wait_s: float | None, *, is_limit: bool = True) -> None:
        """Lower the quota, because the server refused the request sent at `sent_s`.

        `wait_s` is the wait in seconds that the server asks for. If `is_limit` is False, because the server was
        unavailable, `wait_s` delays the next window, but does not set the window's length.
        """
        now_s = self._clock()
        if sent_s <= self._refused_s:  # the last refusal has already lowered the quota
            self._quota = max(1, self._quota - 1)
            self._begins_s = max(self._begins_s, now_s + (wait_s or 0.0))
            return
        taken = self._sent - 1
        if taken > 0:
            self._last_taken_s = now_s
        if taken > 0 or self._quota == math.inf:  # without an accepted request, keep an earlier quota
            self._quota = max(1, taken)
        self._window_is_given = is_limit and wait_s is not None
        if is_limit and wait_s is not None:
            self._window_s = wait_s * self.MARGIN
        else:
            self._window_s = min(max(FIRST_PAUSE_S, (now_s - self._last_taken_s) / 4), LONGEST_PAUSE_S)
        self._sent = 0
        self._refused_s = now_s
        self._begins_s = now_s + max(self._window_s, wait_s or 0.0)

    def replied(self) -> float | None:
        """Count a reply. At reply number RATE_REPLIES, return the replies per second; otherwise None."""
        self._replies += 1
        return self._replies / (self._clock() - self._began_s) if self._replies == RATE_REPLIES else None
