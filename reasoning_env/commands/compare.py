"""The `compare` command: evaluations side by side, over the problems that they have in common."""

from __future__ import annotations

import argparse
from dataclasses import astuple
from pathlib import Path

from ..errors import ConfigError
from ..evaluations.comparison import Comparison, compare, rank, read_scores
from ..evaluations.table import MOST
from ..program.parser import Command, CommandParser
from ..runtime.terminal import UNLIMITED, Table, print_json, width
from ..runtime.text import counted, visible

LEGEND = """\
ASKED: preset and tasks; rows are ranked only among rows over the same tasks.
COMPARABLE TASKS, ALL TASKS: mean score by the library's own verifiers, as published, over the tasks whose questions and
scoring are still those of the published runs, and over all tasks.
SCORE, FROM, TO: mean score by this environment's verifiers over all tasks, with its 95 % interval.
RIGHT: share of right completions."""
"""What stands below the ranking: a table that is pasted elsewhere explains itself."""


def _compare(options: argparse.Namespace, folder: Path) -> int:
    """Compare every further folder with the first; returns 0.

    Raises ConfigError:

    - a folder holds no evaluation
    - two evaluations have no problem in common
    """
    if len(options.folders) < 2 and not options.markdown:
        raise ConfigError("name two folders or more")
    if options.markdown:
        rank(options.folders).print_markdown()
        print(f"\n{LEGEND}")
        return 0
    evaluations = [read_scores(path, accuracy=options.accuracy) for path in options.folders]
    first = evaluations[0]
    comparisons = [compare(first, other) for other in evaluations[1:]]
    if options.json:
        print_json(
            {
                "scores": "share of right answers" if options.accuracy else "mean score",
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
FROM, TO, P: the 95 % interval of the change and its p-value, by one paired permutation test over the problems of the
row: 0 is outside the interval where P is below 0.05. Of 100 tasks that do not differ, up to 5 are below 0.05
BETTER, WORSE: problems on which the second evaluation scores higher, and lower""")
    return 0


def _print(comparison: Comparison) -> None:
    print(f"FIRST: {visible(str(comparison.first.path))}\nSECOND: {visible(str(comparison.second.path))}")
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
    tasks = comparison.tasks if width() == UNLIMITED else comparison.tasks[:MOST]
    rows = [(*astuple(difference)[:-1], p_value(difference.p)) for difference in (comparison.overall, *tasks)]
    Table(columns, rows).print()
    if len(tasks) < len(comparison.tasks):
        print(f"\nThe {MOST} of {len(comparison.tasks)} tasks that changed most; --json and a file have all tasks")
    different = comparison.different
    if different:
        more = f" and {len(different) - MOST} more" if len(different) > MOST else ""
        print(f"\nLeft out, since the two evaluations ask different questions: {', '.join(different[:MOST])}{more}")
    missing = comparison.unpaired - 2 * len(different)
    if missing:
        print(f"\nLeft out, since only one evaluation has a score: {counted(missing, 'problem')}")
    print()


def p_value(p: float) -> str:
    """Return a p-value to three digits; a value below is written as a bound, since it is never 0."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _add_options(parser: CommandParser) -> None:
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="two or more folders of `evaluate`")
    parser.add_argument("--accuracy", action="store_true", help="compare shares of right answers, not mean scores")
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--json", action="store_true", help="print everything as JSON")
    forms.add_argument(
        "--markdown",
        action="store_true",
        help="rank the evaluations and the models published beside them, among those over the same tasks",
    )


compare_command = Command(
    "compare",
    "Compare evaluations over the problems that they have in common, the largest change first. Every further folder is "
    "compared with the first.",
    _add_options,
    _compare,
)
