"""The `compare` command: compare evaluations on the problems that they have in common."""

from __future__ import annotations

import argparse
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ConfigError
from ..program.parser import Command, CommandParser
from ..runtime.terminal import UNLIMITED, Table, print_json, width
from ..runtime.text import pluralize, printable

if TYPE_CHECKING:
    from ..evaluations.comparison import Comparison

# The functions that do the work import the modules that `-h` does not need.


def _compare(options: argparse.Namespace, folder: Path) -> int:
    """Compare the first evaluation with each of the others; returns 0.

    Raises ConfigError if

    - a folder contains no evaluation,
    - there are fewer than two evaluations, or
    - two evaluations have no problem in common.
    """
    from ..evaluations.comparison import compare, read_scores

    folders = [folder for path in options.folders for folder in _evaluations_in(path)]
    if len(folders) < 2:
        raise ConfigError("pass at least two evaluation folders, or a folder that contains evaluation folders")
    evaluations = [read_scores(path) for path in folders]
    first = evaluations[0]
    comparisons = [compare(first, other) for other in evaluations[1:]]
    if options.json:
        print_json(
            {
                "first": str(first.path),
                "comparisons": [
                    {"second": str(comparison.second.path), **comparison.as_json()} for comparison in comparisons
                ],
            }
        )
        return 0
    for comparison in comparisons:
        _print(comparison)
    print("""\
BETTER, WORSE: number of problems on which SECOND scores higher or lower than FIRST
FROM, TO: 95 % interval of the change
P: p-value of the CHANGE in a row, by a paired permutation test over this row's problems. If P is below 0.05, the
   interval excludes 0. Without any real difference, about 5 of 100 tasks have P below 0.05.""")
    return 0


def _evaluations_in(path: Path) -> list[Path]:
    """Return the evaluations in a folder, sorted by name; [path] if `path` is an evaluation, or contains none."""
    from ..evaluations.folder import RESULTS

    if (path / RESULTS).exists() or not path.is_dir():
        return [path]
    return sorted(found.parent for found in path.glob(f"*/{RESULTS}")) or [path]  # `read_scores` raises the error


def _print(comparison: Comparison) -> None:
    from ..evaluations.table import MAX_TASKS

    print(f"FIRST: {printable(str(comparison.first.path))}\nSECOND: {printable(str(comparison.second.path))}")
    for line in comparison.settings:
        print(line)
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
        "P": ">7",
    }
    tasks = comparison.tasks if width() == UNLIMITED else comparison.tasks[:MAX_TASKS]
    rows = [(*astuple(difference)[:-1], p_value(difference.p)) for difference in (comparison.overall, *tasks)]
    Table(columns, rows).print()
    if len(tasks) < len(comparison.tasks):
        print(
            f"\nShown: {MAX_TASKS} of {len(comparison.tasks)} tasks, those with the largest change. For all tasks, use "
            "--json or redirect the output to a file."
        )
    different = comparison.different
    if different:
        more = f" and {len(different) - MAX_TASKS} more" if len(different) > MAX_TASKS else ""
        print(
            f"\nNot compared, because these problems are not the same in both: {', '.join(different[:MAX_TASKS])}{more}"
        )
    missing = comparison.unpaired - 2 * len(different)
    if missing:
        print(f"\nNot compared: {pluralize(missing, 'problem')} with a score in only one evaluation")
    print()


def p_value(p: float) -> str:
    """Return a p-value with three decimals; values below 0.001 as "< 0.001", because a p-value is never 0."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _add_options(parser: CommandParser) -> None:
    parser.add_argument(
        "folders",
        nargs="+",
        type=Path,
        metavar="FOLDER",
        help="evaluation folders, or a folder that contains evaluation folders, such as evals",
    )
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON")


compare_command = Command(
    "compare",
    "Compare evaluations on the problems that they have in common. Each later evaluation is compared with the first. "
    "Tasks with the largest change come first.",
    _add_options,
    _compare,
)
