"""The command `audit`: its options and its output.

The exit status is 1 if a finding has at least the severity `--fail-on`, for example if an answer without reasoning
earns more than the bound of its task. So CI can check a new release of the library.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from reasoning_env.errors import ConfigError
from reasoning_env.program.parser import Command, CommandParser, names, share
from reasoning_env.program.shared_options import add_config_option, add_score_options, check_score_options
from reasoning_env.storage.files import replace_file
from reasoning_env.storage.folders import check_writable
from reasoning_env.storage.reading import read_json
from reasoning_env.tasks import COMPOSITE

from .findings import Severity, is_at_least
from .report import Report, encode_report, print_report
from .rows import GOLD, audit_rows
from .scores import DEFAULTS, ROUNDS
from .tasks import audit_tasks, level_names

DEFAULT_LEVELS: Sequence[float | None] = (None, 0.0, 0.25, 0.5, 0.75, 1.0)
"""Levels that are audited by default; None stands for the library's default parameters."""
DEFAULT_ITEMS = 5
NEVER = "never"


def _audit(options: argparse.Namespace, folder: Path) -> int:
    """Audit, save the report and print it. Return 1 if a finding is at least as severe as --fail-on, else 0.

    Raises:

    - ConfigError: an option or a file cannot be used
    - WorkerError: no problem could be audited
    """
    _check(options)
    _check_output(options.output)  # now, because an audit takes minutes
    report = audit_tasks(options, folder) if options.score is None else audit_rows(options)
    return _finish(report, options)


def _add_options(parser: CommandParser) -> None:
    parser.add_argument(
        "--tasks", type=names, default=[], metavar="NAME,NAME", help=f"tasks to audit (default: all except {COMPOSITE})"
    )
    parser.add_argument(
        "--levels",
        type=_levels,
        default=DEFAULT_LEVELS,
        metavar="LEVEL,LEVEL",
        help=f"levels of difficulty to audit (default: {level_names(DEFAULT_LEVELS)})",
    )
    factors = [str(factor) for factor, _ in ROUNDS]
    help_text = (
        "problems per task and level in the first round. If an answer without reasoning scores high, further rounds "
        f"use {', '.join(factors[:-1])} and {factors[-1]} times N problems (default: %(default)s)"
    )
    parser.add_argument("--items", type=int, default=DEFAULT_ITEMS, metavar="N", help=help_text)
    parser.add_argument("--seed", type=int, default=42, metavar="N", help="seed of the problems (default: %(default)s)")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("audit.json"),
        metavar="FILE",
        help="file for all results (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print the results as JSON instead of a table")
    parser.add_argument(
        "--score",
        metavar="MODULE:FUNCTION",
        help="audit your function score(completion, **row) on the rows of the file --rows, instead of tasks; MODULE is "
        "an importable name, or the path of a .py file",
    )
    parser.add_argument("--rows", type=Path, metavar="FILE", help="rows for --score: .jsonl or .parquet")
    parser.add_argument("--gold", metavar="COLUMN", help=f"column of --rows with the right answers (default: {GOLD})")
    add_score_options(parser)
    parser.add_argument(
        "--fail-on",
        choices=[*(severity.value for severity in Severity), NEVER],
        default=Severity.HIGH.value,
        help="exit with status 1 for findings of this severity or higher (default: %(default)s)",
    )
    add_config_option(parser)


def _check(options: argparse.Namespace) -> None:
    """Raise ConfigError if options contradict each other or are out of their ranges."""
    check_score_options(options)
    of_tasks = ("tasks", "task_modules", "checkout", "rewards", "config", "items", "levels")
    defaults = {"items": DEFAULT_ITEMS, "levels": DEFAULT_LEVELS}
    given = [
        f"--{name.replace('_', '-')}" for name in of_tasks if (getattr(options, name) or None) != defaults.get(name)
    ]
    if options.score is not None and given:
        raise ConfigError(f"--score cannot be combined with {', '.join(given)}, which are for audits of tasks")
    if not 1 <= options.items <= 10_000 or options.seed < 0:
        raise ConfigError("--items must be between 1 and 10000, and --seed must be at least 0")
    if (options.score is None) != (options.rows is None) or (options.gold and options.score is None):
        raise ConfigError("--score MODULE:FUNCTION needs --rows FILE; --rows and --gold need --score")


def _levels(text: str) -> Sequence[float | None]:
    """Parse levels separated by commas; None stands for the library's default parameters."""
    try:
        return [None if level.strip() == DEFAULTS else share(level) for level in text.split(",")]
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"must be numbers from 0 to 1, or {DEFAULTS}, separated by commas; got {text!r}"
        ) from None


# ------------------------------------------------------------------ the output


def _check_output(path: Path) -> None:
    """Raise ConfigError if the path cannot be written, or exists and is not the result of an audit."""
    check_writable(path.parent, "--output")
    if not path.exists():
        return
    try:
        is_audit = path.is_file() and (path.stat().st_size == 0 or "audits" in read_json(path))
    except (OSError, ValueError, TypeError):  # TypeError: the file is a JSON number
        is_audit = False
    if not is_audit:
        raise ConfigError(
            f"{path} exists, and is not the result of an audit", setting="--output", remedy="choose another file"
        )


def _finish(report: Report, options: argparse.Namespace) -> int:
    """Save and print the report, and return the exit status.

    If the report cannot be saved, prints the report and then raises ConfigError, because an audit takes minutes.
    """
    text = encode_report(report)
    output = options.output
    failure: OSError | None = None
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        replace_file(output, [f"{text}\n".encode()], mode=0o666)
    except OSError as error:
        failure = error
    fails = options.fail_on != NEVER and is_at_least(report.findings, Severity(options.fail_on))
    if options.json:
        print(text, flush=True)
    else:
        print_report(report, fails=fails)
    if failure is not None:
        raise ConfigError(f"{output} cannot be written: {failure.strerror}", setting="--output") from failure
    if not options.json:
        print(f"all numbers: {output}")
    return int(fails)


audit_command = Command(
    "audit",
    "Check each task's verifier with right answers, slightly changed answers, and answers that need no reasoning.",
    _add_options,
    _audit,
)
