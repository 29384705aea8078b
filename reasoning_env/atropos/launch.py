"""Build a command's configs from defaults, files and options. Options override files, and files override defaults.

Unlike Atropos' own parser, this module reports each mistake as an error of one line, and never prints an API key.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from atroposlib.envs.server_handling.server_baseline import APIServer, APIServerConfig, ServerBaseline

from ..evaluations.plan import check_seed
from ..inference.addresses import read_servers
from ..program.config_files import Sections, check_names, ignored_settings, read_config_files, write_config
from ..program.options import of_section
from ..program.training import TrainingSettings
from ..settings.given import make_settings
from ..settings.removed import UNUSED
from .config import NOT_SENT, SERVER_RANGES, ReasoningGymEnvConfig, ServerConfig, check_value, named_format
from .environment import EnvironmentClass
from .modes.mode import Mode
from .servers import AtroposServer


@dataclass(frozen=True)
class Launch:
    """What a command runs with: the configs of the environment and of the inference servers."""

    config: ReasoningGymEnvConfig
    servers: ServerBaseline | list[APIServerConfig]
    slurm: bool
    testing: bool
    ignored: Sequence[str] = ()
    """Names of the settings that the user gave but that the command does not use, such as `env.seed`."""

    @property
    def server_list(self) -> list[ServerBaseline]:
        return [*self.servers] if isinstance(self.servers, list) else [self.servers]

    def as_yaml(self) -> str:
        """Return all settings as YAML for a `--config` file, without API keys."""
        return write_config(self.config, self.server_list)


def build_launch(env_cls: EnvironmentClass, mode: Mode, options: Mapping[str, Any]) -> Launch:
    """Combine the defaults of `env_cls` and `mode`, the config files and the command-line options.

    Raises ConfigError for invalid settings.
    """
    defaults, default_servers = env_cls.config_init()
    file = read_config_files(options.get("config", ()))
    check_names(file, type(defaults).model_fields, server_class(default_servers).model_fields)
    switches = {name: options[name] for name in ("slurm", "testing") if name in options}
    chosen = make_settings(Sections, switches)
    sections = file.model_copy(update={name: getattr(chosen, name) for name in switches})
    # Pass only settings that were set, so that pydantic records which settings the user set, even to the default.
    preset = {**defaults.model_dump(exclude_unset=True), **mode.defaults(defaults, env_cls.name)}
    given = {**sections.env, **of_section("env", options)}
    if "total_steps" in given:  # the config class accepts the values of all commands, so check this command's range
        steps = make_settings(TrainingSettings, {"total_steps": given["total_steps"]}, "env.").total_steps
        check_value("env.total_steps", steps, mode.steps)
    config = make_settings(type(defaults), {**preset, **given}, "env.")
    check_seed(config, options)
    servers = _build_servers(default_servers, file.openai, of_section("openai", options))
    reported = {f"env.{name}" for name in (*NOT_SENT, *UNUSED)}  # the config itself logs a warning for these
    names = [name for name in dict.fromkeys([*file.names(), *options]) if name not in reported]
    ignored = ignored_settings(mode.name, names)
    if config.eval_preset is not None and "env.eval_seed" in names:
        ignored.append("env.eval_seed")  # a preset has seeds of its own
    return Launch(config, servers, sections.slurm, sections.testing, ignored)


def server_class(defaults: ServerBaseline | list[APIServerConfig]) -> type[APIServerConfig]:
    """Return ServerConfig, or the class of the first of the `defaults` if that is a subclass of APIServerConfig."""
    first = defaults[0] if isinstance(defaults, list) and defaults else defaults
    is_own = isinstance(first, APIServerConfig) and type(first) is not APIServerConfig
    return type(first) if is_own else ServerConfig


def _build_servers(
    defaults: ServerBaseline | list[APIServerConfig],
    of_files: Sequence[Mapping[str, object]],
    options: Mapping[str, object],
) -> ServerBaseline | list[APIServerConfig]:
    several_defaults = defaults if isinstance(defaults, list) else [defaults]
    # Pass only settings that were set: Atropos' default `server_type` counts as no type.
    given = [default.model_dump(exclude_unset=True) for default in several_defaults]
    servers = read_servers(server_class(defaults), given, of_files, options)
    for server in servers:
        for name, allowed in SERVER_RANGES.items():
            check_value(f"openai.{name}", getattr(server, name), allowed)
    return servers or defaults


def choose_server_class(
    server_cls: Callable[..., APIServer], configs: ServerBaseline | list[APIServerConfig]
) -> Callable[..., APIServer]:
    """Return the class or function that creates servers: the one that user code set, or AtroposServer.

    A server without a `server_type` of its own uses the type in `configs`.
    """
    if not inspect.isabstract(server_cls):  # BaseEnv's default is the abstract class APIServer
        return server_cls
    return partial(AtroposServer, named=named_format(configs[0] if isinstance(configs, list) else configs))
