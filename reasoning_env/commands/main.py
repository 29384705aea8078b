"""The command line: dispatch, and one clear line for every error that a user can make.

The environment class is passed in, so that this module needs nothing of Atropos.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_cli import run_and_exit
from pydantic_cli.argparse import FailedExecutionException

from ..atropos.inference import describe_failure
from ..errors import ConfigError, ReasoningEnvError
from ..reports.audit import audit_command
from ..signals import Interrupted
from .arguments import check_config_file, describe_validation, join_options, nearest, option_value
from .recover import recover_command
from .settings_table import settings_table
from .tasks import tasks_command

COMMANDS = {
    "serve": "generate, sample, score and send groups to run-api, for a trainer to pull",
    "process": "the same into a file, without run-api and trainer",
    "evaluate": "score a model on the fixed evaluation set",
    "tasks": "list the tasks; `tasks NAME` shows whole samples, `--difficulty` and `--contamination` measure the tasks",
    "audit": "probe every task's verifier with meaningless answers; fails when one pays for them",
    "recover": "complete the rollout files that a killed run left behind; `recover FOLDER` names their folder",
    "settings": "print the table of all settings",
    "demo": "watch the whole line run on this machine, with a scripted policy in place of a model",
}
USAGE_ERROR = 2
DUMPS_FOLDER = "data_dumps"


def main(env_cls: Any, argv: Sequence[str], *, environment_file: Path) -> int:
    """Run a command line; returns the exit status."""
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(_help(environment_file.name))
        return 0
    command = argv[0]
    try:
        return _dispatch(env_cls, command, argv[1:], environment_file)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of a listing has seen enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - the interpreter flushes it when it ends
        return 1
    except Exception as error:
        described = describe_error(error, env_cls)
        if described is None:
            raise
        print(f"{environment_file.stem} {command}: {described}", file=sys.stderr)
        return _exit_code(error)


def _dispatch(env_cls: Any, command: str, argv: Sequence[str], environment_file: Path) -> int:
    if command not in COMMANDS:
        raise ConfigError(f"there is no command {command!r}{nearest(command, COMMANDS)}")
    if command == "tasks":
        return tasks_command(argv, environment_file.parent)
    if command == "audit":
        return audit_command(argv, environment_file.parent)
    if command == "recover":
        return recover_command(argv, environment_file.parent / DUMPS_FOLDER)
    if command == "settings":
        print(settings_table(env_cls.env_config_cls))
        return 0
    if command == "demo":
        return int(_demo(environment_file).main(list(argv), environment_file=environment_file))
    return _run_base_command(env_cls, command, argv)


def _help(script: str) -> str:
    lines = [
        f"usage: python {script} COMMAND [options]",
        "",
        "A reasoning-gym environment for Atropos.",
        "",
        "commands:",
    ]
    lines += [f"  {name:10}{words}" for name, words in COMMANDS.items()]
    lines += ["", f"`python {script} COMMAND --help` lists a command's options; the README explains them."]
    return "\n".join(lines)


def _demo(environment_file: Path) -> Any:
    try:
        return importlib.import_module("reasoning_gym_demo.command")  # the name under which the demo is installed
    except ModuleNotFoundError:
        sys.path.insert(0, str(environment_file.parent))
        return importlib.import_module("demo.command")


def _run_base_command(env_cls: Any, command: str, argv: Sequence[str]) -> int:
    """Run `serve`, `process` or `evaluate` as Atropos defines them."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for name in ("httpx", "httpx2", "openai"):
        logging.getLogger(name).setLevel(logging.WARNING)
    command_cls = getattr(env_cls, f"get_cli_{command}_config_cls")()
    joined = join_options(argv, command_cls.model_fields)
    config_file = option_value(joined, "config")
    if config_file is not None:
        _, servers = env_cls.config_init()
        check_config_file(Path(config_file), type(servers[0]))
    # Atropos reads the options a second time, from here.
    sys.argv[1:] = [command, *joined]
    raised: list[BaseException] = []

    def keep(error: BaseException) -> int:
        raised.append(error)
        return 1

    try:
        run_and_exit({command: command_cls}, exception_handler=keep, args=sys.argv[1:])
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    if raised:
        raise raised[0]
    return status


def _exit_code(error: Exception) -> int:
    if isinstance(error, Interrupted):
        return error.exit_code
    return USAGE_ERROR if isinstance(error, (ConfigError, ValidationError, FailedExecutionException)) else 1


def describe_error(error: BaseException, env_cls: Any) -> str | None:
    """One line for an error that a user can cause; None for one that only we can."""
    if isinstance(error, ValidationError):
        return describe_validation(error, list(env_cls.env_config_cls.model_fields))
    if isinstance(error, FailedExecutionException):
        return " ".join(error.message.rpartition("error: ")[2].split())
    if isinstance(error, ReasoningEnvError):
        return str(error)
    if getattr(error, "last_attempt", None) is not None:  # tenacity gave up on something: a server that is gone
        return f"gave up after several tries: {describe_failure(error)}"
    if isinstance(error, OSError):
        return f"{type(error).__name__}: {error}"
    return None
