"""Build a command's configs from defaults, files and options. Options override files, and files override defaults.

Atropos' own parser ignores some mistakes (such as unknown names in a file), reads a value that begins with a minus
sign as an option, and prints all settings, including keys. This module reports each mistake as an error of one line,
and never prints a key.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from atroposlib.envs.server_handling.server_baseline import APIServer, APIServerConfig, ServerBaseline

from ..errors import ConfigError
from ..evaluations.plan import check_seed
from ..inference.addresses import check_url
from ..program.training import OF_EVALUATE
from ..settings.given import make_settings
from ..storage.config_files import Sections, check_names, read_config_files, write_config
from .config import SERVER_RANGES, ReasoningGymEnvConfig, named_format
from .environment import EnvironmentClass
from .modes.mode import Mode
from .servers import AtroposServer


@dataclass(frozen=True)
class Launch:
    """The configs of a command."""

    config: ReasoningGymEnvConfig
    servers: ServerBaseline | list[APIServerConfig]
    slurm: bool
    testing: bool
    unused: Sequence[str]
    """Settings in the files that only other commands use."""

    @property
    def server_list(self) -> list[ServerBaseline]:
        return [*self.servers] if isinstance(self.servers, list) else [self.servers]

    def as_yaml(self) -> str:
        """Return all settings as a file for `--config`, without keys."""
        return write_config(self.config, self.server_list)


def build_launch(env_cls: EnvironmentClass, mode: Mode, options: Mapping[str, Any]) -> Launch:
    """Combine the settings of environment class, mode, file and options; raises ConfigError for invalid settings.

    The environment variable OPENAI_BASE_URL is the default URL of a server, as in OpenAI's own clients.
    """
    defaults, default_servers = env_cls.config_init()
    file = read_config_files(options.get("config", ()))
    check_names(file, type(defaults).model_fields, [*server_class(default_servers).model_fields, *OF_EVALUATE])
    unused = [f"openai.{name}" for name in OF_EVALUATE if any(name in server for server in file.openai)]
    servers_of_file = [
        {name: value for name, value in server.items() if name not in OF_EVALUATE} for server in file.openai
    ]
    switches = {name: options[name] for name in ("slurm", "testing") if name in options}
    chosen = make_settings(Sections, switches)
    sections = file.model_copy(update={name: getattr(chosen, name) for name in switches})
    # Pass only settings that were set, so that pydantic records which settings the user set, even to the default.
    preset = {**defaults.model_dump(exclude_unset=True), **mode.defaults(defaults, env_cls.name)}
    given = {**sections.env, **_section("env", options)}
    config = make_settings(type(defaults), {**preset, **given}, "env.")
    check_seed(config, options)
    servers = _build_servers(default_servers, servers_of_file, _section("openai", options))
    return Launch(config, servers, sections.slurm, sections.testing, unused)


def server_class(defaults: ServerBaseline | list[APIServerConfig]) -> type[APIServerConfig]:
    """Return the class of an inference server's settings, given an environment class' default servers."""
    first = defaults[0] if isinstance(defaults, list) and defaults else defaults
    return type(first) if isinstance(first, APIServerConfig) else APIServerConfig


def _build_servers(
    defaults: ServerBaseline | list[APIServerConfig],
    several: Sequence[Mapping[str, object]],
    options: Mapping[str, object],
) -> ServerBaseline | list[APIServerConfig]:
    server_cls = server_class(defaults)
    if options.get("model_name") == "":
        raise ConfigError("must not be empty", setting="openai.model_name", remedy="name the model")
    default_list = defaults if isinstance(defaults, list) else [defaults]
    if options and max(len(several), len(default_list)) > 1:
        raise ConfigError(
            "this option works with one inference server only, and there are several",
            setting=f"openai.{next(iter(options))}",
            remedy="set it for each server in the --config file",
        )
    if len(several) > 1:
        servers = [make_settings(server_cls, server, "openai.") for server in several]
    else:
        from_environment = {"base_url": url} if (url := os.environ.get("OPENAI_BASE_URL")) else {}
        given = {**from_environment, **(several[0] if several else {}), **options}
        if not given:
            return defaults
        servers = [make_settings(server_cls, {**default_list[0].model_dump(), **given}, "openai.")]
    from_variable = "base_url" not in options and not any("base_url" in server for server in several)
    for server in servers:
        # A URL that neither files nor options set is the environment variable's or the default.
        setting = "OPENAI_BASE_URL" if from_variable else "openai.base_url"
        check_url(
            setting, server.base_url, remedy="to use several servers, list them under `openai` in a --config file"
        )
        for name, allowed in SERVER_RANGES.items():
            value = getattr(server, name, None)
            if value is not None and not allowed.allows(value):
                raise ConfigError(f"must be {allowed.words}", setting=f"openai.{name}", got=value)
    return servers


def _section(section: str, options: Mapping[str, object]) -> dict[str, object]:
    prefix = f"{section}."
    return {name.removeprefix(prefix): value for name, value in options.items() if name.startswith(prefix)}


def choose_server_class(
    server_cls: Callable[..., APIServer], configs: ServerBaseline | list[APIServerConfig]
) -> Callable[..., APIServer]:
    """Return the class or function that creates servers: AtroposServer's, unless user code passed its own class.

    Atropos itself creates the settings of local servers and of Slurm's servers, without a type.
    """
    if not inspect.isabstract(server_cls):
        return server_cls
    return partial(AtroposServer, named=named_format(configs[0] if isinstance(configs, list) else configs))
