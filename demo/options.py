"""The demo's command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .rules import RULES

DEFAULT_SKILL = 0.9
GUESSED_TASKS = ("caesar_cipher", "cryptarithm", "family_relationships", "maze", "mini_sudoku")
"""Tasks that the scripted policy can only guess. They generate quickly, and a guess is rarely right."""
ALL_TASKS = "all"


@dataclass(frozen=True)
class Options:
    """The options of the command; `read_options` describes them."""

    batches: int
    skill: float
    seed: int
    group_size: int
    tasks: str
    dumps_dir: Path
    server_type: str
    timeout_s: float


def read_options(argv: Sequence[str], parser: argparse.ArgumentParser) -> Options:
    """Return the options of a command line. `parser` has no options yet, and reports mistakes in its own way."""
    parser.description = (
        "Generate problems, answer them with a scripted policy, score the answers, and send them through"
        " Atropos' run-api to a toy trainer that checks every batch. Needs no GPU, network or account."
    )
    default_tasks = sorted([*RULES, *GUESSED_TASKS])
    parser.add_argument(
        "--batches", metavar="N", type=int, default=10, help="number of batches to train on (default: %(default)s)"
    )
    parser.add_argument(
        "--skill",
        metavar="SHARE",
        type=float,
        default=DEFAULT_SKILL,
        help="final share of right answers on the tasks that the policy knows (default: %(default)s)",
    )
    parser.add_argument(
        "--seed",
        metavar="N",
        type=int,
        default=1,
        help="seed of the problems and of the policy (default: %(default)s)",
    )
    parser.add_argument(
        "--group-size", metavar="N", type=int, default=8, help="rollouts per problem (default: %(default)s)"
    )
    parser.add_argument(
        "--tasks",
        metavar="NAMES",
        default=",".join(default_tasks),
        help=f"task names, separated by commas, or '{ALL_TASKS}' (default: {len(default_tasks)} tasks, of which the"
        f" policy knows {len(RULES)})",
    )
    parser.add_argument(
        "--dumps-dir",
        metavar="FOLDER",
        type=Path,
        default=Path("data_dumps/demo"),
        help="folder for the rollouts (default: %(default)s)",
    )
    parser.add_argument(
        "--server-type",
        choices=("vllm", "openai"),
        default="vllm",
        help="protocol of the policy's server (default: %(default)s)",
    )
    parser.add_argument(
        "--timeout-s",
        metavar="SECONDS",
        type=float,
        default=180.0,
        help="give up after this many seconds (default: 180)",
    )
    options = Options(**vars(parser.parse_args(argv)))
    if options.batches < 1 or options.group_size < 1:
        parser.error("--batches and --group-size must be at least 1")
    if not 0.0 <= options.skill <= 1.0:
        parser.error("--skill must be from 0 to 1")
    if options.timeout_s <= 0:
        parser.error("--timeout-s must be positive")
    return options


def describe_tasks(options: Options) -> str:
    """Return a sentence on what the policy can and cannot do with the chosen tasks."""
    if options.tasks == ALL_TASKS:
        return (
            f"Tasks: all of the library's. The scripted policy knows {len(RULES)} of them and learns to answer"
            f" {options.skill:.0%} of their problems right. For the other tasks it guesses, so most"
            " groups are dropped."
        )
    chosen = [name.strip() for name in options.tasks.split(",")]
    known = [name for name in chosen if name in RULES]
    guessed = [name for name in chosen if name not in RULES]
    text = f"Tasks: {len(chosen)}. The scripted policy knows {len(known)} of them and learns to answer"
    text += f" {options.skill:.0%} of their problems right, starting at a third of that."
    if guessed:
        text += f" It can only guess the answers of {', '.join(guessed)}."
    return text
