"""The options of the command `audit`, with their defaults. This module imports only what `-h` needs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from reasoning_env.errors import ConfigError
from reasoning_env.program.parser import CommandParser, names, one_of, share
from reasoning_env.program.shared_options import add_config_option, add_score_options, check_score_options
from reasoning_env.tasks import COMPOSITE

DEFAULT_LEVELS: Sequence[float | None] = (None, 0.0, 0.25, 0.5, 0.75, 1.0)
"""Levels that are audited by default; None stands for the library's default parameters."""
DEFAULT_ITEMS = 5
NEVER = "never"
GOLD = "answer"
"""The default column of right answers."""
ROUNDS = ((2, 0.5), (8, 1.0), (32, 1.0))
"""The rounds after the first, as (factor, share). A round uses factor * `items` new problems.

A round leaves out shortcuts whose mean score in the previous round was at most share * `bound_of(shortcut)`.
"""
DEFAULTS = "defaults"
"""The value of `--levels` that stands for the library's default parameters."""


def level_name(level: float | None) -> str:
    """Return a level as `--levels` accepts it: DEFAULTS for None, otherwise the number."""
    return DEFAULTS if level is None else f"{level:g}"


def level_names(levels: Sequence[float | None]) -> str:
    """Return levels as `--levels` accepts them."""
    return ",".join(map(level_name, levels))


def add_options(parser: CommandParser) -> None:
    parser.add_argument(
        "--tasks", type=names, default=[], metavar="NAME,NAME", help=f"tasks to audit (default: all except {COMPOSITE})"
    )
    parser.add_argument(
        "--levels",
        type=_levels,
        default=DEFAULT_LEVELS,
        metavar="LEVEL,LEVEL",
        help=f"difficulty levels to audit, from 0 to 1; {DEFAULTS} stands for reasoning-gym's default parameters "
        f"(default: {level_names(DEFAULT_LEVELS)})",
    )
    factors = [str(factor) for factor, _ in ROUNDS]
    help_text = (
        "problems per task and level in the first round. If answers that need no reasoning score high, further rounds "
        f"use {', '.join(factors[:-1])} and {factors[-1]} times N problems (default: %(default)s)"
    )
    parser.add_argument("--items", type=int, default=DEFAULT_ITEMS, metavar="N", help=help_text)
    parser.add_argument("--seed", type=int, default=42, metavar="N", help="seed of the problems (default: %(default)s)")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("audit.json"),
        metavar="FILE",
        help="file to write all results to (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print the results as JSON instead of a table")
    parser.add_argument(
        "--score",
        metavar="MODULE:FUNCTION",
        help="instead of tasks, audit your function score(completion, **row) on the rows of the file --rows; MODULE is "
        "an importable name, or the path of a .py file",
    )
    parser.add_argument("--rows", type=Path, metavar="FILE", help="file of rows for --score: .jsonl or .parquet")
    parser.add_argument("--gold", metavar="COLUMN", help=f"column of --rows with the right answers (default: {GOLD})")
    add_score_options(parser)
    parser.add_argument(
        "--fail-on",
        type=_fail_on,
        default="high",
        metavar="SEVERITY",
        help=f"exit with status 1 for findings of this severity or higher: low, medium, high or {NEVER} "
        "(default: %(default)s)",
    )
    add_config_option(parser)


def check_options(options: argparse.Namespace) -> None:
    """Raise ConfigError if options contradict each other or are out of their ranges."""
    check_score_options(options)
    of_tasks = ("tasks", "task_modules", "checkout", "rewards", "config", "items", "levels")
    defaults = {"items": DEFAULT_ITEMS, "levels": DEFAULT_LEVELS}
    given = [
        f"--{name.replace('_', '-')}" for name in of_tasks if (getattr(options, name) or None) != defaults.get(name)
    ]
    if options.score is not None and given:
        fault = f"--score cannot be combined with {', '.join(given)}, which are for audits of tasks"
        raise ConfigError(fault, remedy="omit --score, or omit the other options")
    if not 1 <= options.items <= 10_000 or options.seed < 0:
        raise ConfigError("--items must be between 1 and 10000, and --seed must be at least 0")
    if (options.score is None) != (options.rows is None) or (options.gold and options.score is None):
        raise ConfigError("--score MODULE:FUNCTION needs --rows FILE; --rows and --gold need --score")


def _levels(text: str) -> Sequence[float | None]:
    """Parse levels separated by commas. DEFAULTS becomes None, which stands for the library's default parameters."""
    try:
        return [None if level.strip() == DEFAULTS else share(level) for level in text.split(",")]
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"must be {DEFAULTS} or numbers from 0 to 1, such as {DEFAULTS},0,0.5; got {text!r}"
        ) from None


def _fail_on(text: str) -> str:
    from .findings import Severity  # imported here because `-h` does not need it

    return one_of(text, [*(severity.value for severity in Severity), NEVER])
