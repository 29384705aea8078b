"""Prepare the process that runs the environment file (`reasoning_gym_environment.py`), before Atropos is imported.

This module imports only the standard library, so that it can report a missing package in one line.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import runpy
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

HELP_OPTIONS = frozenset(("-h", "--help"))


def prepare(name: str, file: str, *, needs: str) -> None:
    """Prepare the process before the slow imports of the environment file.

    If the file was started as a program, run `--help`, or a command that needs no environment class, in this function,
    and end the process. For other commands, Ctrl-C during the imports ends the process without a traceback.

    Args:
        name: `__name__` of the environment file.
        file: `__file__` of the environment file.
        needs: A package of the extra `atropos`, to check whether the extra is installed.

    Raises:
        ImportError: The package is missing.
        SystemExit: The file was started as a program, and a command has ended or a package is missing.
    """
    if importlib.util.find_spec("torch") is None:
        # Without this, transformers would advise installing PyTorch, which this program does not need.
        os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    if name == "__main__":
        _prepare_program(Path(file).resolve(), needs)
    elif importlib.util.find_spec(needs) is None:
        raise ImportError(f"{_missing_extra()}; to evaluate only, import reasoning_env.commands.evaluate instead")


def _prepare_program(file: Path, needs: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # event loops set their own handlers later
    if None in map(importlib.util.find_spec, ("pydantic", "rich")):
        named = file.parent / ".venv" / "bin" / "python"
        remedy = f"use {named}" if named.exists() else f"run `pip install {file.parent}`"
        raise SystemExit(f"python {sys.argv[0]}: required packages are not installed for {sys.executable}; {remedy}")
    if not needs_environment(sys.argv[1:]):
        signal.signal(signal.SIGINT, signal.default_int_handler)
        run(file, {})
    if importlib.util.find_spec(needs) is None:
        from ..program.parser import program

        raise SystemExit(f"{program()}: {_missing_extra()}")
    _start_library(file.parent)
    gc.disable()  # collections during the imports would take half a second without freeing memory


def needs_environment(argv: Sequence[str]) -> bool:
    """Return True if a command line needs the environment class, whose imports take seconds."""
    if not argv or not HELP_OPTIONS.isdisjoint(argv) or argv[1:] == ["help"]:
        return False
    return argv[0] in ("serve", "process") or (argv[0] == "settings" and "--json" in argv)


def _missing_extra() -> str:
    from ..storage.folders import install_command

    return f"the packages for Atropos are not installed; run `{install_command('atropos')}`"


def _start_library(folder: Path) -> None:
    """Import reasoning-gym early, in the process from which workers are later forked.

    Does nothing if `folder` contains a checkout `reasoning-gym`, because workers may then import the checkout.
    """
    from ..storage.folders import CHECKOUT
    from ..workers.fork_server import start_ahead

    if not (folder / CHECKOUT).exists():
        start_ahead()


def run(
    file: Path,
    environment_commands: Mapping[str, Callable[[Sequence[str]], int]],
    defaults: Callable[[], Mapping[str, object]] = dict,
) -> NoReturn:
    """Run the command line and end the process.

    Args:
        file: The environment file.
        environment_commands: The commands that need the environment class, by name.
        defaults: Returns the environment class's own defaults of settings for `evaluate`.
    """
    gc.enable()
    from .main import main

    raise SystemExit(main(sys.argv[1:], environment_commands, environment_file=file, defaults=defaults))


def run_installed() -> None:
    """Run the installed environment file as a program. The console script calls this function."""
    runpy.run_module("reasoning_gym_environment", run_name="__main__", alter_sys=True)
