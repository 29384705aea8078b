"""Write the tables of `docs/metrics.md` from the descriptions of the metrics.

python -m tools.metrics_page
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Never

from reasoning_env.atropos.prometheus import DURATIONS
from reasoning_env.atropos.report import RUN
from reasoning_env.judging.metrics import JUDGE, REQUEST_DURATIONS
from reasoning_env.metrics.metric import Kind, Metric
from reasoning_env.metrics.own_verifiers import OWN_VERDICTS
from reasoning_env.metrics.stats import DELIVERY, DUMPS, POOL, SAMPLER, STREAM
from reasoning_env.metrics.training import ANSWERS, DROPPED, TRAIN, TRAIN_TASKS

PAGE = Path(__file__).parent.parent / "docs" / "metrics.md"
TABLES: Mapping[str, Sequence[Metric[Never]]] = {
    "A run": [
        *TRAIN,
        *TRAIN_TASKS,
        *ANSWERS,
        *DROPPED,
        *STREAM,
        *SAMPLER,
        *RUN,
        *DELIVERY,
        *DUMPS,
        *OWN_VERDICTS,
        DURATIONS,
    ],
    "Workers": POOL,
    "A judge": (*JUDGE, *ANSWERS, REQUEST_DURATIONS),
}
"""The metrics under each heading of the page. A judge reports nothing to wandb."""
ENDINGS = {Kind.COUNT: "_total", Kind.SHARE: "_total"}
"""The endings that Prometheus' client adds to a name. A summary and a histogram have several."""


def page(text: str) -> str:
    """Return the page with new tables."""
    for heading, metrics in TABLES.items():
        rows = "".join(_rows(metrics, for_wandb=heading != "A judge"))
        text = re.sub(rf"(?<=## {heading}\n\n)(\|.*\n)*", lambda _, rows=rows: rows, text)  # type: ignore[misc]
    return text


def _rows(metrics: Iterable[Metric[Never]], *, for_wandb: bool) -> Iterable[str]:
    columns = ["for wandb", "for Prometheus", "kind", "meaning"]
    cells = [columns, ["---"] * len(columns)]
    cells += [[_for_wandb(metric), _for_prometheus(metric), metric.kind, metric.description] for metric in metrics]
    return [f"| {' | '.join(row if for_wandb else row[1:])} |\n" for row in cells]


def _for_wandb(metric: Metric[Never]) -> str:
    names = [] if metric.kind is Kind.HISTOGRAM else [metric.name]
    if metric.kind is Kind.COUNT and metric.label:
        names.append(metric.stem)
    if metric.kind is Kind.MEAN_MAX:
        names.append(metric.name_of_max)
    return ", ".join(f"`{name}`" for name in names)


def _for_prometheus(metric: Metric[Never]) -> str:
    label = f"{{{metric.label}}}" if metric.label else ""
    return f"`{metric.for_prometheus}{ENDINGS.get(metric.kind, '')}{label}`"


def main() -> None:
    """Write the page."""
    argparse.ArgumentParser(prog="metrics_page", description=__doc__).parse_args()
    PAGE.write_text(page(PAGE.read_text()))


if __name__ == "__main__":
    main()
