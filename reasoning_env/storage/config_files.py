"""Read the files of `--config`. A file has sections of settings. Later files override earlier files, key by key."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, Field

from ..errors import ConfigError, did_you_mean
from ..settings import ReasoningSettings
from ..settings.given import DuplicateKeyError, load_yaml, make_settings, raise_all
from ..settings.removed import UNUSED, unknown_setting
from .reading import wide_text_hint

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


def read_config_files(paths: str | Sequence[str]) -> Sections:
    """Return the sections of several files. Later files override earlier files, key by key.

    If a file and a later file each have one server, the settings of the two are merged. Raises ConfigError for a file
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
    """Raise ConfigError for settings in the files that are neither in `env` nor in `server`."""
    unknown = [unknown_setting(name, env, "env.") for name in sections.env if name not in env and name not in UNUSED]
    for several in sections.openai:
        unknown += [unknown_setting(name, server, "openai.") for name in several if name not in server]
    raise_all(unknown)


def split_settings(
    settings_cls: type[SettingsT],
    sections: Sections,
    defaults: Mapping[str, object],
    given: Mapping[str, object],
) -> tuple[SettingsT, list[str]]:
    """Return the settings of `settings_cls` from files, and the names of the files' other settings.

    `defaults` apply to settings that no file has. `given`, the settings of the command line, override the files. Call
    `check_names` first. Raises ConfigError for a value out of range.
    """
    core = settings_cls.model_fields
    of_core = {name: value for name, value in sections.env.items() if name in core}
    make_settings(settings_cls, of_core, "env.")  # errors of the files' own settings name the section
    settings = make_settings(settings_cls, {**defaults, **of_core, **given})
    sections_left = [name for name in ("openai", "slurm", "testing") if name in sections.model_fields_set]
    return settings, [*(f"env.{name}" for name in sections.env if name not in core), *sections_left]


def write_config(settings: BaseModel, servers: Sequence[BaseModel]) -> str:
    """Return all settings as the content of a `--config` file, without secrets (API keys and headers of servers)."""
    shown = [server.model_dump(mode="json") for server in servers]
    for server in shown:
        if server.get("api_key"):
            server["api_key"] = "..."
        if server.get("headers"):
            server["headers"] = dict.fromkeys(server["headers"], "...")
    content = {"env": settings.model_dump(mode="json"), "openai": shown}
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True)


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
        raise ConfigError(f"{path} cannot be read: {error.strerror}", setting="--config") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not YAML: byte {error.start} is not valid UTF-8", setting="--config") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        position = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        said = error.problem if error.context is None else f"{error.context}, {error.problem}"
        raise ConfigError(f"{path} is not YAML: {position}{said}", setting="--config") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not YAML: {' '.join(str(error).split())}", setting="--config") from error
