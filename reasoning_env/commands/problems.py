"""The `problems` command: write a file of training problems, with a card that describes the file."""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from .. import __version__
from ..data.output import finished_card, rows_by_position, unfinished_rows, write_output
from ..data.problems import (
    PROBLEM_COLUMNS,
    EarlierRows,
    Level,
    ProblemForm,
    ProblemRow,
    ProblemRows,
    RowPlan,
    TaskProgress,
    describe_problem,
)
from ..data.tables import check_output
from ..errors import ConfigError
from ..problems.plan import made_with
from ..program.parser import Command, CommandParser, at_least_one, mapping, names, seed, shard, share
from ..program.running import run_to_end
from ..program.shared_options import (
    OF_COMPLETIONS_OF_EVALUATIONS,
    add_config_option,
    file_settings,
    given_settings,
)
from ..records import Problem
from ..runtime.terminal import Table, progress_bar
from ..session import Session
from ..settings import ReasoningSettings
from ..storage.files import KeyedFile
from ..storage.folders import find_checkout

IGNORED = frozenset(("curriculum_target_accuracy", *OF_COMPLETIONS_OF_EVALUATIONS))
"""Settings that do not change a file of problems."""


def _problems(options: argparse.Namespace, folder: Path) -> int:
    """Write a file of problems and its card, or resume an unfinished file; print a row for each task.

    Returns 1 if the whole file has no rows, else 0. Raises ConfigError for a wrong option, and if the unfinished file
    has other settings.
    """
    if options.evaluation and options.levels is not None:
        raise ConfigError("--evaluation cannot be combined with --levels", remedy="use --config with eval_level")
    check_output(options.out, "--out")
    settings = file_settings(options, {}, given_settings(options), IGNORED)
    levels = _levels_of(settings) if options.levels is None else tuple(options.levels)
    wanted = RowPlan(options.count or 1, levels, settings.seed, *options.shard)
    session = Session(settings, checkout=find_checkout(folder))
    how = _FileOptions(ProblemForm(options.form), options.evaluation, options.levels is not None)
    card = run_to_end(lambda: write_problems(session, wanted, options.out, how, options.command_line))
    if card["tasks"]:
        _table(card).print()
    for task, facts in card["tasks"].items():
        for reason in facts["ended"]:
            print(f"{task} has {facts['rows']} of {facts['wanted']} rows: {reason}")
    print(f"Wrote {card['rows']} rows to {options.out}")
    if not card["rows"] and wanted.parts == 1:  # one of several parts may be empty
        print("the file has no rows; see the table above for the reasons", file=sys.stderr)
        return 1
    return 0


def _add_options(parser: CommandParser) -> None:
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="file to write; the name must end in .jsonl or .parquet"
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--count", type=at_least_one, metavar="N", help="number of rows, over all tasks")
    what.add_argument("--evaluation", action="store_true", help="write the evaluation set instead of training problems")
    parser.add_argument(
        "--tasks",
        action="extend",
        type=names,
        metavar="NAMES",
        help="names, globs or categories, separated by commas, such as gcd,algebra/* (default: all)",
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
        help="levels of difficulty from 0 to 1, used in turn, or `random` (default: from --config, or the library's "
        "defaults)",
    )
    parser.add_argument("--seed", type=seed, metavar="N", help="seed of the problems (default: from --config, or 42)")
    parser.add_argument(
        "--format",
        dest="form",
        choices=[form.value for form in ProblemForm],
        default=ProblemForm.ROWS.value,
        help="columns of a row: `verl` for verl and SkyRL, `trl` for TRL (default: %(default)s)",
    )
    parser.add_argument(
        "--shard", type=shard, default=(1, 1), metavar="K/N", help="write only part K of N; parts share no questions"
    )
    add_config_option(parser)


def _levels_of(settings: ReasoningSettings) -> tuple[Level, ...]:
    """Return the levels of the settings. Raises ConfigError for a curriculum."""
    if settings.complexity_mode == "curriculum":
        raise ConfigError(
            "a file cannot adapt its level to the model, so complexity_mode must not be curriculum",
            setting="complexity_mode",
            remedy="set --levels, such as 0.25,0.5 or random",
        )
    return ("random",) if settings.complexity_mode == "random" else (settings.complexity_level,)


def _levels(text: str) -> list[Level]:
    if text.strip() == "random":
        return ["random"]
    try:
        levels: list[Level] = [share(part.strip()) for part in text.split(",")]
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"must be levels from 0 to 1, separated by commas, or random; got {text!r}"
        ) from None
    if len(set(levels)) < len(levels):
        raise argparse.ArgumentTypeError(f"must not contain a level twice; got {text!r}")
    return levels


@dataclass(frozen=True)
class _FileOptions:
    """How to write a file.

    `evaluation`: write the evaluation set. `needs_levels`: raise an error for tasks without levels.
    """

    form: ProblemForm = ProblemForm.ROWS
    evaluation: bool = False
    needs_levels: bool = False


async def write_problems(
    session: Session[Problem],
    wanted: RowPlan,
    out: Path,
    how: _FileOptions = _FileOptions(),
    command: str = "",
) -> Mapping[str, Any]:
    """Write a file of problems, or resume it, and return its card. Starts and closes the session.

    The card has `rows`, `tasks` with the progress of each task, the settings as `made_with`, and `releases`. Raises
    ConfigError for tasks without levels if `how.needs_levels`, and for an unfinished file with other settings.
    """
    async with session:
        without = sorted(set(session.plan.weights) - session.plan.adjustable)
        if how.needs_levels and without:
            raise ConfigError(
                f"these tasks have no levels: {', '.join(without)}",
                setting="--levels",
                remedy=f"exclude them with --exclude {','.join(without)}",
            )
        decided_by = _made_with(session, wanted, how)
        finished = finished_card(out, decided_by)
        if finished is not None:
            return finished
        earlier = EarlierRows()
        with unfinished_rows(out, decided_by, partial(_read_row, earlier)) as rows:
            if how.evaluation:
                progress = await _append_evaluation_rows(session, wanted, rows, how.form)
            else:
                progress = await _append_missing_rows(session, wanted, rows, earlier, how.form)
            card = _card(session, rows, progress, decided_by, command)

            columns = (row["row"] for row in rows_by_position(rows) if row["row"] is not None)
            write_output(out, card, columns, PROBLEM_COLUMNS[how.form], under_way=rows)
        return card


def _read_row(earlier: EarlierRows, row: Mapping[str, Any]) -> None:
    """Add the progress and question of an earlier call's row to `earlier`. Raises ValueError for an invalid row."""
    if not isinstance(row.get("row"), dict | None):
        raise ValueError("`row` must be a mapping of columns")
    if "progress" in row:
        progress = TaskProgress.read(row["progress"])
        earlier.progress[progress.task] = progress
        earlier.questions.setdefault(progress.task, set()).add(str(row["question"]))


async def _append_evaluation_rows(
    session: Session[Problem], wanted: RowPlan, rows: KeyedFile, form: ProblemForm
) -> Mapping[str, TaskProgress]:
    """Add this part of the evaluation set. Returns no progress, because each problem is generated only once."""
    problems = await session.evaluation_set.problems()
    for position in range(wanted.part - 1, len(problems), wanted.parts):
        columns = describe_problem(session, position, problems[position], form)
        rows.append_row(str(position), {"row": columns})
    return {}


async def _append_missing_rows(
    session: Session[Problem],
    wanted: RowPlan,
    rows: KeyedFile,
    earlier: EarlierRows,
    form: ProblemForm,
) -> Mapping[str, TaskProgress]:
    """Add the missing rows, and return the progress of each task.

    Rows of other parts are stored without columns, so that their questions are not used again.
    """
    problems = ProblemRows(session, wanted, earlier)
    total = None if wanted.parts > 1 else wanted.count
    with progress_bar("problems", total, done=len(rows.keys)) as advance:

        def keep(row: ProblemRow) -> None:
            columns = None
            if row.is_of_part:
                columns = describe_problem(session, row.position, row.problem, form)
                advance()
            facts = {"question": row.question, "progress": row.progress.state(), "row": columns}
            rows.append_row(str(row.position), facts)

        await problems.make(keep)
    return problems.progress


def _made_with(session: Session[Problem], wanted: RowPlan, how: _FileOptions) -> dict[str, object]:
    """Return all values that determine the rows, to compare with those of an unfinished file."""
    # The file's levels and seed replace those of the settings.
    of_file = {
        "count": None if how.evaluation else wanted.count,
        "format": how.form.value,
        "levels": list(wanted.levels),
        "seed": wanted.seed,
        "shard": [wanted.part, wanted.parts],
        "system_prompt": session.system_prompt(),
    }
    return made_with(session.settings, session.plan, "problems", **{**of_file, **session.library.versions})


def _card(
    session: Session[Problem],
    rows: KeyedFile,
    progress_of_tasks: Mapping[str, TaskProgress],
    decided_by: Mapping[str, object],
    command: str,
) -> dict[str, object]:
    tasks = {}
    for task, progress in progress_of_tasks.items():
        tasks[task] = {
            "rows": progress.kept,
            "wanted": progress.wanted,
            "draws": sum(one.draws for one in progress.levels),
            "duplicates": sum(one.duplicates for one in progress.levels),
            "held_out": sum(one.held_out for one in progress.levels),
            "too_long": sum(one.too_long for one in progress.levels),
            "failures": sum(one.failures for one in progress.levels),
            "rows_by_level": {_level_name(one.level): one.rows for one in progress.levels},
            "ended": [f"{_level_name(one.level)}, {one.ended}" for one in progress.levels if one.ended],
        }
    return {
        "rows": sum(progress.kept for progress in progress_of_tasks.values()) if progress_of_tasks else len(rows.keys),
        "command": command,
        "tasks": tasks,
        "releases": {
            **session.library.versions,
            "reasoning_gym_environment": __version__,
            "python": platform.python_version(),
        },
        "made_with": decided_by,
    }


def _level_name(level: Level) -> str:
    if level is None:
        return "at reasoning-gym's defaults"
    return "at random levels" if level == "random" else f"at level {level:g}"


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
