"""Build what a command starts with: defaults, then a file, then options, the later ones winning.

Atropos' own parsing is silent about some mistakes (it ignores what it does not know in a file, and takes the value of
an option that begins with a minus for an option), and prints all settings with the keys among them. Here each mistake
is refused in one line, and no key is shown.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from atroposlib.envs.server_handling.server_baseline import APIServerConfig, ServerBaseline
from pydantic import BaseModel, ValidationError

from ..errors import ConfigError, did_you_mean
from .config import check_url

YAML_SECTIONS = ("env", "openai", "slurm", "testing")
SWITCHES = ("slurm", "testing")
FLAGS = ("help-all", "print-config")
"""Options without a value."""
COMMAND_OPTIONS: Mapping[str, tuple[str, ...]] = {"process": ("keep",)}
"""Options of one command that are no settings."""
SHORT_NAMES = {"preset": "env.eval_preset"}
"""Options that have a short name."""
SECRET_SETTINGS = ("api_key",)
IN_FLIGHT_PER_SERVER = 64
MODE_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "process": {
        "ensure_scores_are_not_same": False,
        "include_messages": True,
        "max_num_workers_per_node": IN_FLIGHT_PER_SERVER,
    },
}
"""Defaults that only one command has."""
WHOLE_NUMBER = re.compile(r"\d+(?:\.\d*)?[eE]\+?\d+")


@dataclass(frozen=True)
class Launch:
    """The configs of a command; `given` are the settings that differ from its defaults, as `section.name`."""

    config: BaseModel
    servers: ServerBaseline | list[APIServerConfig]
    slurm: bool
    testing: bool
    given: Mapping[str, Any]

    def describe(self) -> str:
        """Return in one line what differs from the defaults."""
        words = [f"{name}={value!r}" for name, value in self.given.items()]
        return "settings that differ from the defaults: " + (", ".join(words) or "none")

    def as_yaml(self) -> str:
        """Return all settings as a file for `--config`, without keys."""
        several = self.servers if isinstance(self.servers, list) else [self.servers]
        servers = [server.model_dump(mode="json") for server in several]
        for server in servers:
            server |= {name: "..." for name in SECRET_SETTINGS if server.get(name)}
        content = {"env": self.config.model_dump(mode="json"), "openai": servers}
        return yaml.safe_dump(content, sort_keys=False, allow_unicode=True)


def build_launch(env_cls: Any, command: str, options: Mapping[str, str]) -> Launch:
    """Join what the environment class, the file and the options say; raises ConfigError for what cannot be meant."""
    defaults, default_servers = env_cls.config_init()
    server_cls = _server_class(default_servers)
    content = read_config_file(Path(options["config"]), server_cls) if "config" in options else {}
    mode = dict(MODE_DEFAULTS.get(command, {}))
    if command == "process" and defaults.data_path_to_save_groups is None:
        mode["data_path_to_save_groups"] = f"data/{env_cls.name or 'groups'}.jsonl"
    base = {**defaults.model_dump(), **mode}
    given = {**content.get("env", {}), **_section("env", options)}
    config = _make(type(defaults), {**base, **given}, "env")
    servers = _build_servers(default_servers, content.get("openai"), _section("openai", options), server_cls)
    switches = {name: _truth(name, options.get(name, content.get(name, False))) for name in SWITCHES}
    differing = {
        f"env.{name}": getattr(config, name) for name in given if name in base and getattr(config, name) != base[name]
    }
    if isinstance(servers, list):
        differing["openai"] = [f"{server.server_type} {server.model_name} at {server.base_url}" for server in servers]
    return Launch(config, servers, **switches, given=differing)


def known_options(env_cls: Any, command: str) -> dict[str, Any]:
    """Return the options of a command by name, with the field that describes each, where there is one."""
    defaults, servers = env_cls.config_init()
    return {
        **{f"env.{name}": field for name, field in type(defaults).model_fields.items()},
        **{f"openai.{name}": field for name, field in _server_class(servers).model_fields.items()},
        **dict.fromkeys((*SWITCHES, "config", *FLAGS, *COMMAND_OPTIONS.get(command, ()))),
    }


def read_options(argv: Sequence[str], known: Collection[str]) -> dict[str, str]:
    """Return the options' values by name.

    Raises ConfigError for an option that is not known, one without its value, and a word that is neither.
    """
    options: dict[str, str] = {}
    words = list(argv)
    while words:
        word = words.pop(0)
        name, equals, value = word.removeprefix("--").partition("=")
        name = SHORT_NAMES.get(name, name)
        if not word.startswith("--"):
            raise ConfigError(f"{word!r} is not an option; options begin with --, as in --env.group_size 8")
        if name not in known:
            hint = did_you_mean(f"--{name}", [f"--{option}" for option in known])
            raise ConfigError(f"there is no option --{name}{hint}")
        if not equals and name not in FLAGS:
            if not words or words[0].startswith("--"):
                raise ConfigError(f"the option --{name} needs a value, as in --{name}=VALUE")
            value = words.pop(0)
        options[name] = value
    return options


def read_config_file(path: Path, server_cls: type[BaseModel]) -> dict[str, Any]:
    """Return a file's sections, read once, so that it may be a pipe.

    `server_cls` is the config of one inference server. Settings of the environment are checked by its own config class.
    Raises ConfigError for a file that cannot be read, is not YAML, or has parts that nobody reads.
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
    return content


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
        raise ConfigError(
            f"{where} must hold the settings of a server, or a list of such; it holds a {type(server).__name__}"
        )
    known = list(server_cls.model_fields)
    for name in server:
        if name not in known:
            raise ConfigError(f"{where}: there is no setting {name!r}{did_you_mean(str(name), known)}")
    try:
        server_cls(**server)
    except ValidationError as error:
        raise ConfigError(f"{where}: {describe_validation(error, known)}") from error


def _server_class(defaults: ServerBaseline | list[APIServerConfig]) -> type[APIServerConfig]:
    first = defaults[0] if isinstance(defaults, list) and defaults else defaults
    return type(first) if isinstance(first, APIServerConfig) else APIServerConfig


def _build_servers(
    defaults: ServerBaseline | list[APIServerConfig], content: Any, options: Mapping[str, str], server_cls: Any
) -> ServerBaseline | list[APIServerConfig]:
    several = content if isinstance(content, list) else [content or {}]
    default_list = defaults if isinstance(defaults, list) else [defaults]
    if options and max(len(several), len(default_list)) > 1:
        raise ConfigError(
            f"--openai.{next(iter(options))}: with several inference servers, name their settings in the file"
        )
    if len(several) > 1:
        servers = [_make(server_cls, server, "openai") for server in several]
    else:
        given = {**(several[0] if several else {}), **options}
        if not given:
            return defaults
        servers = [_make(server_cls, {**default_list[0].model_dump(), **given}, "openai")]
    for server in servers:
        check_url("openai.base_url", server.base_url)
    return servers


def _section(section: str, options: Mapping[str, str]) -> dict[str, str]:
    prefix = f"{section}."
    return {name.removeprefix(prefix): value for name, value in options.items() if name.startswith(prefix)}


def _make(config_cls: Any, values: Mapping[str, Any], section: str) -> Any:
    """Build a config, or raise ConfigError that names the section's settings that cannot be."""
    fields = config_cls.model_fields
    read = {name: _read(value, fields[name].annotation) if name in fields else value for name, value in values.items()}
    try:
        return config_cls(**read)
    except ValidationError as error:
        raise ConfigError(describe_validation(error, list(fields), f"{section}.")) from error


def _read(value: Any, annotation: Any) -> Any:
    """Read a text as pydantic would not: `None` and `null` where a setting may be none, and whole numbers as `1e6`."""
    if not isinstance(value, str):
        return value
    union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    allowed = typing.get_args(annotation) if union else (annotation,)
    if value in ("None", "null") and type(None) in allowed:
        return None
    if int in allowed and WHOLE_NUMBER.fullmatch(value) and float(value).is_integer():
        return int(float(value))
    return value


def _truth(name: str, value: Any) -> bool:
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if str(value).lower() not in words:
        raise ConfigError(f"{name}: this must be true or false; got {value!r}")
    return words[str(value).lower()]


def describe_validation(error: ValidationError, known: Sequence[str], prefix: str = "") -> str:
    """Return one line for all of a config's mistakes; `known` are the names of its settings."""
    return "; ".join(_describe_mistake(details, known, prefix) for details in error.errors())


def _describe_mistake(details: Any, known: Sequence[str], prefix: str) -> str:
    name = ".".join(str(part) for part in details["loc"] if part not in ("str", "list[str]"))
    message = str(details["msg"]).removeprefix("Value error, ")
    if details["type"] == "extra_forbidden":
        return f"there is no setting {name!r}{did_you_mean(name, known)}"
    if name in SECRET_SETTINGS:
        return f"{prefix}{name}: {message}"
    return f"{prefix}{name}: {message}; got {details['input']!r}" if name else message
