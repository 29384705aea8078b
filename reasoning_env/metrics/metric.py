"""Describe each metric once. wandb, Prometheus and the tables of docs/metrics.md are generated from the description.

The table of a part's metrics is in the module of the record that they are read from. `read` reads the values;
`for_wandb` and `metrics/prometheus.py` write them.
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
    """What the values of a metric are. Prometheus always gets sums from the start of the run on."""

    COUNT = "count"
    """A number that grows from the start of the run; for wandb, a count by label has its sum too."""
    NOW = "now"
    """A number as it is at the moment."""
    MEAN = "mean"
    """The mean of a tally since the last report; for Prometheus a summary: sum and count."""
    MEAN_MAX = "mean, maximum"
    """A mean, and for wandb the highest value since the last report too, as `max_...`."""
    SHARE = "share"
    """The mean of a tally of zeros and ones; for Prometheus a count of the ones."""
    HISTOGRAM = "histogram"
    """For Prometheus alone, which keeps the values itself."""


@dataclass(frozen=True)
class Metric(Generic[S]):
    """A metric, read from a source S.

    - `name` is wandb's: the part before the first slash is a section, and a part in capitals stands for any value of a
      label. Prometheus' name follows.
    - `words` say what the metric is.
    - `value` reads the source: a number, or a tally for a mean or a share; with a label, one for each value of it. None
      is unknown.
    """

    name: str
    kind: Kind
    words: str
    value: Callable[[S], float | Tally | Mapping[str, float | Tally] | None] = lambda source: None

    @property
    def label(self) -> str:
        """The name of the label; empty for a metric without one."""
        found = re.search("[A-Z]+", self.name)
        return found[0].lower() if found else ""

    def named(self, label: str) -> str:
        """Return the name with a value of the label in place."""
        return re.sub("[A-Z]+", lambda _: label, self.name)

    @property
    def stem(self) -> str:
        """The name without its label."""
        return "/".join(part for part in self.name.split("/") if not part.isupper())

    @property
    def name_of_max(self) -> str:
        """The name of the highest value."""
        return self.name.replace("/mean_", "/max_")

    @property
    def for_prometheus(self) -> str:
        """Prometheus' name, without the endings that Prometheus' own client adds, such as `_total`."""
        parts = [part.removeprefix("mean_").removeprefix("share_") for part in self.stem.split("/")]
        return re.sub("_s$", "_seconds", "_".join(["reasoning", *parts]))


@dataclass(frozen=True)
class Reading:
    """The values of a metric by the value of its label; a metric without a label has one value, named ""."""

    metric: Metric[Never]
    values: Mapping[str, float | Tally]


def read(metrics: Iterable[Metric[S]], source: S) -> Iterator[Reading]:
    """Yield what a source knows of some metrics at the moment."""
    for metric in metrics:
        value = metric.value(source)
        if value is not None:
            yield Reading(metric, dict(value) if isinstance(value, Mapping) else {"": value})


def for_wandb(readings: Iterable[Reading]) -> dict[str, float]:
    """Return values by name. Means and shares of nothing are missing."""
    values: dict[str, float] = {}
    for reading in readings:
        metric = reading.metric
        if metric.kind is Kind.COUNT and metric.label:
            values[metric.stem] = sum(value for value in reading.values.values() if not isinstance(value, Tally))
        for label, value in reading.values.items():
            if not isinstance(value, Tally):
                values[metric.named(label)] = value
            elif value.mean is not None:
                values[metric.named(label)] = value.mean
                if metric.kind is Kind.MEAN_MAX:
                    values[metric.name_of_max] = value.highest
    return values
