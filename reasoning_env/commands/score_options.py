"""The options of a score function of the user: what its processes may use, and their limits."""

from __future__ import annotations

import argparse

from ..sources.score_function import ScoreFunction


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
