"""Options that several commands share: those of a problem, which is shown here too, and those of a score function."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence

from ..errors import ConfigError
from ..records import Problem
from ..session import Session
from ..sources.score_function import ScoreFunction
from .values import mapping, seed, share


def add_problem_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose a problem of a task."""
    parser.add_argument("--seed", type=seed, default=42, metavar="N", help="the library's seed (default: %(default)s)")
    parser.add_argument("--level", type=share, metavar="L", help="difficulty from 0 to 1 (default: the library's own)")
    parser.add_argument(
        "--params",
        type=mapping,
        default={},
        metavar="MAPPING",
        help="parameters of the library's config of the task, as in a dump: '{min_terms: 4}'",
    )


def split_names(arguments: Sequence[str]) -> list[str]:
    """Return the names in the arguments. An argument may hold several names, joined by commas."""
    return [name.strip() for argument in arguments for name in argument.split(",") if name.strip()]


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
    parser.add_argument("--deadline-s", type=float, help="processor time, in seconds, for a completion (default: 5)")
    parser.add_argument(
        "--memory-mb",
        type=int,
        help="megabytes that a process may take besides what the module takes at import (default: 1024)",
    )
    parser.add_argument("--read", action="append", default=[], metavar="PATH", help="path that the function may read")
    parser.add_argument("--env-var", action="append", default=[], metavar="NAME", help="variable for the function")
    parser.add_argument("--threads", action="store_true", help="let the function start threads")


def check_score_options(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """End with an error for options without --score."""
    if options.score is None and score_words(options):
        parser.error("--read, --env-var, --threads, --deadline-s and --memory-mb go with --score")


def score_function(options: argparse.Namespace) -> ScoreFunction:
    """Return the function of --score; paths are absolute, because a node's folder is another."""
    return ScoreFunction(options.score, options.read, options.env_var, options.threads)


def score_words(options: argparse.Namespace) -> list[str]:
    """Return the options that were given, as the words of a command."""
    words = [word for path in options.read for word in ("--read", path)]
    words += [word for name in options.env_var for word in ("--env-var", name)]
    words += ["--threads"] if options.threads else []
    words += [] if options.deadline_s is None else ["--deadline-s", f"{options.deadline_s:g}"]
    words += [] if options.memory_mb is None else ["--memory-mb", str(options.memory_mb)]
    return words
