"""The command line: dispatch, and one clear line for every error that a user can make.

The environment class is passed in, so that this module needs nothing of Atropos. Atropos' own command parser reads
`sys.argv` a second time, so the arguments given here must be those.
"""

from __future__ import annotations

import difflib
import importlib
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_cli import run_and_exit
from pydantic_cli.argparse import FailedExecutionException

from .browse import tasks_command
from .errors import ConfigError, ReasoningEnvError
from .lifecycle import Interrupted
from .reference import settings_table

COMMANDS = {
    "serve": "generate, sample, score and send groups to run-api, for a trainer to pull",
    "process": "the same into a file, without run-api and trainer",
    "evaluate": "score a model on the fixed evaluation set",
    "tasks": "list the tasks; `tasks NAME` shows whole samples with their answers",
    "settings": "print the table of all settings",
    "demo": "watch the whole line run on this machine, with a scripted policy in place of a model",
}
YAML_SECTIONS = ("env", "openai", "slurm", "testing")
USAGE_ERROR = 2


def main(env_cls: Any, argv: Sequence[str], *, environment_file: Path) -> int:
    """Run a command line; returns the exit status."""
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(_help(environment_file.name))
        return 0
    command = argv[0]
    try:
        if command not in COMMANDS:
            raise ConfigError(f"there is no command {command!r}{_nearest(command, list(COMMANDS))}")
        if command == "tasks":
            return tasks_command(argv[1:], environment_file.parent)
        if command == "settings":
            print(settings_table(env_cls.env_config_cls))
            return 0
        if command == "demo":
            return int(_demo(environment_file).main(list(argv[1:]), environment_file=environment_file))
        return _run_base_command(env_cls, argv)
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
        if isinstance(error, Interrupted):
            return error.exit_code
        return USAGE_ERROR if isinstance(error, (ConfigError, ValidationError, FailedExecutionException)) else 1


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


def _run_base_command(env_cls: Any, argv: Sequence[str]) -> int:
    """Run `serve`, `process` or `evaluate` as Atropos defines them."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for name in ("httpx", "httpx2", "openai"):
        logging.getLogger(name).setLevel(logging.WARNING)
    config_file = _option(argv, "--config")
    if config_file is not None:
        check_config_file(Path(config_file))
    commands = {
        "serve": env_cls.get_cli_serve_config_cls,
        "process": env_cls.get_cli_process_config_cls,
        "evaluate": env_cls.get_cli_evaluate_config_cls,
    }
    raised: list[BaseException] = []

    def keep(error: BaseException) -> int:
        raised.append(error)
        return 1

    try:
        run_and_exit({argv[0]: commands[argv[0]]()}, exception_handler=keep, args=list(argv))
    except SystemExit as end:
        status = int(end.code or 0) if not isinstance(end.code, str) else 1
    if raised:
        raise raised[0]
    return status


def _option(argv: Sequence[str], name: str) -> str | None:
    for position, word in enumerate(argv):
        if word == name and position + 1 < len(argv):
            return argv[position + 1]
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return None


def check_config_file(path: Path) -> None:
    """Raises ConfigError for a file that cannot be read, is not YAML, or has sections that nobody reads."""
    try:
        content = yaml.safe_load(path.read_text())
    except OSError as error:
        raise ConfigError(f"--config: {path} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"--config: {path} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise ConfigError(
            f"--config: {path} must hold sections ({', '.join(YAML_SECTIONS)}); it holds a {type(content).__name__}"
        )
    for section in content:
        if section not in YAML_SECTIONS:
            raise ConfigError(
                f"--config: {path} has an unknown section {section!r}{_nearest(str(section), YAML_SECTIONS)}; "
                f"allowed are {', '.join(YAML_SECTIONS)}"
            )
    if not isinstance(content.get("env", {}), dict):
        raise ConfigError(f"--config: the section env of {path} must hold settings, one a line")


def describe_error(error: BaseException, env_cls: Any) -> str | None:
    """One line for an error that a user can cause; None for one that only we can."""
    if isinstance(error, ValidationError):
        fields = list(env_cls.env_config_cls.model_fields)
        return "; ".join(_describe_field_error(details, fields) for details in error.errors())
    if isinstance(error, FailedExecutionException):
        return _describe_usage_error(error.message, env_cls)
    if isinstance(error, ReasoningEnvError):
        return str(error)
    last_attempt = getattr(error, "last_attempt", None)
    if last_attempt is not None:  # tenacity gave up on something: a server that is gone
        cause = last_attempt.exception()
        return f"gave up after several tries: {type(cause).__name__}: {cause}"
    if isinstance(error, OSError):
        return f"{type(error).__name__}: {error}"
    return None


def _describe_field_error(details: Any, fields: Sequence[str]) -> str:
    name = ".".join(str(part) for part in details["loc"] if part not in ("str", "list[str]"))
    message = str(details["msg"]).removeprefix("Value error, ")
    if details["type"] == "extra_forbidden":
        return f"there is no setting {name!r}{_nearest(name, fields)}"
    if not name:
        return message
    return f"{name}: {message}; got {details['input']!r}"


def _describe_usage_error(message: str, env_cls: Any) -> str:
    text = message.rpartition("error: ")[2].strip()
    if not text.startswith("unrecognized arguments:"):
        return text
    flag = text.split()[2]
    fields = [f"--env.{name}" for name in env_cls.env_config_cls.model_fields]
    return f"there is no option {flag}{_nearest(flag, fields)}"


def _nearest(word: str, choices: Sequence[str]) -> str:
    nearest = difflib.get_close_matches(word, choices, n=3, cutoff=0.5)
    return f"; did you mean {', '.join(nearest)}?" if nearest else ""
