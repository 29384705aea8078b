"""The progress line of a run: totals since the start, and rates over the last minute."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping

from .outcomes import GroupOutcome, Sums, Tally
from .recorder import MetricsRecorder
from .stats import DeliveryStats, DumpStats, StreamStats


class ProgressReader:
    """Reads the progress of a run from its recorder. `clock` returns monotonic seconds.

    Rates and recent means cover at least the last WINDOW_S seconds, or all groups of a shorter run.
    """

    WINDOW_S = 60

    def __init__(self, recorder: MetricsRecorder, clock: Callable[[], float] = time.monotonic) -> None:
        self._recorder = recorder
        self._clock = clock
        self._readings = deque([(clock(), Sums())])
        """Times and totals of the latest calls of `read`, the oldest first."""

    def read(
        self,
        stream: StreamStats,
        dumps: DumpStats | None = None,
        delivery: DeliveryStats | None = None,
        *,
        step: int | None = None,
    ) -> dict[str, object]:
        """Return the numbers of the progress line, each by its name.

        Means are missing before the first group. The numbers of waiting groups and of lost groups are missing if 0.
        """
        total = self._recorder.total
        means = {"mean_score": total.score.mean, "share_correct": total.correct.mean}
        words: dict[str, object] = {
            "groups": total.groups.total(),
            **{outcome.value: total.groups[outcome] for outcome in GroupOutcome},
            "failed": self._recorder.dropped.total(),
            **{name: f"{mean:.3f}" for name, mean in means.items() if mean is not None},
            "tasks": len(self._recorder.last_level),
            "quarantined": len(stream.quarantined),
            "ready": stream.ready,
            "in_flight": stream.in_flight,
            **self._rates(total),
        }
        if step is not None:
            words["step"] = step
        if delivery is not None and delivery.waiting:
            words["waiting"] = delivery.waiting
        if dumps is not None and dumps.dropped:
            words["dump_dropped"] = dumps.dropped
        return words

    def _rates(self, total: Sums) -> dict[str, str]:
        """Return rates and means of the recent groups, and append `total` to `_readings`."""
        now_s = self._clock()
        while len(self._readings) > 1 and self._readings[1][0] <= now_s - self.WINDOW_S:
            self._readings.popleft()
        since_s, before = self._readings[0]
        self._readings.append((now_s, total))
        span_s = max(now_s - since_s, 1e-3)
        words = {
            "groups_per_s": f"{(total.groups.total() - before.groups.total()) / span_s:.2f}",
            "tokens_per_s": f"{(total.completion_tokens.total - before.completion_tokens.total) / span_s:.0f}",
        }
        score, level = _mean_since(before.score, total.score), _mean_since(before.level, total.level)
        if score is not None:
            words["recent_score"] = f"{score:.3f}"
        if level is not None:
            words["level"] = f"{level:.2f}"
        return words


def _mean_since(before: Tally, now: Tally) -> float | None:
    """Return the mean of the values added to a tally between its states `before` and `now`; None if none were added."""
    count = now.count - before.count
    return (now.total - before.total) / count if count else None


def progress_line(progress: Mapping[str, object]) -> str:
    """Format the result of `ProgressReader.read` as `key=value` words."""
    return "progress: " + " ".join(f"{name}={value}" for name, value in progress.items())
