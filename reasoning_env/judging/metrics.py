"""The metrics of a judge server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import Metric as Family

from ..metrics.metric import Kind, Metric, Reading, read
from ..metrics.prometheus import histograms, new_registry
from ..metrics.recorder import RecentAnswers
from ..metrics.stats import POOL, ObservedPool
from ..metrics.training import ANSWERS
from ..records import Reason

STATUSES = (200, 400, 401, 404, 405, 408, 413, 415, 422, 500, 503)
"""Statuses of replies. Their counts start at 0, so that Prometheus can compute rates from the first reply on."""
REQUEST_DURATIONS = Metric[object](
    "judge/request_duration_s/ROUTE", Kind.HISTOGRAM, "seconds from a request's headers to its reply, by route"
)


class JudgeMetrics:
    """The metrics of a judge server. Their labels have few possible values: reasons, statuses, or names of tasks."""

    def __init__(self, routes: Iterable[str]) -> None:
        self.registry = new_registry()
        self.durations = histograms(REQUEST_DURATIONS, routes, self.registry)
        self.verdicts: Counter[str] = Counter()
        self.replies: Counter[int] = Counter()
        self.requests = 0
        """Number of requests in progress."""
        self.faults = 0
        self.unread_replies = 0
        self.pool: ObservedPool | None = None
        """The workers of this process; None for a judge on a Ray cluster."""
        self.build: Family | None = None
        """A metric with the versions of this package, reasoning-gym and Python; None for a judge on a Ray cluster."""
        self.answers = RecentAnswers()

    def readings(self) -> Iterator[Reading]:
        """Yield the values of all metrics except the histogram."""
        yield from read(JUDGE, self)
        yield from read(ANSWERS, self.answers)
        if self.pool is not None:
            yield from read(POOL, self.pool)


JUDGE: Sequence[Metric[JudgeMetrics]] = (
    Metric(
        "judge/verdicts/REASON",
        Kind.COUNT,
        "verdicts, by reason",
        lambda judge: {reason.value: judge.verdicts[reason] for reason in Reason},
    ),
    Metric(
        "judge/faults",
        Kind.COUNT,
        "infrastructure errors while judging, never counted as verdicts",
        lambda judge: judge.faults,
    ),
    Metric(
        "judge/replies/STATUS",
        Kind.COUNT,
        "replies, by status",
        lambda judge: {str(status): judge.replies[status] for status in sorted({*STATUSES, *judge.replies})},
    ),
    Metric(
        "judge/unread_replies",
        Kind.COUNT,
        "replies that the client did not read in time",
        lambda judge: judge.unread_replies,
    ),
    Metric("judge/requests_in_progress", Kind.NOW, "requests in progress", lambda judge: judge.requests),
)
