"""How fast groups come now, and how good they are."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from .records import Group

RECENT_S = 60.0
RECENT_GROUPS = 512
"""How far back, and over how many groups at most, rates and means go."""


@dataclass(frozen=True)
class _Seen:
    at_s: float
    score: float
    tokens: int
    level: float | None


class Pace:
    """Keeps what is needed of the last groups; `clock` gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began_s = clock()
        self._recent: deque[_Seen] = deque(maxlen=RECENT_GROUPS)

    def record(self, group: Group) -> None:
        tokens = sum(rollout.completion_tokens or 0 for rollout in group.rollouts)
        score = sum(group.scores) / len(group.scores)
        self._recent.append(_Seen(self._clock(), score, tokens, group.problem.level))

    def words(self) -> dict[str, str]:
        """Return rates and, where there are recent groups, their means, as words of the progress line."""
        now_s = self._clock()
        while self._recent and now_s - self._recent[0].at_s > RECENT_S:
            self._recent.popleft()
        recent = self._recent
        # A full window begins with its first group, any other with the minute or the start.
        begins_s = recent[0].at_s if len(recent) == RECENT_GROUPS else max(now_s - RECENT_S, self._began_s)
        span_s = max(now_s - begins_s, 1e-3)
        words = {
            "groups_per_s": f"{len(recent) / span_s:.2f}",
            "tokens_per_s": f"{sum(seen.tokens for seen in recent) / span_s:.0f}",
        }
        if recent:
            words["recent_score"] = f"{sum(seen.score for seen in recent) / len(recent):.3f}"
        levels = [seen.level for seen in recent if seen.level is not None]
        if levels:
            words["level"] = f"{sum(levels) / len(levels):.2f}"
        return words
