"""What `serve` and `process` tell Prometheus of a run: its groups, from the draw of a problem to their delivery."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager

from prometheus_client import Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from .. import __version__
from ..metrics.outcomes import OUTCOMES, GroupOutcome
from ..metrics.prometheus import DURATIONS_S, HostCollector, metrics_runner, new_registry
from ..metrics.stats import DeliveryStats, DumpStats
from ..records import DropReason, Rejection
from ..runtime.listening import ListenAddress, listen
from ..session import Session
from ..tasks.declaration import Cause
from .environment import RolloutItem

logger = logging.getLogger(__name__)


class RunMetrics(Collector):
    """The metrics of a run. Every label has a value of a closed set, and every count begins at 0."""

    def __init__(
        self,
        session: Session[RolloutItem],
        *,
        dumps: Callable[[], DumpStats | None],
        delivery: Callable[[], DeliveryStats | None],
        step: Callable[[], int | None],
        outage_s: Callable[[], float],
    ) -> None:
        self._session = session
        self._dumps = dumps
        self._delivery = delivery
        self._step = step
        self._outage_s = outage_s
        self._registry = new_registry()
        self._registry.register(HostCollector(session, __version__))
        self._registry.register(self)
        durations = Histogram(
            "reasoning_group_duration_seconds",
            "Seconds that a step of a group takes",
            ["step"],
            buckets=DURATIONS_S,
            registry=self._registry,
        )
        self._durations = {step: durations.labels(step) for step in ("completions", "verdicts")}

    def time(self, step: str) -> AbstractContextManager[object]:
        """Take the time of a step of a group: `completions` or `verdicts`."""
        return self._durations[step].time()

    @asynccontextmanager
    async def serve(self, address: ListenAddress) -> AsyncIterator[None]:
        """Serve the metrics meanwhile. Raises ConfigError where the port is in use."""
        disable_created_metrics()  # type: ignore[no-untyped-call] # a second series for each one
        runner = metrics_runner(self._registry)
        try:
            port = await listen(runner, address)
            logger.info("metrics are at http://%s:%d/metrics", address.host, port)
            yield
        finally:
            await runner.cleanup()

    def collect(self) -> Iterator[Metric]:
        metrics, score = self._session.metrics, self._session.metrics.total.score
        yield _counts("groups", "Scored groups, by outcome", "outcome", GroupOutcome, metrics.groups)
        yield _counts("completions", "Scored completions, by outcome", "outcome", OUTCOMES, metrics.completions)
        yield _counts("dropped_groups", "Groups that were dropped, by reason", "reason", DropReason, metrics.dropped)
        yield SummaryMetricFamily("reasoning_score", "Rewards of completions", score.count, score.total)
        stream = self._session.stats
        causes = {} if stream is None else stream.flawed
        yield _counts("rejected_problems", "Rejected problems, by cause", "cause", (*Cause, *Rejection), causes)
        failures = 0 if stream is None else stream.failures
        yield CounterMetricFamily("reasoning_failed_problems", "Draws that gave no problem", failures)
        quarantined = 0 if stream is None else len(stream.quarantined)
        yield GaugeMetricFamily("reasoning_quarantined_tasks", "Tasks that are not drawn any more", quarantined)
        ready = 0 if stream is None else stream.ready
        yield GaugeMetricFamily("reasoning_ready_problems", "Problems that are ready ahead of demand", ready)
        yield GaugeMetricFamily("reasoning_problems_in_flight", "Problems under way", self._session.in_flight)
        yield GaugeMetricFamily(
            "reasoning_inference_outage_seconds", "For how long all requests for completions fail", self._outage_s()
        )
        step, delivery, dumps = self._step(), self._delivery(), self._dumps()
        if step is not None:
            yield GaugeMetricFamily("reasoning_trainer_step", "Step of the trainer", step)
        if delivery is not None:
            yield CounterMetricFamily("reasoning_delivered_groups", "Groups that run-api confirmed", delivery.delivered)
            yield GaugeMetricFamily("reasoning_waiting_groups", "Groups on their way to run-api", delivery.waiting)
        if dumps is not None:
            written = dumps.passed_groups + dumps.failed_groups
            yield CounterMetricFamily("reasoning_dumped_groups", "Dumped groups that are on disk", written)
            yield CounterMetricFamily("reasoning_lost_dumps", "Groups that could not be dumped", dumps.dropped)


def _counts(name: str, words: str, label: str, values: Iterable[str], counts: Mapping[str, int]) -> Metric:
    """Return a counter with a series for each of the `values`."""
    family = CounterMetricFamily(f"reasoning_{name}", words, labels=[label])
    for value in values:
        family.add_metric([str(value)], counts.get(value, 0))
    return family
