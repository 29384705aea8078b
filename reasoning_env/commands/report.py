"""The `report` command: read runs and write an HTML page."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ..errors import ConfigError
from ..program.parser import Command, CommandParser, program
from ..runtime.text import pluralize
from ..storage.folders import default_dumps_folder

DEFAULT_PAGE = Path("report.html")


def _report(options: argparse.Namespace, folder: Path) -> int:
    """Write the page; print its path and the files that could not be read. Returns the exit status.

    Raises ConfigError if the paths have no groups, or if the output cannot be written.
    """
    # imported here because `-h` does not need them
    from ..reports.html.page import check_page, collect, encode, make_page, write_page
    from ..reports.runs import find_runs

    if not 0 < options.sample_mb <= 1000:
        raise ConfigError("must be above 0 and at most 1000", setting="--sample-mb", got=options.sample_mb)
    of_demo = Path("data_dumps")
    paths = options.paths or [of_demo if of_demo.is_dir() else default_dumps_folder(folder)]
    output: Path = options.output
    if output.is_dir():
        output = output / DEFAULT_PAGE
    runs = find_runs(paths)
    check_page(output)
    data = collect(runs, program(), options.sample_mb)
    if not data["groups"]:
        causes = "".join(f"; {line}" for line in data["notes"][:3])
        remedy = "pass folders of dumps (data_dumps) or evaluations, or output of `process`"
        raise ConfigError(f"found no rollouts in {', '.join(map(str, paths))}{causes}", remedy=remedy)
    for line in data["notes"]:
        print(f"report: {line}", file=sys.stderr)
    write_page(output, make_page(encode(data)))
    rollouts = sum(run["rollouts"] for run in data["runs"])
    groups = sum(run["groups"] for run in data["runs"])
    print(
        f"Wrote {output} with {pluralize(rollouts, 'rollout')} in {pluralize(groups, 'group')}. Open it in a browser."
    )
    return 0


def _add_options(parser: CommandParser) -> None:
    parser.epilog = "example: report evals/model-a evals/model-b -o models.html"
    parser.add_argument(
        "paths",
        nargs="*",
        type=Path,
        metavar="PATH",
        help="folders of dumps (completions that a training wrote to data_dumps) or evaluations, or files that the "
        "command `process` wrote; the page shows each path as one run (default: data_dumps)",
    )
    parser.add_argument(
        "-o", "--output", type=Path, default=DEFAULT_PAGE, metavar="FILE", help="file to write (default: %(default)s)"
    )
    parser.add_argument(
        "--sample-mb",
        type=float,
        default=16.0,
        metavar="MB",
        help="maximum size of the rollouts in the page, in megabytes before compression; the charts use all rollouts "
        "(default: %(default)s)",
    )


report_command = Command(
    "report",
    "Write an HTML page about dumps, evaluations and output of `process`: score curves, evaluations by step, scores by "
    "task and level, reasons for scores, and rollouts to read. The page is one file and needs no network.",
    _add_options,
    _report,
)
