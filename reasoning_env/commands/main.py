"""The command line: dispatch, and one clear line for every error that a user can make."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..errors import ConfigError, ReasoningEnvError, did_you_mean
from ..folders import default_dumps_folder
from ..reports.audit import audit_command
from .help import ABOUT, short_help
from .recover import recover_command
from .tasks import tasks_command

Command = Callable[[Sequence[str]], int]
"""Takes the arguments of a command and returns the exit status."""

HELP = {
    "serve": "generate, sample, score and send groups, for a trainer to pull",
    "process": "the same into a file, without a trainer",
    "evaluate": "score a model on the fixed evaluation set",
    "tasks": "list the tasks; `tasks NAME` shows whole samples, `--difficulty` and `--contamination` measure the tasks",
    "audit": "probe every task's verifier with meaningless answers; fails when one pays for them",
    "recover": "cut torn last lines off the dumps that killed runs left behind; `recover FOLDER` names their folder",
    "settings": "print the table of all settings",
    "demo": "watch the whole line run on this machine, with a scripted policy in place of a model",
}


def main(argv: Sequence[str], environment_commands: Mapping[str, Command], *, environment_file: Path) -> int:
    """Run a command line; returns the exit status.

    `environment_commands` are those that need the environment class, by name; `environment_file` is its module.
    """
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(_help(environment_file.name))
        return 0
    name, *arguments = argv
    if name in ABOUT and not {"-h", "--help"}.isdisjoint(arguments):
        print(short_help(environment_file.name, name))
        return 0
    try:
        return _find(name, environment_commands, environment_file)(arguments)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of a listing has seen enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - the interpreter flushes it when it ends
        return 1
    except ReasoningEnvError as error:
        _complain(environment_file, name, str(error))
        return error.exit_code
    except OSError as error:
        _complain(environment_file, name, f"{type(error).__name__}: {error}")
        return 1


def _find(name: str, environment_commands: Mapping[str, Command], environment_file: Path) -> Command:
    folder = environment_file.parent
    commands: dict[str, Command] = {
        **environment_commands,
        "tasks": functools.partial(tasks_command, folder=folder),
        "audit": functools.partial(audit_command, folder=folder),
        "recover": functools.partial(recover_command, default_folder=default_dumps_folder(folder)),
        "demo": functools.partial(_run_demo, environment_file=environment_file),
    }
    if name not in commands:
        raise ConfigError(f"there is no command {name!r}{did_you_mean(name, HELP)}")
    return commands[name]


def _run_demo(argv: Sequence[str], environment_file: Path) -> int:
    try:
        demo = importlib.import_module("reasoning_gym_demo.command")  # the name under which the demo is installed
    except ModuleNotFoundError:
        sys.path.insert(0, str(environment_file.parent))
        demo = importlib.import_module("demo.command")
    return int(demo.main(list(argv), environment_file=environment_file))


def _complain(environment_file: Path, command: str, text: str) -> None:
    print(f"{environment_file.stem} {command}: {text}", file=sys.stderr)


def _help(script: str) -> str:
    lines = [f"usage: python {script} COMMAND [options]", "", "A reasoning-gym environment.", "", "commands:"]
    lines += [f"  {name:10}{words}" for name, words in HELP.items()]
    lines += ["", f"`python {script} COMMAND --help` lists a command's options; the README explains them."]
    return "\n".join(lines)
