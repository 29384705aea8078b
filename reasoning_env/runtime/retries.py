"""The one policy of retries: pauses that double, up to a limit."""

from __future__ import annotations

from collections.abc import Iterator

FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 8.0


def pauses() -> Iterator[float]:
    """Yield the seconds to wait before each further try, without an end: 0.25, 0.5, 1, ... 8, 8.

    >>> waits = pauses()
    >>> next(waits), next(waits)
    (0.25, 0.5)
    """
    pause_s = FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
