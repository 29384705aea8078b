"""The `compare` command: evaluation folders side by side, paired over the same problems."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, astuple
from pathlib import Path

from ..reports.comparison import Comparison, compare, differing_settings, read_evaluation
from ..terminal import Table, print_json, visible


def compare_command(argv: Sequence[str]) -> int:
    """Compare every further folder with the first; returns 0.

    Raises ConfigError for what is no folder of an evaluation, and for evaluations of different sets.
    """
    options = _parse(argv)
    first, *others = [read_evaluation(path, accuracy=options.accuracy) for path in options.folders]
    comparisons = [compare(first, other) for other in others]
    if options.json:
        print_json(
            {
                "scores": "share of right answers" if options.accuracy else "mean score",
                "first": str(first.path),
                "comparisons": [_document(comparison) for comparison in comparisons],
            }
        )
        return 0
    for comparison in comparisons:
        _print(comparison)
    print("""\
FROM, TO: the 95 % interval of the change (bootstrap over problems; over tasks for their mean)
BETTER, WORSE: problems on which the second scores higher, and lower
P: sign test over these, for each task alone: among 100 tasks that do not differ, about 5 are below 0.05""")
    return 0


def _print(comparison: Comparison) -> None:
    print(f"FIRST: {comparison.first.path}\nSECOND: {comparison.second.path}")
    for name in differing_settings(comparison.first, comparison.second):
        first, second = (
            visible(repr(evaluation.settings.get(name)), limit=60)
            for evaluation in (comparison.first, comparison.second)
        )
        print(f"{name}: {first} and {second}")
    print()
    columns = {
        "TASK": "",
        "PROBLEMS": "d",
        "FIRST": ".3f",
        "SECOND": ".3f",
        "CHANGE": "+.3f",
        "FROM": "+.3f",
        "TO": "+.3f",
        "BETTER": "d",
        "WORSE": "d",
        "P": ".3f",
    }
    Table(columns, [astuple(difference) for difference in (comparison.overall, *comparison.tasks)]).print()
    if comparison.unpaired:
        print(f"\n{comparison.unpaired} problems that only one of the two has are left out")
    print()


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="compare",
        description="Put evaluation folders side by side, paired over the same problems, what changed most first. "
        "Every further folder is compared with the first.",
    )
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="what `evaluate` wrote; two or more")
    parser.add_argument("--accuracy", action="store_true", help="compare shares of right answers, not mean scores")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    options = parser.parse_args(argv)
    if len(options.folders) < 2:
        parser.error("name two folders or more")
    return options


def _document(comparison: Comparison) -> dict[str, object]:
    return {
        "second": str(comparison.second.path),
        "unpaired": comparison.unpaired,
        "overall": asdict(comparison.overall),
        "tasks": [asdict(task) for task in comparison.tasks],
    }
