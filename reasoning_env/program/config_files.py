"""Read the settings that a user sets: in files of `--config`, and as options.

A file has sections of settings. Later files override earlier files, key by key. A command drops the settings that it
does not use, and logs a warning with their names.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, Field

from ..errors import ConfigError, did_you_mean
from ..settings import CommandName, ReasoningSettings
from ..settings.given import DuplicateKeyError, load_yaml, make_settings, raise_all
from ..settings.removed import UNUSED, unknown_setting
from ..storage.reading import wide_text_hint
from .options import SECTIONS
from .training import NAMES_OF_SERVER, NAMES_OF_TRAINING, USED_BY

logger = logging.getLogger(__name__)

SettingsT = TypeVar("SettingsT", bound=ReasoningSettings)


def _as_list(value: object) -> object:
    if value == []:
        raise ValueError("must have at least one server; remove `openai` to use the default server")
    return value if isinstance(value, list) else [value]


class Sections(BaseModel):
    """Content of a `--config` file. `openai` has the settings of one server, or a list with the settings of several."""

    env: dict[str, object] = Field(default_factory=dict)
    openai: Annotated[list[dict[str, object]], BeforeValidator(_as_list)] = Field(default_factory=list)
    slurm: bool = False
    testing: bool = False

    def names(self) -> list[str]:
        """Return the names of all settings of the file, such as `env.seed`."""
        names = [f"env.{name}" for name in self.env]
        names += [f"openai.{name}" for server in self.openai for name in server]
        return [*names, *(name for name in ("slurm", "testing") if name in self.model_fields_set)]

    def without(self, names: Container[str]) -> Sections:
        """Return a copy that lacks the settings in `names`, such as `env.seed`."""

        def keep(section: str, settings: Mapping[str, object]) -> dict[str, object]:
            return {name: value for name, value in settings.items() if f"{section}.{name}" not in names}

        kept = {"env": keep("env", self.env), "openai": [keep("openai", server) for server in self.openai]}
        return self.model_copy(update=kept)


def read_config_files(paths: str | Sequence[str]) -> Sections:
    """Return the sections of several files. Later files override earlier files, key by key.

    If a file and a later file each have one server, the servers' settings are merged. Raises ConfigError for a file
    that cannot be read.
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
    """Return the sections of a file, which may be a pipe. Raises ConfigError if the file cannot be read."""
    content = _read_yaml(path)
    sections = ", ".join(Sections.model_fields)
    if not isinstance(content, dict):
        actual = "is empty" if content is None else f"contains a {type(content).__name__}"
        raise ConfigError(f"{path} must contain sections ({sections}); the file {actual}", setting="--config")
    unknown = [name for name in content if name not in Sections.model_fields]
    if unknown:
        mistakes = [
            f"{name!r}, which is not a section; "
            + (did_you_mean(str(name), Sections.model_fields) or f"the sections are {sections}")
            for name in unknown
        ]
        raise ConfigError(f"{path} contains {'; '.join(mistakes)}", setting="--config")
    try:
        return make_settings(Sections, content)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}", setting="--config") from error


def check_names(sections: Sections, env: Collection[str], server: Collection[str]) -> None:
    """Raise ConfigError for names that are not in `env` (for the section env) or `server` (for openai)."""
    unknown = [unknown_setting(name, env, "env.") for name in sections.env if name not in env and name not in UNUSED]
    for several in sections.openai:
        unknown += [unknown_setting(name, server, "openai.") for name in several if name not in server]
    raise_all(unknown)


@dataclass(frozen=True)
class GivenSettings:
    """The settings that a user set in files and options, for a command.

    - `file`: the content of the files, without the settings that the command does not use
    - `options`: the options, without the settings that the command does not use
    - `names`: the names of all settings that the user set, such as `env.seed`
    - `ignored`: the names of the settings that the command does not use
    """

    file: Sections
    options: Mapping[str, Any]
    names: Sequence[str]
    ignored: Sequence[str]

    def ignored_with(self, without_effect: Set[str]) -> list[str]:
        """Return the names of the given settings that the command does not use, or that `without_effect` contains."""
        return [name for name in self.names if name in self.ignored or name in without_effect]


def ignored_settings(command: str, given: Iterable[str]) -> list[str]:
    """Return which of the given names, such as `env.seed`, are settings that a command does not use."""
    return [name for name in given if command not in USED_BY.get(name, (command,))]


def read_given(command: CommandName, paths: Sequence[str], options: Mapping[str, Any]) -> GivenSettings:
    """Return the settings in the files and in `options`, and which of them the command does not use.

    Settings in `options` have names such as `env.seed`. Raises ConfigError for a file that cannot be read, and for
    an unknown setting in a file.
    """
    file = read_config_files(paths)
    check_names(file, NAMES_OF_TRAINING, NAMES_OF_SERVER)
    names = list(dict.fromkeys([*file.names(), *(name for name in options if name.startswith(SECTIONS))]))
    ignored = ignored_settings(command, names)
    used = {name: value for name, value in options.items() if name not in ignored}
    return GivenSettings(file.without(ignored), used, names, ignored)


def warn_of_ignored(command: str, names: Sequence[str]) -> None:
    """Log a warning with the names of the settings that a command ignores, if there are any."""
    if names:
        logger.warning("`%s` ignores these settings: %s", command, ", ".join(names))


def merge_settings(
    settings_cls: type[SettingsT],
    of_files: Mapping[str, object],
    defaults: Mapping[str, object],
    given: Mapping[str, object],
) -> SettingsT:
    """Return the settings of a command from its files, its command line (`given`) and `defaults`.

    `defaults` apply to settings that no file has; `given` overrides the files. Raises ConfigError for an unknown name
    or a value out of range.
    """
    make_settings(settings_cls, of_files, "env.")  # errors in files name settings with their section
    return make_settings(settings_cls, {**defaults, **of_files, **given})


def write_config(settings: BaseModel, servers: Sequence[BaseModel]) -> str:
    """Return all settings as the content of a `--config` file, without the API keys and headers of servers.

    The content is ASCII, so it does not depend on the terminal's encoding.
    """
    shown = [server.model_dump(mode="json") for server in servers]
    for server in shown:
        if server.get("api_key"):
            server["api_key"] = "..."
        if server.get("headers"):
            server["headers"] = dict.fromkeys(server["headers"], "...")
    content = {"env": settings.model_dump(mode="json"), "openai": shown}
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=False)


def _read_yaml(path: Path) -> object:
    """Return the content of a YAML file; raises ConfigError if the file cannot be read, or is not YAML."""
    if path == Path():
        raise ConfigError("must be the name of a file", setting="--config")
    try:
        content = path.read_bytes()
        if hint := wide_text_hint(content):
            raise ConfigError(f"{path} is not YAML: {hint}", setting="--config")
        return load_yaml(content.decode("utf-8-sig"))
    except DuplicateKeyError as error:
        raise ConfigError(f"{path}: {error}", setting="--config", remedy="keep one of them") from error
    except OSError as error:
        fault = f"{path} cannot be read: {error.strerror}"
        raise ConfigError(fault, setting="--config", remedy="pass a readable file") from error
    except UnicodeDecodeError as error:
        fault = f"{path} is not YAML: byte {error.start} is not valid UTF-8"
        raise ConfigError(fault, setting="--config", remedy="save the file as UTF-8") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        position = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        said = error.problem if error.context is None else f"{error.context}, {error.problem}"
        raise ConfigError(f"{path} is not YAML: {position}{said}", setting="--config", remedy="correct it") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not YAML: {' '.join(str(error).split())}", setting="--config") from error
