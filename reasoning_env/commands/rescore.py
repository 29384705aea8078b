"""The `rescore` command: score dumps, process files and evaluations again, and show what changed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..folders import find_checkout
from ..records import LibraryInfo
from ..reports.measuring import open_library, run_measurement
from ..reports.rescoring import EXAMPLES_KEPT, Change, Rescoring, rescore
from ..reports.sources import Source, find_sources
from ..settings import ReasoningSettings
from ..terminal import Table, print_json, progress_bar, visible
from ..workers.pool import PoolSettings

TEXT_CHARACTERS = 160
TASK_COLUMNS = {
    "TASK": "",
    "ROLLOUTS": "d",
    "BEFORE": ".3f",
    "AFTER": ".3f",
    "CHANGE": "+.3f",
    "HIGHER": "d",
    "LOWER": "d",
}
OUTCOME_COLUMNS = {"TASK": "", "BEFORE": "", "AFTER": "", "ROLLOUTS": "d"}


def rescore_command(argv: Sequence[str], folder: Path) -> int:
    """Judge again, and print what changed, by task and by reason, with examples; returns 0.

    `folder` is where a checkout of the library may lie. Raises ConfigError for a path that cannot be read or holds
    nothing to judge, and WorkerError where the workers cannot be started.
    """
    options = _parse(argv)
    settings = PoolSettings(
        checkout=options.library or find_checkout(folder), strict_rewards=not options.plain, niceness=0
    )
    sources = find_sources(options.paths)
    library, result = run_measurement(lambda: _rescore(settings, sources))
    faults = [fault for source in sources for fault in source.faults]
    if not result.problems and not result.left_out:
        raise ConfigError("; ".join(faults) or f"{', '.join(map(str, options.paths))}: no line holds a completion")
    for fault in faults:
        print(visible(fault), file=sys.stderr)
    scores = "the library's own scores" if options.plain else "the scores of training"
    if options.json:
        print_json(_document(result, library, scores))
    else:
        _print(result, library, scores, options.examples)
    return 0


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="rescore",
        description="Judge the answers of dumps, process files and evaluation folders again, and show what changed.",
    )
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="a file, or a folder of files")
    parser.add_argument("--plain", action="store_true", help="the library's own scores, not those of training")
    parser.add_argument(
        "--library", type=Path, metavar="FOLDER", help="judge with another release: a folder that holds `reasoning_gym`"
    )
    parser.add_argument(
        "--examples", type=int, default=2, metavar="N", help="changed answers to show a task (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    options = parser.parse_args(argv)
    if not 0 <= options.examples <= EXAMPLES_KEPT:
        parser.error(f"--examples must be between 0 and {EXAMPLES_KEPT}")
    if options.library is not None and not (options.library / "reasoning_gym" / "__init__.py").exists():
        parser.error(f"--library: {options.library} holds no folder reasoning_gym")
    return options


async def _rescore(settings: PoolSettings, sources: Sequence[Source]) -> tuple[LibraryInfo, Rescoring]:
    defaults = ReasoningSettings()
    async with open_library(settings, []) as library:
        pool = library.pools[0]
        with progress_bar("rescore", None) as advance:
            result = await rescore(
                (group for source in sources for group in source.groups()),
                pool,
                pool,
                max_answer_bytes=defaults.max_answer_bytes,
                deadline_s=defaults.eval_generation_deadline_s,
                on_done=advance,
            )
        return library.info, result


def _task_table(result: Rescoring) -> Table:
    tallies = sorted(result.tasks.items(), key=lambda item: (-abs(item[1].change), -item[1].changed, item[0]))
    rows = [
        (task, one.rollouts, one.before / one.rollouts, one.after / one.rollouts, one.change, one.higher, one.lower)
        for task, one in tallies
        if one.rollouts
    ]
    return Table(TASK_COLUMNS, rows)


def _outcome_table(result: Rescoring) -> Table:
    rows = [
        (task, before, after, count)
        for task, tally in result.tasks.items()
        for (before, after), count in tally.outcomes.items()
    ]
    return Table(OUTCOME_COLUMNS, sorted(rows, key=lambda row: (-row[3], row)))


def _print(result: Rescoring, library: LibraryInfo, scores: str, examples: int) -> None:
    print(f"reasoning-gym {library.version} from {library.path}; {scores}\n")
    changed = {task for task, tally in result.tasks.items() if tally.changed}
    if changed:
        tasks = _task_table(result)
        Table(tasks.columns, [row for row in tasks.rows if row[0] in changed]).print()
        print("\nWhat changed, by task and reason:\n")
        _outcome_table(result).print()
        print()
        for task in sorted(changed):
            for change in result.tasks[task].examples[:examples]:
                print(_example(task, change))
    for reason, count in result.left_out.items():
        first = visible(result.first_left_out[reason], 2 * TEXT_CHARACTERS)
        print(f"left out: {count} problems {reason}; the first: {first}")
    print(
        f"{result.changed} of {result.rollouts} answers to {result.problems} problems are judged differently, in "
        f"{len(changed)} of {len(result.tasks)} tasks"
    )


def _example(task: str, change: Change) -> str:
    before, after = (f"{one.outcome} ({one.score:.3f})" for one in (change.before, change.after))
    expected = "many are right" if change.expected is None else visible(change.expected, TEXT_CHARACTERS)
    return (
        f"{visible(task)}, seed {change.seed}: {visible(before)} -> {after}\n"
        f"  answer:   {visible(change.answer, TEXT_CHARACTERS)}\n  expected: {expected}\n"
    )


def _document(result: Rescoring, library: LibraryInfo, scores: str) -> dict[str, Any]:
    return {
        "library": {"version": library.version, "path": library.path},
        "scores": scores,
        "problems": result.problems,
        "rollouts": result.rollouts,
        "changed": result.changed,
        "left_out": dict(result.left_out),
        "tasks": _task_table(result).records(),
        "outcomes": _outcome_table(result).records(),
        "examples": [
            {"task": task, **asdict(change)}
            for task, tally in sorted(result.tasks.items())
            for change in tally.examples
        ],
    }
