"""Build a command's configs: defaults, then a file, then options, the later ones winning.

Atropos' own parsing is silent about some mistakes (unknown names in a file are ignored, and an option's value that
begins with a minus is taken for an option), and prints all settings, keys included. Here each mistake is an error of
one line, and no key is shown.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import yaml
from atroposlib.envs.server_handling.server_baseline import APIServerConfig, ServerBaseline
from pydantic import BaseModel, BeforeValidator, Field

from ..errors import ConfigError, did_you_mean
from ..settings import DuplicateKeyError, load_yaml, make_settings
from .config import ReasoningGymEnvConfig, check_url
from .environment import EnvironmentClass


def _as_list(value: object) -> object:
    if value == []:
        raise ValueError("must name a server at least; without `openai` the default server is asked")
    return value if isinstance(value, list) else [value]


class Sections(BaseModel):
    """Content of a file for `--config`; `openai` holds the settings of a server, or a list of settings."""

    env: dict[str, Any] = Field(default_factory=dict)
    openai: Annotated[list[dict[str, Any]], BeforeValidator(_as_list)] = Field(default_factory=list)
    slurm: bool = False
    testing: bool = False


@dataclass(frozen=True)
class Launch:
    """The configs of a command; `given` holds the settings that differ from the defaults, as `section.name`."""

    config: ReasoningGymEnvConfig
    servers: ServerBaseline | list[APIServerConfig]
    slurm: bool
    testing: bool
    given: Mapping[str, Any]

    def describe(self) -> str:
        """Return a line with the settings that differ from the defaults."""
        words = [f"{name}={value!r}" for name, value in self.given.items()]
        return "settings that differ from the defaults: " + (", ".join(words) or "none")

    def as_yaml(self) -> str:
        """Return all settings as a file for `--config`, without keys."""
        several = self.servers if isinstance(self.servers, list) else [self.servers]
        servers = [server.model_dump(mode="json") for server in several]
        for server in servers:
            if server.get("api_key"):
                server["api_key"] = "..."
        content = {"env": self.config.model_dump(mode="json"), "openai": servers}
        return yaml.safe_dump(content, sort_keys=False, allow_unicode=True)


def build_launch(env_cls: EnvironmentClass, command: str, options: Mapping[str, Any]) -> Launch:
    """Join the settings of environment class, file and options; raises ConfigError for invalid settings.

    The default of a server's URL is the variable OPENAI_BASE_URL, as for other clients.
    """
    defaults, default_servers = env_cls.config_init()
    file = read_config_files(options.get("config", ()))
    switches = {name: options[name] for name in ("slurm", "testing") if name in options}
    chosen = make_settings(Sections, switches)
    sections = file.model_copy(update={name: getattr(chosen, name) for name in switches})
    base = defaults.model_dump()
    if command == "process":
        base |= {"ensure_scores_are_not_same": False, "include_messages": True, "max_num_workers_per_node": 64}
        base["data_path_to_save_groups"] = base["data_path_to_save_groups"] or f"data/{env_cls.name or 'groups'}.jsonl"
    if command == "evaluate":
        base |= {"use_wandb": False}  # the results are in a folder, and need no account
    given = {**sections.env, **_section("env", options)}
    config = make_settings(type(defaults), {**base, **given}, "env.")
    if "env.eval_seed" in options and getattr(config, "eval_preset", None) is not None:
        raise ConfigError(
            "a preset has seeds of its own", setting="env.eval_seed", remedy="take the seed or {env.eval_preset} out"
        )
    servers = _build_servers(default_servers, sections.openai, _section("openai", options))
    differing = {
        f"env.{name}": getattr(config, name) for name in given if name in base and getattr(config, name) != base[name]
    }
    if isinstance(servers, list):
        differing["openai"] = [f"{server.server_type} {server.model_name} at {server.base_url}" for server in servers]
    return Launch(config, servers, sections.slurm, sections.testing, differing)


def read_config_files(paths: str | Sequence[str]) -> Sections:
    """Return the sections of several files, of which a later file wins, key by key.

    Settings of one server are joined with those of one server of a later file. Raises ConfigError for a file that
    cannot be read.
    """
    joined = Sections()
    for path in [paths] if isinstance(paths, str) else paths:
        file = read_config_file(Path(path))
        given = {name: getattr(file, name) for name in file.model_fields_set}
        if "env" in given:
            given["env"] = {**joined.env, **file.env}
        if len(joined.openai) == len(file.openai) == 1:
            given["openai"] = [{**joined.openai[0], **file.openai[0]}]
        joined = joined.model_copy(update=given)
    return joined


def read_config_file(path: Path) -> Sections:
    """Return the sections of a file, which may be a pipe; raises ConfigError if the file cannot be read."""
    content = _read_yaml(path)
    sections = ", ".join(Sections.model_fields)
    if not isinstance(content, dict):
        came = "is empty" if content is None else f"holds a {type(content).__name__}"
        raise ConfigError(f"{path} must hold sections ({sections}); it {came}", setting="--config")
    for name in content:
        if name not in Sections.model_fields:
            remedy = did_you_mean(str(name), Sections.model_fields) or f"the sections are {sections}"
            raise ConfigError(f"{path} holds {name!r}, which is no section", setting="--config", remedy=remedy)
    try:
        return make_settings(Sections, content)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}", setting="--config") from error


def _read_yaml(path: Path) -> object:
    """Return the content of a YAML file; raises ConfigError if the file cannot be read, or is not YAML."""
    try:
        return load_yaml(path.read_text())
    except DuplicateKeyError as error:
        raise ConfigError(f"{path}: {error}", setting="--config", remedy="keep one of both") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", setting="--config") from error
    except UnicodeDecodeError as error:
        problem = f"byte {error.start} is no text in UTF-8"
        raise ConfigError(f"{path} is not YAML: {problem}", setting="--config") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        position = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ConfigError(f"{path} is not YAML: {position}{error.problem}", setting="--config") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not YAML: {' '.join(str(error).split())}", setting="--config") from error


def server_class(defaults: ServerBaseline | list[APIServerConfig]) -> type[APIServerConfig]:
    """Return the class of an inference server's settings, given an environment class' default servers."""
    first = defaults[0] if isinstance(defaults, list) and defaults else defaults
    return type(first) if isinstance(first, APIServerConfig) else APIServerConfig


def _build_servers(
    defaults: ServerBaseline | list[APIServerConfig], several: Sequence[Mapping[str, Any]], options: Mapping[str, Any]
) -> ServerBaseline | list[APIServerConfig]:
    server_cls = server_class(defaults)
    default_list = defaults if isinstance(defaults, list) else [defaults]
    if options and max(len(several), len(default_list)) > 1:
        raise ConfigError(
            "does not say which of several inference servers is meant",
            setting=f"openai.{next(iter(options))}",
            remedy="name the settings of each server in the file",
        )
    if len(several) > 1:
        servers = [make_settings(server_cls, server, "openai.") for server in several]
    else:
        from_environment = {"base_url": url} if (url := os.environ.get("OPENAI_BASE_URL")) else {}
        given = {**from_environment, **(several[0] if several else {}), **options}
        if not given:
            return defaults
        servers = [make_settings(server_cls, {**default_list[0].model_dump(), **given}, "openai.")]
    for server in servers:
        check_url("openai.base_url", server.base_url)
    return servers


def _section(section: str, options: Mapping[str, Any]) -> dict[str, Any]:
    prefix = f"{section}."
    return {name.removeprefix(prefix): value for name, value in options.items() if name.startswith(prefix)}
