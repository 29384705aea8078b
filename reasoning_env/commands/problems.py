"""The `problems` command: write a file of training problems, with a card that describes the file."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..errors import ConfigError
from ..program.parser import Command, CommandParser, at_least_one, mapping, names, problem_form, seed, shard, share
from ..program.running import run_to_end
from ..program.shared_options import add_config_option, file_settings, given_settings
from ..runtime.terminal import Table
from ..runtime.text import pluralize
from ..storage.folders import find_checkout

if TYPE_CHECKING:
    from ..data.problems import Level
    from ..settings import ReasoningSettings


def _problems(options: argparse.Namespace, folder: Path) -> int:
    """Write a file of problems and its card, or resume an unfinished file; print a row for each task.

    Returns 1 if a file without `--shard` has no rows, else 0. Raises ConfigError for a wrong option, and if the
    unfinished file has other settings.
    """
    from ..data.problems import FileOptions, RowPlan, write_problems  # imported here because `-h` does not need them
    from ..data.tables import check_output
    from ..evaluations.plan import without_effect
    from ..session import Session

    if options.evaluation and options.levels is not None:
        raise ConfigError("--evaluation cannot be combined with --levels", remedy="set eval_level in the --config file")
    check_output(options.out, "--out")
    given = given_settings(options)
    part, parts = options.shard
    if options.evaluation:
        settings = file_settings("problems --evaluation", options, {}, given, without_effect)
        wanted = RowPlan(1, part=part, parts=parts)
    else:
        settings = file_settings("problems", options, {}, given, _without_effect_on_rows)
        levels = _levels_of(settings) if options.levels is None else tuple(options.levels)
        wanted = RowPlan(options.count, levels, settings.seed, part, parts)
    session = Session(settings, checkout=find_checkout(folder))
    how = FileOptions(
        options.form, options.evaluation, options.levels is not None, command=options.command_line, version=__version__
    )
    card = run_to_end(lambda: write_problems(session, wanted, options.out, how))
    if card["tasks"]:
        _table(card).print()
    for task, facts in card["tasks"].items():
        for reason in facts["ended"]:
            print(f"{task} has {facts['rows']} of {facts['wanted']} rows: {reason}")
    print(f"Wrote {pluralize(card['rows'], 'row')} to {options.out}")
    if not card["rows"] and wanted.parts == 1:  # one of several parts may be empty
        print("the file has no rows; see the table above for the reasons", file=sys.stderr)
        return 1
    return 0


def _add_options(parser: CommandParser) -> None:
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="file to write; the name must end in .jsonl or .parquet"
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--count", type=at_least_one, metavar="N", help="number of rows of all tasks together")
    what.add_argument("--evaluation", action="store_true", help="write the evaluation set instead of training problems")
    parser.add_argument(
        "--tasks",
        action="extend",
        type=names,
        metavar="NAMES",
        help="tasks: names, globs or categories, separated by commas, such as gcd,algebra/* (default: all)",
    )
    parser.add_argument(
        "--exclude",
        dest="exclude_tasks",
        action="extend",
        type=names,
        metavar="NAMES",
        help="tasks to exclude",
    )
    parser.add_argument(
        "--params",
        dest="task_params",
        type=mapping,
        metavar="MAPPING",
        help="parameters by task, such as '{chain_sum: {min_terms: 4}}'",
    )
    parser.add_argument(
        "--levels",
        type=_levels,
        metavar="L,L",
        help="levels of difficulty from 0 to 1, used in turn, or `random` (default: as in --config, else the "
        "tasks' default parameters)",
    )
    parser.add_argument("--seed", type=seed, metavar="N", help="seed of the problems (default: from --config, or 42)")
    parser.add_argument(
        "--format",
        dest="form",
        type=problem_form,
        default="rows",
        metavar="FORM",
        help="columns to write: `rows` for all columns (default), `verl` for the columns of verl and SkyRL, `trl` for "
        "those of TRL",
    )
    parser.add_argument(
        "--shard", type=shard, default=(1, 1), metavar="K/N", help="write only part K of N; parts share no questions"
    )
    add_config_option(parser)


def _without_effect_on_rows(settings: ReasoningSettings) -> set[str]:
    """Return the settings that do not change the file: env.task_sampling if adaptive, which would need scores."""
    return {"env.task_sampling"} if settings.task_sampling == "adaptive" else set()


def _levels_of(settings: ReasoningSettings) -> tuple[Level, ...]:
    """Return the levels of difficulty that the settings choose. Raises ConfigError if they choose a curriculum."""
    if settings.complexity_mode == "curriculum":
        raise ConfigError(
            "the levels in a file cannot adapt to a model, so complexity_mode must not be `curriculum`",
            setting="complexity_mode",
            remedy="set --levels to `random`, or to levels such as `0.25,0.5`",
        )
    return ("random",) if settings.complexity_mode == "random" else (settings.complexity_level,)


def _levels(text: str) -> list[Level]:
    if text.strip() == "random":
        return ["random"]
    try:
        levels: list[Level] = [share(part.strip()) for part in text.split(",")]
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"must be levels from 0 to 1, separated by commas, or `random`; got {text!r}"
        ) from None
    if len(set(levels)) < len(levels):
        raise argparse.ArgumentTypeError(f"must not contain a level twice; got {text!r}")
    return levels


def _table(card: Mapping[str, Any]) -> Table:
    columns = {
        "TASK": "",
        "ROWS": "d",
        "REQUESTED": "d",
        "DRAWS": "d",
        "REPEATED": "d",
        "HELD OUT": "d",
        "TOO LONG": "d",
    }
    names = ("rows", "wanted", "draws", "duplicates", "held_out", "too_long")
    return Table(columns, [(task, *(facts[name] for name in names)) for task, facts in card["tasks"].items()])


problems_command = Command(
    "problems",
    "Write a file of training problems. Each question is used once, and none is in the evaluation set. Run the same "
    "command again to finish an incomplete file.",
    _add_options,
    _problems,
    names={"complexity_mode": "--levels"},
)
