"""Descriptions of metrics, for wandb, Prometheus and the tables of docs/metrics.md.

Each module that collects values has a table of its metrics. `read` reads the values; `for_wandb` and
`metrics/prometheus.py` format them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Never, TypeVar

from .outcomes import Tally

S = TypeVar("S", contravariant=True)


class Kind(StrEnum):
    """How the values of a metric are aggregated. Prometheus gets sums and counts since the start of the run."""

    COUNT = "count"
    """A total since the start of the run. In wandb, a count with a label also has the sum over all label values."""
    NOW = "now"
    """The latest value."""
    MEAN = "mean"
    """The mean of the values since the last report. In Prometheus, a summary: sum and count."""
    MEAN_MAX = "mean, maximum"
    """A mean; in wandb also the maximum since the last report, as `max_...`."""
    SHARE = "share"
    """The share of ones among values that are 0 or 1. In Prometheus, a count of the ones."""
    HISTOGRAM = "histogram"
    """A histogram, for Prometheus only."""


@dataclass(frozen=True)
class Metric(Generic[S]):
    """A metric that is read from a source of type S.

    - `name` is wandb's name. The part before the first slash is a section. A part in capitals, such as TASK, stands
      for the values of a label.
    - `description` explains the metric to users.
    - `value` reads the source. The result is a number, a tally (for a mean or a share), a mapping from label values
      to numbers or tallies, or None if the value is unknown.
    """

    name: str
    kind: Kind
    description: str
    value: Callable[[S], float | Tally | Mapping[str, float | Tally] | None] = lambda source: None

    @property
    def label(self) -> str:
        """The name of the metric's label; empty if the metric has no label."""
        found = re.search("[A-Z]+", self.name)
        return found[0].lower() if found else ""

    def name_for(self, label: str) -> str:
        """Return the metric's name in wandb for one value of its label."""
        return re.sub("[A-Z]+", lambda _: label, self.name)

    @property
    def stem(self) -> str:
        """The metric's name without the part in capitals, which names the label."""
        return "/".join(part for part in self.name.split("/") if not part.isupper())

    @property
    def name_of_max(self) -> str:
        """The wandb name of the maximum of a MEAN_MAX metric."""
        return self.name.replace("/mean_", "/max_")

    @property
    def for_prometheus(self) -> str:
        """The Prometheus name, without the suffixes that Prometheus' own client adds, such as `_total`."""
        parts = [part.removeprefix("mean_").removeprefix("share_") for part in self.stem.split("/")]
        return re.sub("_s$", "_seconds", "_".join(["reasoning", *parts]))


@dataclass(frozen=True)
class Reading:
    """The current numbers of a metric, one for each value of its label; a metric without a label has the key ""."""

    metric: Metric[Never]
    values: Mapping[str, float | Tally]


def read(metrics: Iterable[Metric[S]], source: S) -> Iterator[Reading]:
    """Yield the current values of the `metrics`, read from `source`. Metrics with an unknown value are skipped."""
    for metric in metrics:
        value = metric.value(source)
        if value is not None:
            yield Reading(metric, dict(value) if isinstance(value, Mapping) else {"": value})


def for_wandb(readings: Iterable[Reading]) -> dict[str, float]:
    """Return the values by wandb name. A mean or share of an empty tally is left out."""
    values: dict[str, float] = {}
    for reading in readings:
        metric = reading.metric
        if metric.kind is Kind.COUNT and metric.label:
            values[metric.stem] = sum(value for value in reading.values.values() if not isinstance(value, Tally))
        for label, value in reading.values.items():
            if not isinstance(value, Tally):
                values[metric.name_for(label)] = value
            elif value.mean is not None:
                values[metric.name_for(label)] = value.mean
                if metric.kind is Kind.MEAN_MAX:
                    values[metric.name_of_max] = value.highest
    return values
