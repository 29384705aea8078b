"""Options that several commands share: settings, completions to train on, a problem, and a score function."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from ..data.training import Selection
from ..dumps.format import Keep
from ..errors import ConfigError
from ..prompts.thinking import AUTO_FORMAT, NAMES
from ..records import Problem
from ..session import Session
from ..settings import ReasoningSettings, Rewards
from ..sources.score_function import ScoreFunction
from ..storage.config_files import check_names, read_config_files, split_settings
from .parser import at_least_one, mapping, pass_rates, seed, share
from .training import NAMES_OF_TRAINING, OF_EVALUATE, OF_SERVER


def add_selection_options(parser: argparse._ActionsContainer) -> None:
    """Add the options that choose completions to train on."""
    parser.add_argument(
        "--keep",
        choices=[keep.value for keep in Keep],
        metavar="WHICH",
        help="write rows to train on: best, correct, all or pairs",
    )
    parser.add_argument(
        "--pass-rate",
        type=pass_rates,
        metavar="LOW..HIGH",
        help="keep problems whose pass rate is in this range: 0.2..0.8",
    )
    parser.add_argument(
        "--max-per-problem", type=at_least_one, metavar="N", help="with --keep: limit of rows for each question"
    )


def read_selection(options: Mapping[str, Any]) -> Selection:
    """Return what the options choose. Raises ConfigError for a limit without --keep."""
    keep = options.get("keep")
    limit = options.get("max_per_problem")
    if limit is not None and keep is None:
        raise ConfigError("--max-per-problem goes with --keep")
    return Selection(None if keep is None else Keep(keep), options.get("pass_rate"), limit)


logger = logging.getLogger(__name__)


COMMON_OPTIONS = (
    "common options: --config FILE, --rewards WORD, --task-modules NAMES, --checkout FOLDER (`settings --help` "
    "explains them)"
)


def add_config_option(parser: argparse.ArgumentParser) -> None:
    """Add --config, --rewards and where tasks come from to a command whose options are not the settings themselves.

    `settings --help` explains them once, for all commands.
    """
    hidden = argparse.SUPPRESS
    parser.add_argument("--config", metavar="FILE", action="append", default=[], help=hidden)
    parser.add_argument("--task-modules", "--task_modules", metavar="NAME,NAME", help=hidden)
    parser.add_argument("--checkout", metavar="FOLDER", help=hidden)
    parser.add_argument("--rewards", choices=get_args(Rewards), help=hidden)
    parser.epilog = COMMON_OPTIONS


def given_settings(options: argparse.Namespace) -> dict[str, object]:
    """Return the options that are settings, by the names of the settings, without those that were not given."""
    names = vars(options).keys() & ReasoningSettings.model_fields.keys()
    return {name: getattr(options, name) for name in names if getattr(options, name) is not None}


def file_settings(
    options: argparse.Namespace, defaults: Mapping[str, object], given: Mapping[str, object]
) -> ReasoningSettings:
    """Return the settings of the files of --config, under the settings `given` and over the `defaults`.

    `options` are those of a command with `add_config_option`; its other options are given too.

    Warns of what the files hold for other commands. Raises ConfigError.
    """
    more = {"task_modules": options.task_modules, "checkout": options.checkout, "rewards": options.rewards}
    given = {**given, **{name: value for name, value in more.items() if value is not None}}
    files = read_config_files(options.config)
    check_names(files, NAMES_OF_TRAINING, [*OF_SERVER, *OF_EVALUATE])
    settings, others = split_settings(ReasoningSettings, files, defaults, given)
    if others:
        logger.warning("not used by this command: %s", ", ".join(others))
    return settings


def add_problem_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose a problem of a task, and how the model thinks."""
    parser.add_argument(
        "--seed",
        dest="problem_seed",
        type=seed,
        default=42,
        metavar="N",
        help="the library's seed (default: %(default)s)",
    )
    parser.add_argument("--level", type=share, metavar="L", help="difficulty from 0 to 1 (default: the library's own)")
    parser.add_argument(
        "--params",
        type=mapping,
        default={},
        metavar="MAPPING",
        help="parameters of the task in the library, such as '{min_terms: 4}'",
    )
    parser.add_argument(
        "--thinking",
        choices=NAMES,
        help=f"format of the model's thinking (default: {AUTO_FORMAT}, or that of --config)",
    )


def problem_settings(
    options: argparse.Namespace, tasks: Sequence[str], defaults: Mapping[str, object] | None = None
) -> ReasoningSettings:
    """Return the settings of a command with `add_problem_options`: of the files, or of these tasks without files."""
    given: dict[str, object] = {} if options.config else {"tasks": tasks}
    if options.thinking is not None:
        given["thinking"] = options.thinking
    return file_settings(options, defaults or {}, given)


def warn_without_levels(session: Session[object], tasks: Sequence[str], level: float | None) -> None:
    """Name on stderr the tasks that have no levels, if a level is asked for."""
    without = [task for task in tasks if task not in session.library.adjustable]
    if level is not None and without:
        print(f"--level changes nothing where tasks have no levels: {', '.join(without)}", file=sys.stderr)


async def check_params(
    session: Session[object], tasks: Sequence[str], params: Mapping[str, object], level: float | None
) -> None:
    """Raise ConfigError when a task does not accept the parameters at the level."""
    if not params:
        return
    defaults = session.plan.all_params
    faults = await session.pool.check([(task, {**defaults.get(task, {}), **params}, level) for task in tasks])
    if faults:
        raise ConfigError("; ".join(faults), setting="--params")


def problem_as_json(problem: Problem) -> dict[str, object]:
    """Return a problem as JSON values. `level` and `params` are the values of its generation."""
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
    """Return the right answer as text, with the library's own where it is wrong; a remark when many are right."""
    if problem.answer is None:
        return "(no single answer: the verifier accepts many)"
    if problem.library_answer is None:
        return problem.answer
    return f"{problem.answer}   (corrected: the library's own answer is {problem.library_answer})"


def show_messages(messages: Sequence[Mapping[str, str]]) -> str:
    """Return a conversation as text."""
    return "\n\n".join(f"--- {message['role']}\n{message['content']}" for message in messages)


def add_score_options(parser: argparse._ActionsContainer) -> None:
    """Add the options to a parser, or to a group of one, that has --score."""
    parser.add_argument(
        "--deadline-s",
        dest="scoring_deadline_s",
        type=float,
        help="limit of processor time for a completion, in seconds (default: 5)",
    )
    parser.add_argument(
        "--memory-mb",
        dest="worker_memory_mb",
        type=int,
        help="limit of memory for a process in megabytes, beyond what importing the module takes (default: 1024)",
    )
    parser.add_argument(
        "--read", action="append", default=[], metavar="PATH", help="let the function read this path (repeatable)"
    )
    parser.add_argument(
        "--env-var",
        action="append",
        default=[],
        metavar="NAME",
        help="pass this environment variable to the function (repeatable)",
    )
    parser.add_argument("--threads", action="store_true", help="let the function start threads")


def check_score_options(options: argparse.Namespace) -> None:
    """Raise ConfigError for options without --score."""
    if options.score is None and score_words(options):
        raise ConfigError("--read, --env-var, --threads, --deadline-s and --memory-mb go with --score")


def score_function(options: argparse.Namespace) -> ScoreFunction:
    """Return the function of --score; paths are absolute, because a node's folder is another."""
    return ScoreFunction(options.score, options.read, options.env_var, options.threads)


def score_words(options: argparse.Namespace) -> list[str]:
    """Return the options that were given, as the words of a command."""
    words = [word for path in options.read for word in ("--read", path)]
    words += [word for name in options.env_var for word in ("--env-var", name)]
    words += ["--threads"] if options.threads else []
    words += [] if options.scoring_deadline_s is None else ["--deadline-s", f"{options.scoring_deadline_s:g}"]
    words += [] if options.worker_memory_mb is None else ["--memory-mb", str(options.worker_memory_mb)]
    return words
