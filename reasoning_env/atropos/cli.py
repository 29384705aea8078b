"""The commands that need the environment class: Atropos' `serve`, `process` and `evaluate`.

Atropos' own parsing is silent about some mistakes: it ignores what it does not know in a config file, and takes the
value of an option that begins with a minus for an option. Here they are refused, each in one line.
"""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_cli import run_and_exit
from pydantic_cli.argparse import FailedExecutionException

from ..errors import ConfigError, ServerError, did_you_mean
from .inference import describe_failure

YAML_SECTIONS = ("env", "openai", "slurm", "testing")
SHORT_NAMES = {"preset": "env.eval_preset"}
"""Options that have a short name."""
CHATTY_LOGGERS = ("httpx", "httpx2", "openai")


def commands(env_cls: Any) -> dict[str, Callable[[Sequence[str]], int]]:
    """Return the commands of an environment class by name; each takes its arguments and returns the exit status."""
    return {name: functools.partial(run_base_command, env_cls, name) for name in ("serve", "process", "evaluate")}


def run_base_command(env_cls: Any, command: str, argv: Sequence[str]) -> int:
    """Run `serve`, `process` or `evaluate` as Atropos defines them; returns the exit status.

    Raises ConfigError for what a user got wrong, and whatever else ends the command.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for name in CHATTY_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    command_cls = getattr(env_cls, f"get_cli_{command}_config_cls")()
    joined = join_options(argv, command_cls.model_fields)
    config_files = [word.partition("=")[2] for word in joined if word.startswith("--config=")]
    if config_files:
        _, servers = env_cls.config_init()
        check_config_file(Path(config_files[-1]), type(servers[0]))
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
        raise explain(raised[0], env_cls.env_config_cls)
    return status


def explain(error: BaseException, config_cls: type[BaseModel]) -> BaseException:
    """Return an error of this package in place of one that a user can cause, and any other error as it is."""
    if isinstance(error, ValidationError):
        return ConfigError(describe_validation(error, list(config_cls.model_fields)))
    if isinstance(error, FailedExecutionException):
        return ConfigError(" ".join(error.message.rpartition("error: ")[2].split()))
    if getattr(error, "last_attempt", None) is not None:  # tenacity gave up on something: a server that is gone
        return ServerError(f"gave up after several tries: {describe_failure(error)}")
    return error


def join_options(argv: Sequence[str], known: Collection[str]) -> list[str]:
    """Return the same options, each as one word `--name=value`.

    Raises ConfigError for an option that is not known, one without its value, and a word that is neither.
    """
    joined: list[str] = []
    words = list(argv)
    while words:
        word = words.pop(0)
        if word in ("-h", "--help"):
            joined.append("--help")
            continue
        name, equals, value = word.removeprefix("--").partition("=")
        name = SHORT_NAMES.get(name, name)
        if not word.startswith("--"):
            raise ConfigError(f"{word!r} is not an option; options begin with --, as in --env.group_size 8")
        if name not in known:
            hint = did_you_mean(f"--{name}", [f"--{option}" for option in known])
            raise ConfigError(f"there is no option --{name}{hint}")
        if not equals:
            if not words or words[0].startswith("--"):
                raise ConfigError(f"the option --{name} needs a value, as in --{name}=VALUE")
            value = words.pop(0)
        joined.append(f"--{name}={value}")
    return joined


def check_config_file(path: Path, server_cls: type[BaseModel]) -> None:
    """Raise ConfigError for a file that cannot be read, is not YAML, or has parts that nobody reads.

    `server_cls` is the config of one inference server. Settings of the environment are checked by its own config class.
    """
    content = _load(path)
    if not isinstance(content, dict):
        raise ConfigError(
            f"--config: {path} must hold sections ({', '.join(YAML_SECTIONS)}); it holds a {type(content).__name__}"
        )
    for section in content:
        if section not in YAML_SECTIONS:
            raise ConfigError(
                f"--config: {path} has an unknown section {section!r}{did_you_mean(str(section), YAML_SECTIONS)}; "
                f"allowed are {', '.join(YAML_SECTIONS)}"
            )
    if not isinstance(content.get("env", {}), dict):
        raise ConfigError(f"--config: the section env of {path} must hold settings, one a line")
    servers = content.get("openai", [])
    for server in servers if isinstance(servers, list) else [servers]:
        _check_server(path, server, server_cls)


def _load(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text())
    except OSError as error:
        raise ConfigError(f"--config: {path} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"--config: {path} is not YAML: {' '.join(str(error).split())}") from error


def _check_server(path: Path, server: Any, server_cls: type[BaseModel]) -> None:
    where = f"--config: the section openai of {path}"
    if not isinstance(server, dict):
        raise ConfigError(f"{where} must hold the settings of a server, or a list of such; it holds {server!r}")
    known = list(server_cls.model_fields)
    for name in server:
        if name not in known:
            raise ConfigError(f"{where}: there is no setting {name!r}{did_you_mean(str(name), known)}")
    try:
        server_cls(**server)
    except ValidationError as error:
        raise ConfigError(f"{where}: {describe_validation(error, known)}") from error


def describe_validation(error: ValidationError, known: Sequence[str]) -> str:
    """Return one line for all of a config's mistakes; `known` are the names of its settings."""
    return "; ".join(_describe_mistake(details, known) for details in error.errors())


def _describe_mistake(details: Any, known: Sequence[str]) -> str:
    name = ".".join(str(part) for part in details["loc"] if part not in ("str", "list[str]"))
    message = str(details["msg"]).removeprefix("Value error, ")
    if details["type"] == "extra_forbidden":
        return f"there is no setting {name!r}{did_you_mean(name, known)}"
    return f"{name}: {message}; got {details['input']!r}" if name else message
