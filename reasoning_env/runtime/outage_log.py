"""Log once that something is wrong, from time to time that it still is, and once that it is over."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable


class OutageLog:
    """Logs one outage, such as a server that is gone or a full disk, however many callers notice it."""

    REPEAT_S = 60.0
    """How long an outage goes on in silence before it is logged again."""
    NOTABLE_S = 5.0
    """How long an outage must last to be logged within REPEAT_S of another, since outages may come and go quickly."""

    def __init__(self, logger: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._logger = logger
        self._clock = clock
        self._since: float | None = None
        self._announced = False
        self._said = -math.inf

    @property
    def lasting_s(self) -> float:
        """How long the outage has lasted; 0 when there is none."""
        return 0.0 if self._since is None else self._clock() - self._since

    def note(self, message: str) -> None:
        """Notice the outage: a warning when it begins, and another after each minute that it lasts."""
        now = self._clock()
        if self._since is None:
            self._since, self._announced = now, False
        lasted = now - self._since
        if now - self._said >= self.REPEAT_S or (not self._announced and lasted >= self.NOTABLE_S):
            self._logger.warning("%s%s", message, f" (for {lasted:.0f} s now)" if self._announced else "")
            self._announced, self._said = True, now

    def over(self, message: str) -> None:
        """End the outage; says so only where its beginning was said."""
        if self._since is not None and self._announced:
            self._logger.info("%s after %.1f s", message, self._clock() - self._since)
        self._since = None
