"""The `rescore` command: judge stored completions again, and show the changes."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ConfigError
from ..program.parser import Command, CommandParser
from ..program.running import run_to_end
from ..program.shared_options import add_config_option, add_selection_options, file_settings, read_selection
from ..runtime.terminal import print_json, progress_bar
from ..runtime.text import pluralize, printable
from ..storage.folders import find_checkout

if TYPE_CHECKING:
    from ..data.verdict_files import LeftOut
    from ..records import Problem
    from ..session import Session

# The functions that read options and do the work import the modules that `-h` does not need.


def _add_options(parser: CommandParser) -> None:
    parser.add_argument(
        "paths",
        nargs="+",
        type=Path,
        metavar="PATH",
        help="files or folders: dumps of a training (data_dumps), evaluations, output of `process`, or another "
        "program's rows",
    )
    parser.add_argument("--json", action="store_true", help="print the changes of scores as JSON")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="write all rows with their new scores to this file (.jsonl or .parquet); with --keep, write training rows "
        "made from the kept completions instead",
    )
    parser.add_argument(
        "--columns",
        metavar="COLUMNS",
        type=_read_columns,
        help="for another program's rows, the columns with the problem's reference (the string that identifies the "
        "problem) and the completion: reference=NAME,completion=NAME; NAME may be a path, such as choices.0.message",
    )
    add_selection_options(parser)
    add_config_option(parser)


# Long, because the references come from the user's own files.
REFERENCE_CPU_S = 60.0
"""CPU time limit for generating the problem of a reference."""


def _read_columns(text: str) -> dict[str, str]:
    """Return the value of --columns. Raises ArgumentTypeError for an invalid value."""
    from ..data.verdicts import REFERENCE, SEVERAL, SINGLE

    pairs = [pair.partition("=") for pair in text.split(",")]
    columns = {name.strip(): path.strip() for name, _, path in pairs}
    if not all(columns.values()) or not columns.keys() <= {REFERENCE, SINGLE, SEVERAL}:
        raise argparse.ArgumentTypeError(
            f"must be {REFERENCE}=NAME,{SINGLE}=NAME or {REFERENCE}=NAME,{SEVERAL}=NAME; got {text!r}"
        )
    return columns


def _rescore(options: argparse.Namespace, folder: Path) -> int:
    """Judge stored completions again. Print the changed scores or, with --out, write the rows with new scores.

    Raises ConfigError if there are no groups or rows, and WorkerError if the workers cannot be started.
    """
    from ..data.verdict_files import judge_rows
    from ..session import Session

    selection = read_selection(vars(options))
    if options.columns is not None and options.keep is not None:
        fault = "--columns cannot be combined with --keep, which reads only groups that this program wrote"
        raise ConfigError(fault, remedy="omit one of them")
    for name in ("keep", "pass_rate", "columns"):
        if getattr(options, name) is not None and options.out is None:
            raise ConfigError(f"--{name.replace('_', '-')} needs --out FILE")
    session = Session(file_settings("rescore", options, {}, {}), checkout=find_checkout(folder))
    session.reference_cpu_s = REFERENCE_CPU_S
    if options.out is None:
        return _show_changes(session, options)
    with progress_bar("rescore", None) as advance:
        card = run_to_end(
            lambda: judge_rows(
                session,
                options.paths,
                options.out,
                selection=selection,
                columns=options.columns,
                command=options.command_line,
                on_row=advance,
            )
        )
    _print_without_score(card["left_out"], card["without_score"])
    if card["outside"]:
        print(f"Dropped {pluralize(card['outside'], 'row')} with a pass rate outside --pass-rate")
    for reason, number in card.get("not_kept", {}).items():
        print(f"Dropped {pluralize(number, 'row')}: {reason}")
    if card.get("wrong_now"):
        remedy = "to list them, run `rescore` without --keep and --out"
        print(f"Completions that were right and are wrong now: {card['wrong_now']}; {remedy}")
    print(f"Wrote {pluralize(card['rows'], 'row')} to {options.out}")
    return 0


def _show_changes(session: Session[Problem], options: argparse.Namespace) -> int:
    """Print the completions whose score changed. Raises ConfigError if there are no groups."""
    from ..data.changes import Rescored
    from ..data.verdict_files import RowFiles, count_left_out, judge_files, nothing_found, row_files

    files = RowFiles(row_files(options.paths))
    rescored = Rescored()

    async def judge() -> None:
        with progress_bar("rescore", None) as advance:
            async with session, aclosing(judge_files(session, files, groups_alone=True)) as judged:
                async for numbered, added in judged:
                    rescored.add(numbered, added)
                    advance()

    run_to_end(judge)
    left_out = count_left_out(rescored.left_out)
    if not rescored.groups:
        remedy = "for another program's rows, add --out FILE; output of `problems` has no completions to score"
        raise nothing_found(options.paths[0], "groups", left_out, remedy)
    tables = rescored.tables()
    if options.json:
        print_json({**{name: table.records() for name, table in tables.items()}, "left_out": left_out})
        return 0
    for table in tables.values():
        table.print()
    _print_without_score(left_out, rescored.without_score)
    rollouts = sum(tally.count for tally in rescored.before.values())
    print(f"{len(rescored.changes)} of {rollouts} scores changed")
    return 0


def _print_without_score(left_out: Mapping[str, LeftOut], without_score: int) -> None:
    """Print how many rows were skipped, by reason, and how many could not be judged."""
    for reason, facts in left_out.items():
        first = f"first in {printable(facts['first_file'])}, row {facts['first_row']}"
        print(f"Skipped {pluralize(facts['rows'], 'row')}: {printable(reason)} ({first}: {printable(facts['first'])})")
    if without_score:
        print(f"No new score for {pluralize(without_score, 'row')}, because judging failed; see the log above")


rescore_command = Command(
    "rescore",
    "Score stored completions again, and show which scores change; or write the rows with their new scores (--out).",
    _add_options,
    _rescore,
)
