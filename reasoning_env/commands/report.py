"""The `report` command: read runs and write the page."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ..errors import ConfigError
from ..reports.html.page import check_page, collect, encode, make_page, write_page
from ..reports.runs import find_runs
from ..runtime.text import counted
from .options import CommandParser, program

DEFAULT_PAGE = Path("report.html")


def report_command(argv: Sequence[str], *, default_folder: Path, program: str) -> int:
    """Write the page, and print its path and the files that could not be read; returns the exit status.

    `program` is the command of the environment, which the page shows. Raises ConfigError for paths without groups, and
    for an output that cannot be written.
    """
    options = _parse(argv, default_folder)
    output: Path = options.output
    if output.is_dir():
        output = output / DEFAULT_PAGE
    runs = find_runs(options.paths)
    check_page(output)
    data = collect(runs, program, options.sample_mb)
    if not data["groups"]:
        causes = "".join(f"; {line}" for line in data["notes"][:3])
        raise ConfigError(f"no groups of rollouts can be read in {', '.join(map(str, options.paths))}{causes}")
    for line in data["notes"]:
        print(f"report: {line}", file=sys.stderr)
    write_page(output, make_page(encode(data)))
    rollouts = sum(run["rollouts"] for run in data["runs"])
    groups = sum(run["groups"] for run in data["runs"])
    print(f"{output}: {counted(rollouts, 'rollout')} in {counted(groups, 'group')}; open it in a browser")
    return 0


def _parse(argv: Sequence[str], default_folder: Path) -> argparse.Namespace:
    parser = CommandParser(
        prog=f"{program()} report",
        description="Write one HTML file about dumps, files of `process` and evaluations: curves by task, evaluations "
        "by step, scores by task and level, reasons, and rollouts to read. A browser opens the file without a network.",
        epilog="examples: report data_dumps      report evals/model-a evals/model-b -o models.html",
    )
    parser.add_argument(
        "paths",
        nargs="*",
        type=Path,
        default=[default_folder],
        metavar="PATH",
        help=f"folders of dumps or evaluations, files of groups; each path is a run (default: {default_folder})",
    )
    parser.add_argument("-o", "--output", type=Path, default=DEFAULT_PAGE, help="default: %(default)s")
    parser.add_argument(
        "--sample-mb",
        type=float,
        default=16.0,
        help="megabytes of rollouts in the page, before compression; figures are over all rollouts "
        "(default: %(default)s)",
    )
    options = parser.parse_args(argv)
    if not 0 < options.sample_mb <= 1000:
        parser.error("--sample-mb must be above 0 and at most 1000")
    return options
