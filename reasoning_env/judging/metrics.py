"""What a judge server counts, for Prometheus."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from functools import partial

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ..metrics.outcomes import RECENT_ANSWERS, share_of_most_frequent
from ..metrics.prometheus import DURATIONS_S, new_registry
from ..records import Reason
from .limits import Account

STATUSES = (200, 400, 401, 404, 405, 408, 413, 415, 422, 500, 503)
"""The statuses of replies: their counts begin at 0, so that a rate is known from the first one."""


class JudgeMetrics:
    """The metrics of one server. Every label has a value of a closed set, or is the name of a task that was judged."""

    def __init__(self, routes: Iterable[str], account: Account) -> None:
        registry = self.registry = new_registry()
        self.verdicts = Counter("reasoning_judge_verdicts", "Verdicts, by reason", ["reason"], registry=registry)
        self.replies = Counter("reasoning_judge_replies", "Replies, by status", ["status"], registry=registry)
        self.faults = Counter(
            "reasoning_judge_faults",
            "Infrastructure errors, none of which is scored",
            registry=registry,
        )
        self.unread_replies = Counter(
            "reasoning_judge_unread_replies", "Replies that their client did not read in time", registry=registry
        )
        durations = Histogram(
            "reasoning_judge_request_duration_seconds",
            "Seconds from the head of a request to its reply, by route",
            ["route"],
            buckets=DURATIONS_S,
            registry=registry,
        )
        self.durations = {route: durations.labels(route) for route in routes}
        self.answers: defaultdict[str, deque[int]] = defaultdict(partial(deque, maxlen=RECENT_ANSWERS))
        """Hashes of the last answers of each task: an answer may have 20,000 characters."""
        requests = Gauge("reasoning_judge_requests_in_progress", "Requests that are read or judged", registry=registry)
        requests.set_function(lambda: account.requests)
        held = Gauge("reasoning_judge_held_bytes", "Memory of requests and replies under way", registry=registry)
        held.set_function(lambda: account.held_bytes)
        registry.register(_AnswerCollector(self.answers))
        for reason in Reason:
            self.verdicts.labels(reason.value)
        for status in STATUSES:
            self.replies.labels(status)


class _AnswerCollector(Collector):
    def __init__(self, answers: defaultdict[str, deque[int]]) -> None:
        self._answers = answers

    def collect(self) -> Iterator[Metric]:
        """Yield the shares. The lists are copies: a thread writes the text while the event loop adds answers."""
        family = GaugeMetricFamily(
            "reasoning_judge_most_frequent_answer_share",
            f"Share of the most frequent among the last {RECENT_ANSWERS:,} answers of a task",
            labels=["task"],
        )
        for task, hashes in sorted(self._answers.items()):
            share = share_of_most_frequent(list(hashes))
            if share is not None:
                family.add_metric([task], share)
        yield family
