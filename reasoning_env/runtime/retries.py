"""Tools for retries: pauses between tries, a log of outages, and a count of failures in a row."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 8.0
"""The longest pause between tries: short, so that a restarted server is used within seconds."""


def pauses() -> Iterator[float]:
    """Yield the seconds to wait before each further try, forever: 0.25, 0.5, 1, 2, 4, 8, 8, ...

    >>> waits = pauses()
    >>> next(waits), next(waits)
    (0.25, 0.5)
    """
    pause_s = FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


class OutageLog:
    """Log the beginning and the end of an outage that several callers notice, such as a full disk.

    Unless `reminds` is False, also log reminders from time to time.
    """

    REPEAT_S = 30.0
    """Seconds between two warnings of an outage, the same as between two progress lines."""
    NOTABLE_S = 5.0
    """Within REPEAT_S seconds after a warning, a new outage must last this many seconds before it is logged."""

    def __init__(
        self, logger: logging.Logger, clock: Callable[[], float] = time.monotonic, *, reminds: bool = True
    ) -> None:
        self._logger = logger
        self._clock = clock
        self._reminds = reminds
        self._since: float | None = None
        self._announced = False
        self._said = -math.inf

    @property
    def duration_s(self) -> float:
        """Seconds that the outage has lasted; 0 if there is no outage."""
        return 0.0 if self._since is None else self._clock() - self._since

    def note(self, message: str) -> None:
        """Record a failure during an outage. Log a warning at first, then at most one every REPEAT_S seconds."""
        now = self._clock()
        if self._since is None:
            self._since = now
            self._announced = False
        lasted = now - self._since
        is_due = now - self._said >= self.REPEAT_S
        if (is_due and self._reminds) if self._announced else (is_due or lasted >= self.NOTABLE_S):
            self._logger.warning("%s%s", message, f" (for {lasted:.0f} s now)" if self._announced else "")
            self._announced = True
            self._said = now

    def over(self, message: str) -> None:
        """Record that the outage, if any, is over. Log its end if its beginning was logged."""
        if self._since is not None and self._announced:
            self._logger.info("%s after %.1f s", message, self._clock() - self._since)
        self._since = None


@dataclass
class FailureStreak:
    """Counts failures since the last success. `last` describes the latest failure."""

    count: int = 0
    last: str = ""

    def add(self, failure: object) -> None:
        """Count a failure."""
        self.count += 1
        self.last = str(failure)

    def end(self) -> None:
        """Set `count` to 0. Call this method after a success."""
        self.count = 0
