"""The command `demo`: check its options, and run the demo."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from .options import read_options


def main(
    argv: Sequence[str],
    *,
    parser: argparse.ArgumentParser,
    environment_file: Path,
    check_names: Callable[[str], None],
) -> int:
    """Run the demo and return the exit status.

    Args:
        argv: The options.
        parser: A parser without options.
        environment_file: The script of the environment.
        check_names: Raises an error for unknown task names, joined by commas. Called before any process starts.

    Raises ModuleNotFoundError if a package of the extra `atropos` is missing.
    """
    options = read_options(argv, parser)
    from .training import run_training  # imported here because `-h` does not need it

    check_names(options.tasks)
    return run_training(options, environment_file)
