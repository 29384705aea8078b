"""Checks of a command line and a config file, before Atropos' own parsing, which is silent about some mistakes.

It ignores what it does not know in a file, and takes the value of an option that begins with a minus for an option.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from ..errors import ConfigError

YAML_SECTIONS = ("env", "openai", "slurm", "testing")


def join_options(argv: Sequence[str], known: Collection[str]) -> list[str]:
    """The same options, each as one word `--name=value`.

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
        if not word.startswith("--"):
            raise ConfigError(f"{word!r} is not an option; options begin with --, as in --env.group_size 8")
        if name not in known:
            raise ConfigError(f"there is no option --{name}{nearest(f'--{name}', [f'--{option}' for option in known])}")
        if not equals:
            if not words or words[0].startswith("--"):
                raise ConfigError(f"the option --{name} needs a value, as in --{name}=VALUE")
            value = words.pop(0)
        joined.append(f"--{name}={value}")
    return joined


def option_value(joined: Sequence[str], name: str) -> str | None:
    """The last value given for an option in joined form, or None."""
    values = [word.partition("=")[2] for word in joined if word.startswith(f"--{name}=")]
    return values[-1] if values else None


def check_config_file(path: Path, server_cls: type[BaseModel]) -> None:
    """Raises ConfigError for a file that cannot be read, is not YAML, or has parts that nobody reads.

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
                f"--config: {path} has an unknown section {section!r}{nearest(str(section), YAML_SECTIONS)}; "
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
            raise ConfigError(f"{where}: there is no setting {name!r}{nearest(str(name), known)}")
    try:
        server_cls(**server)
    except ValidationError as error:
        raise ConfigError(f"{where}: {describe_validation(error, known)}") from error


def describe_validation(error: ValidationError, known: Sequence[str]) -> str:
    """One line for all of a config's mistakes; `known` are the names of its settings."""
    return "; ".join(_describe_mistake(details, known) for details in error.errors())


def _describe_mistake(details: Any, known: Sequence[str]) -> str:
    name = ".".join(str(part) for part in details["loc"] if part not in ("str", "list[str]"))
    message = str(details["msg"]).removeprefix("Value error, ")
    if details["type"] == "extra_forbidden":
        return f"there is no setting {name!r}{nearest(name, known)}"
    return f"{name}: {message}; got {details['input']!r}" if name else message


def nearest(word: str, choices: Collection[str]) -> str:
    """A hint at what may have been meant, to be put behind a complaint; empty when nothing is near."""
    found = difflib.get_close_matches(word, choices, n=3, cutoff=0.6)
    return f"; did you mean {', '.join(found)}?" if found else ""
