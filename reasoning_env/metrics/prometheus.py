"""Format metrics for Prometheus: convert readings, keep histograms, and reply to scrapes."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Never

from aiohttp import web
from prometheus_client import CollectorRegistry, Histogram, ProcessCollector, generate_latest
from prometheus_client import Metric as Family
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, SummaryMetricFamily
from prometheus_client.registry import Collector

from ..records import LibraryInfo
from ..runtime.concurrency import in_background
from .metric import Kind, Metric, Reading
from .outcomes import Tally

DURATIONS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0)
"""Bounds of the histograms of seconds: Prometheus' defaults, and larger ones because completions may take minutes."""


def new_registry() -> CollectorRegistry:
    """Return a registry with the metrics of this process: memory, processor time, open files, start time."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    return registry


def histograms(metric: Metric[Never], labels: Iterable[str], registry: CollectorRegistry) -> dict[str, Histogram]:
    """Return a histogram of seconds for each value of the metric's label (`labels`)."""
    family = Histogram(
        metric.for_prometheus, metric.description, [metric.label], buckets=DURATIONS_S, registry=registry
    )
    return {label: family.labels(label) for label in labels}


def build_info(version: str, library: LibraryInfo) -> Family:
    """Return a metric whose labels are the versions of this program, reasoning-gym and Python."""
    versions = {"version": version, "reasoning_gym": library.version, "python": platform.python_version()}
    description = "Versions of the software; the label reasoning_gym is empty if a score function judges rows"
    return InfoMetricFamily("reasoning_build", description, versions)


def family_of(reading: Reading) -> Family:
    """Convert a Reading to a metric family of Prometheus' client."""
    metric = reading.metric
    name, description = metric.for_prometheus, metric.description
    labels = [metric.label] if metric.label else []
    if metric.kind in (Kind.MEAN, Kind.MEAN_MAX):
        summary = SummaryMetricFamily(name, description, labels=labels)
        for label, tally in reading.values.items():
            assert isinstance(tally, Tally)
            summary.add_metric([label] if labels else [], tally.count, tally.total)
        return summary
    kind = GaugeMetricFamily if metric.kind is Kind.NOW else CounterMetricFamily
    family = kind(name, description, labels=labels)
    for label, value in reading.values.items():
        family.add_metric([label] if labels else [], value.total if isinstance(value, Tally) else value)
    return family


@dataclass(frozen=True)
class _Families(Collector):
    """Yields the metric families in `made`, then those in `registry`. Creation times in `registry` are left out."""

    made: Iterable[Family]
    registry: CollectorRegistry

    def collect(self) -> Iterator[Family]:
        yield from self.made
        for family in self.registry.collect():
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
            yield family


async def reply_to_scrape(
    registry: CollectorRegistry, readings: Iterable[Reading], build: Family | None
) -> web.Response:
    """Return all metrics as text. `build` is the metric that `build_info` returned.

    The event loop reads the values, because only the event loop changes them. A thread formats the text.
    """
    families = [family_of(reading) for reading in readings]
    if build is not None:
        families.append(build)
    text = await in_background(generate_latest, _Families(families, registry))
    return web.Response(body=text, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})
