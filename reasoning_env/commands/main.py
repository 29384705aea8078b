"""The command line: find and run a command, and print one line for each mistake of the user."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import importlib.metadata
import io
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import ConfigError, ReasoningEnvError, did_you_mean
from ..program.parser import CommandParser, errors_for_user, program
from ..runtime.text import error_text, printable
from ..storage.folders import DISTRIBUTION, find_checkout, install_command
from .launcher import HELP_OPTIONS

RunCommand = Callable[[Sequence[str]], int]
"""Takes the arguments of a command and returns the exit status."""

HELP = {
    "demo": "try it: a whole training loop without a GPU; a script answers instead of a model",
    "serve": "train with Atropos: generate problems, score completions, send groups",
    "judge": "train with other trainers: run a reward server (HTTP)",
    "problems": "write a file of training problems",
    "process": "sample and score completions, and write them to a file",
    "evaluate": "score a model on a fixed set of problems",
    "compare": "compare evaluations, problem by problem",
    "report": "make an HTML page about rollouts and evaluations",
    "rescore": "score stored completions again",
    "tasks": "list the tasks; `tasks NAME` shows samples of a task",
    "score": "score one completion of one problem",
    "audit": "check whether verifiers reward nonsense",
    "settings": "list the settings; `settings WORD` searches them",
}


ENVIRONMENT_COMMANDS = ("serve", "process", "evaluate", "settings")
"""The commands whose options `program/options.py` declares."""


def main(
    argv: Sequence[str],
    environment_commands: Mapping[str, RunCommand],
    *,
    environment_file: Path,
    defaults: Callable[[], Mapping[str, object]] = dict,
) -> int:
    """Run a command line and return the exit status.

    Args:
        argv: The command and its arguments.
        environment_commands: The commands that need the environment class, by name.
        environment_file: File of the environment class.
        defaults: Returns the environment class's own defaults of settings for `evaluate`.
    """
    name, *arguments = _with_help_option(argv) or ["help"]
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # some locales lack characters such as \u2265
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="replace")  # completions are UTF-8 in every locale
    try:
        if name in (*HELP_OPTIONS, "help"):
            print(_help())
            return 0
        if name in ("--version", "-V"):
            print(_versions())
            return 0
        if name in ENVIRONMENT_COMMANDS and not HELP_OPTIONS.isdisjoint(arguments):
            from ..program.options import help_text

            print(help_text(program(), name))
            return 0
        return _find_command(name, environment_commands, environment_file, defaults)(arguments)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the program that reads the output, such as `head`, has ended
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - the interpreter flushes stdout at exit
        return 1
    except ReasoningEnvError as error:
        _print_error(name, str(error))
        return error.exit_code
    except OSError as error:
        _print_error(name, error_text(error))
        return 1


def _with_help_option(argv: Sequence[str]) -> Sequence[str]:
    """Return `COMMAND --help` for `COMMAND help` and `help COMMAND`. Return other command lines unchanged.

    Otherwise `evaluate help` would wait for a model that is named `help`.
    """
    match argv:
        case ["help", command] | [command, "help"]:
            return [command, "--help"]
        case _:
            return argv


def _find_command(
    name: str,
    environment_commands: Mapping[str, RunCommand],
    environment_file: Path,
    defaults: Callable[[], Mapping[str, object]],
) -> RunCommand:
    """Return the command with this name. Imports only its modules. Raises ConfigError for an unknown name."""
    if name in environment_commands:
        return environment_commands[name]
    if name == "demo":
        return functools.partial(_run_demo, environment_file=environment_file)
    folder = environment_file.parent
    if name == "audit":
        return functools.partial(_import_audit(folder), folder=folder)
    if name not in HELP:
        remedy = did_you_mean(name, HELP) or f"`{program()} --help` lists the commands"
        raise ConfigError(f"there is no command {name!r}", remedy=remedy)
    if name == "settings":
        from ..program.settings import settings_command

        return settings_command
    if name == "evaluate":
        from .evaluate import evaluate_command

        return functools.partial(evaluate_command, folder=folder, defaults=defaults())
    module = importlib.import_module(f"..commands.{name}", __package__)
    return functools.partial(getattr(module, f"{name}_command"), folder=folder)


def _import_audit(folder: Path) -> Callable[..., int]:
    """Import `reasoning_audit`, the package beside this one, and return `audit_command`."""
    sys.path.append(str(folder))  # needed if the folder was copied into another source tree
    from reasoning_audit.command import audit_command

    return audit_command


def _import_demo(folder: Path) -> Any:
    """Return the module with the command `demo`."""
    installed = "reasoning_env.demo"
    try:
        return importlib.import_module(f"{installed}.command")
    except ModuleNotFoundError as error:
        if error.name not in (installed, f"{installed}.command"):
            raise
    sys.path.insert(0, str(folder))
    return importlib.import_module("demo.command")


def _run_demo(argv: Sequence[str], environment_file: Path) -> int:
    check_names = functools.partial(_check_names, folder=environment_file.parent)
    parser = CommandParser(prog=f"{program()} demo")
    try:
        demo = _import_demo(environment_file.parent)
        with errors_for_user({"tasks": "--tasks"}):
            return int(demo.main(list(argv), parser=parser, environment_file=environment_file, check_names=check_names))
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the package {error.name} is missing", remedy=f"run `{install_command('atropos')}`"
        ) from error


def _check_names(tasks: str, folder: Path) -> None:
    """Raise ConfigError if one of the names in `tasks`, separated by commas, is not a task."""
    from ..program.selection import check_selection
    from ..settings import ReasoningSettings

    asyncio.run(check_selection(ReasoningSettings(tasks=tasks), find_checkout(folder)))  # type: ignore[arg-type]


def _print_error(command: str, text: str) -> None:
    # The text may quote file names or file contents, which may have control characters.
    print(f"{program()} {printable(command)}: {printable(text)}", file=sys.stderr)


def _versions() -> str:
    """Return the versions that a bug report should contain."""
    library = "reasoning-gym not installed"
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        library = f"reasoning-gym {importlib.metadata.version('reasoning-gym')}"
    return f"{DISTRIBUTION} {__version__}, {library}, Python {platform.python_version()}"


def _help() -> str:
    lines = [f"usage: {program()} COMMAND [options]", ""]
    lines += ["Train and evaluate language models on the tasks of reasoning-gym.", "", "commands:"]
    lines += [f"  {name:10}{words}" for name, words in HELP.items()]
    lines += ["", f"For the options of a command, run `{program()} COMMAND --help`."]
    lines += ["`--version` prints the versions for a bug report. The guides are in docs/."]
    return "\n".join(lines)
