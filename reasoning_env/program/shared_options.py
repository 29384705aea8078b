"""Options that several commands share: for settings, for training rows, for one problem, and for a score function."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence, Set
from enum import Enum
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError
from ..prompts.thinking import AUTO_FORMAT, NAMES
from .parser import at_least_one, keep, mapping, pass_rates, rewards, seed, share

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from ..data.training import Selection
    from ..records import Problem
    from ..session import Session
    from ..settings import CommandName, ReasoningSettings
    from ..sources.score_function import ScoreFunction

# The functions that read options import the modules of their work, which `-h` does not need.


def add_selection_options(parser: argparse._ActionsContainer) -> None:
    """Add the options that choose training rows."""
    parser.add_argument(
        "--keep",
        type=keep,
        metavar="WHICH",
        help="write training rows: best, correct, all, pairs (right, wrong)",
    )
    parser.add_argument(
        "--pass-rate",
        type=pass_rates,
        metavar="LOW..HIGH",
        help="only problems with a pass rate in this range, e.g. 0.2..0.8",
    )
    parser.add_argument(
        "--max-per-problem", type=at_least_one, metavar="N", help="with --keep: maximum rows per question"
    )


def read_selection(options: Mapping[str, Any]) -> Selection:
    """Return which rows the options select. Raises ConfigError for --max-per-problem without --keep."""
    from ..data.training import Selection

    limit = options.get("max_per_problem")
    if limit is not None and options.get("keep") is None:
        raise ConfigError("--max-per-problem needs --keep")
    return Selection(options.get("keep"), options.get("pass_rate"), limit)


def add_config_option(parser: argparse.ArgumentParser) -> None:
    """Add the options --config, --rewards, --task-modules and --checkout."""
    common = parser.add_argument_group("common options")
    common.add_argument(
        "--config",
        metavar="FILE",
        action="append",
        default=[],
        help="YAML file with settings; later files override earlier ones",
    )
    common.add_argument(
        "--rewards",
        type=rewards,
        metavar="WHICH",
        help="strict: problems and verifiers are corrected (default); plain: only problems are; library: neither is",
    )
    common.add_argument(
        "--task-modules", metavar="NAMES", help="modules with your own tasks: importable names, or paths of .py files"
    )
    common.add_argument(
        "--checkout",
        metavar="FOLDER",
        help="folder with a reasoning_gym package to use instead of the installed package",
    )
    parser.add_argument("--task_modules", dest="task_modules", help=argparse.SUPPRESS)


def given_settings(options: argparse.Namespace) -> dict[str, object]:
    """Return the settings that the user gave as options, by name."""
    from ..settings import ReasoningSettings

    names = vars(options).keys() & ReasoningSettings.model_fields.keys()
    return {name: getattr(options, name) for name in names if getattr(options, name) is not None}


def file_settings(
    command: CommandName,
    options: argparse.Namespace,
    defaults: Mapping[str, object],
    given: Mapping[str, object],
    without_effect: Callable[[ReasoningSettings], Set[str]] = lambda _: frozenset(),
) -> ReasoningSettings:
    """Return a command's settings from `options`, `given`, the --config files and `defaults`.

    A source overrides the sources named after it. `options` needs `config`, `task_modules`, `checkout` and `rewards`.
    Logs a warning for the user's settings that the command does not use, and for those that `without_effect` returns.
    Raises ConfigError for invalid settings.
    """
    from ..settings import ReasoningSettings
    from .config_files import merge_settings, read_given, warn_of_ignored

    more = {"task_modules": options.task_modules, "checkout": options.checkout, "rewards": options.rewards}
    given = {**given, **{name: value for name, value in more.items() if value is not None}}
    read = read_given(command, options.config, {f"env.{name}": value for name, value in given.items()})
    used = {name: value for name, value in given.items() if f"env.{name}" not in read.ignored}
    settings = merge_settings(ReasoningSettings, read.file.env, defaults, used)
    warn_of_ignored(command, read.ignored_with(without_effect(settings)))
    return settings


def add_problem_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose a problem of a task, and the format of the model's thinking."""
    parser.add_argument(
        "--seed",
        dest="problem_seed",
        type=seed,
        default=42,
        metavar="N",
        help="seed of the problem in reasoning-gym (default: %(default)s)",
    )
    parser.add_argument(
        "--level", type=share, metavar="L", help="difficulty from 0 to 1 (if omitted: the default parameters)"
    )
    parser.add_argument(
        "--params",
        type=mapping,
        default={},
        metavar="MAPPING",
        help="parameters of the task in reasoning-gym, such as '{min_terms: 4}'",
    )
    parser.add_argument(
        "--thinking",
        choices=NAMES,
        metavar="FORMAT",
        help=f"format of the model's thinking, such as `think` or `gpt-oss` (default: the value in --config, else "
        f"{AUTO_FORMAT}); the command `settings thinking` lists all formats",
    )


def problem_settings(
    command: CommandName,
    options: argparse.Namespace,
    tasks: Sequence[str],
    defaults: Mapping[str, object] | None = None,
) -> ReasoningSettings:
    """Return the settings of a command that called `add_problem_options`. `tasks` is used only without --config."""
    given: dict[str, object] = {} if options.config else {"tasks": tasks}
    if options.thinking is not None:
        given["thinking"] = options.thinking
    return file_settings(command, options, defaults or {}, given)


def warn_without_levels(session: Session[object], tasks: Sequence[str], level: float | None) -> None:
    """If a level was requested, print on stderr the tasks that have no levels."""
    without = [task for task in tasks if task not in session.library.adjustable]
    if level is not None and without:
        print(f"--level has no effect on tasks without levels: {', '.join(without)}", file=sys.stderr)


async def check_params(
    session: Session[object], tasks: Sequence[str], params: Mapping[str, object], level: float | None
) -> None:
    """Raise ConfigError if a task does not accept the given parameters at the given level."""
    if not params:
        return
    defaults = session.plan.all_params
    faults = await session.pool.check([(task, {**defaults.get(task, {}), **params}, level) for task in tasks])
    if faults:
        raise ConfigError("; ".join(faults), setting="--params")


def problem_as_json(problem: Problem) -> dict[str, object]:
    """Return a problem as JSON values. `level` and `params` are the values that generated the problem."""
    return {
        "task": problem.task,
        "seed": problem.spec.seed,
        "level": problem.level,
        "params": dict(problem.params),
        "question": problem.question,
        "answer": problem.answer,
        **({} if problem.library_answer is None else {"library_answer": problem.library_answer}),
    }


def show_answer(problem: Problem) -> str:
    """Return the right answer for display, followed by reasoning-gym's answer if the latter is wrong."""
    if problem.answer is None:
        return "(many answers are right)"
    if problem.library_answer is None:
        return problem.answer
    return f"{problem.answer}   (corrected: reasoning-gym's own answer is {problem.library_answer})"


def show_messages(messages: Sequence[Mapping[str, str]]) -> str:
    """Return a conversation as a string."""
    return "\n\n".join(f"--- {message['role']}\n{message['content']}" for message in messages)


def add_score_options(parser: argparse._ActionsContainer) -> None:
    """Add the options that are valid only with --score."""
    parser.add_argument(
        "--deadline-s",
        dest="scoring_deadline_s",
        type=float,
        metavar="SECONDS",
        help="CPU time limit for scoring a completion, in seconds (default: 5)",
    )
    parser.add_argument(
        "--memory-mb",
        dest="worker_memory_mb",
        type=int,
        metavar="MB",
        help="memory limit of a worker process in MB, not counting the memory for importing the module (default: 1024)",
    )
    parser.add_argument(
        "--read", action="append", default=[], metavar="PATH", help="let the function read this path; repeatable"
    )
    parser.add_argument(
        "--env-var",
        action="append",
        default=[],
        metavar="NAME",
        help="pass this environment variable to the function; repeatable",
    )
    parser.add_argument("--threads", action="store_true", help="let the function start threads")


def check_score_options(options: argparse.Namespace) -> None:
    """Raise ConfigError if options that are valid only with --score are given without --score."""
    if options.score is None and score_words(options):
        raise ConfigError("--read, --env-var, --threads, --deadline-s and --memory-mb need --score MODULE:FUNCTION")


def score_function(options: argparse.Namespace) -> ScoreFunction:
    """Return the score function that --score names."""
    from ..sources.score_function import ScoreFunction

    return ScoreFunction(options.score, options.read, options.env_var, options.threads)


def score_words(options: argparse.Namespace) -> list[str]:
    """Return the options of `add_score_options` as words of a command line, such as `--deadline-s`, `5`."""
    words = [word for path in options.read for word in ("--read", path)]
    words += [word for name in options.env_var for word in ("--env-var", name)]
    words += ["--threads"] if options.threads else []
    words += [] if options.scoring_deadline_s is None else ["--deadline-s", f"{options.scoring_deadline_s:g}"]
    words += [] if options.worker_memory_mb is None else ["--memory-mb", str(options.worker_memory_mb)]
    return words


MAX_DEFAULT_LENGTH = 48
LONG = "long text"
"""Shown instead of a default of more than MAX_DEFAULT_LENGTH characters."""


def default_text(field: FieldInfo) -> str:
    """Return a setting's default as a string: `none` for None, `empty` for "" and [], LONG instead of a long string."""
    value: object = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, Enum):
        value = value.value
    if value is None:
        return "none"
    if value in ("", []):
        return "empty"
    text = str(value)
    return text if len(text) <= MAX_DEFAULT_LENGTH else LONG


def range_text(field: FieldInfo) -> str:
    """Return the limits or the choices of a setting, separated by commas; "" if the setting has neither."""
    from ..settings.given import choices

    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    words = []
    for constraint in field.metadata:
        words += [f"{sign} {getattr(constraint, limit)}" for limit, sign in signs.items() if hasattr(constraint, limit)]
    extra = field.json_schema_extra
    of_table = extra.get("enum") if isinstance(extra, dict) else None  # choices that come from a table
    words += map(str, of_table) if isinstance(of_table, list) else choices(field)
    return ", ".join(words)
