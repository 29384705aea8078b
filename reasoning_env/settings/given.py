"""Read the settings that a user gives, in YAML too, name their mistakes, and tell defaults and ranges in words."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Literal, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from ..errors import NOTHING, ConfigError, SeveralConfigErrors
from .removed import UNUSED, unknown_setting

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

logger = logging.getLogger(__name__)

Settings = TypeVar("Settings", bound=BaseModel)


def check_whole_number(name: str, value: object, least: int) -> None:
    """Raise ConfigError unless the argument is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError("must be a whole number", setting=name, got=value)
    if value < least:
        raise ConfigError(f"must be at least {least}", setting=name, got=value)


def check_checkout(folder: str | None) -> None:
    """Raise ConfigError if the folder of the setting `checkout` has no library; workers would use the installed one."""
    if folder is not None and not (Path(folder).expanduser() / "reasoning_gym" / "__init__.py").exists():
        raise ConfigError(
            f"{folder} holds no package reasoning_gym",
            setting="checkout",
            remedy="name the folder in which the folder reasoning_gym lies",
        )


def make_settings(settings_cls: type[Settings], values: Mapping[str, object], section: str = "") -> Settings:
    """Return settings with these values, which may be texts.

    Raises ConfigError in one line for unknown names and for values that the settings do not take. Settings are named
    with `section` in front (`env.`).
    """
    fields = settings_cls.model_fields
    raise_all([unknown_setting(name, fields, section) for name in values if name not in fields and name not in UNUSED])
    for name in filter(fields.__contains__, values):
        types = _alternatives(fields[name])
        if isinstance(values[name], bool) and bool not in types and not {int, float}.isdisjoint(types):
            # pydantic would read 0 or 1.
            kind = "a whole number" if int in types else "a number"
            raise ConfigError(f"must be {kind}", setting=f"{section}{name}", got=values[name])
    keep_none: Collection[str] = getattr(settings_cls, "with_word_none", ())
    known = {name: value for name, value in values.items() if name in fields}
    read = {name: value if name in keep_none else read_none(value, fields[name]) for name, value in known.items()}
    unused = {name: value for name, value in values.items() if name not in fields}
    try:
        numbers = {name: _read_whole_number(value, fields[name]) for name, value in read.items()}
        return settings_cls(**numbers, **unused)
    except ValidationError as error:
        raise settings_error(error, fields, section) from error
    except ConfigError as error:  # of a class that raises its own errors, which name no section
        if isinstance(error.__cause__, ValidationError):
            raise settings_error(error.__cause__, fields, section) from error
        raise


def without_unused(values: Mapping[str, object]) -> dict[str, object]:
    """Return settings without those that have no effect, and warn of these by name."""
    for name in filter(UNUSED.__contains__, values):
        logger.warning("%s is not used: %s", name, UNUSED[name])
    return {name: value for name, value in values.items() if name not in UNUSED}


def raise_all(errors: Sequence[ConfigError]) -> None:
    """Raise several errors as one, if there are any."""
    if errors:
        raise errors[0] if len(errors) == 1 else SeveralConfigErrors(errors)


def settings_error(error: ValidationError, fields: Mapping[str, FieldInfo], section: str) -> ConfigError:
    """Return the mistakes that pydantic found as one error of ours."""
    mistakes = [_config_error(mistake, fields, section) for mistake in error.errors()]
    return mistakes[0] if len(mistakes) == 1 else SeveralConfigErrors(mistakes)


def read_none(value: object, field: FieldInfo, words: Collection[str] = ("none", "null")) -> object:
    """Return None for a text that is one of the words, if the setting may be None; any other value as it is."""
    may_be_none = type(None) in _alternatives(field)
    is_none = isinstance(value, str) and value.strip().lower() in words
    return None if may_be_none and is_none else value


def _read_whole_number(value: object, field: FieldInfo) -> object:
    """Return the number of `1e6` for settings that are whole numbers, which pydantic refuses; else the value."""
    if isinstance(value, str) and int in _alternatives(field) and re.fullmatch(r"\d+(?:\.\d*)?[eE]\+?\d+", value):
        number = float(value)
        return int(number) if number.is_integer() else value
    return value


def _config_error(mistake: ErrorDetails, fields: Mapping[str, FieldInfo], section: str) -> ConfigError:
    """Return a mistake that pydantic found as an error of ours."""
    cause = mistake.get("ctx", {}).get("error")
    if isinstance(cause, ConfigError):  # of a check of several settings
        return cause
    name, *entry = mistake["loc"]
    if mistake["type"] == "extra_forbidden":
        return unknown_setting(str(name), fields, section)
    problem = str(cause) if cause is not None else _expected(mistake, fields[str(name)])
    if entry and entry[-1] == "[key]":
        return ConfigError(f"every name {problem}", setting=f"{section}{name}", got=mistake["input"])
    if entry:
        problem = f"entry {'.'.join(map(repr, entry))} {problem}"
    got = NOTHING if name in ("api_key", "headers") else mistake["input"]  # a key stays out of the message
    return ConfigError(problem, setting=f"{section}{name}", got=got)


def _expected(mistake: ErrorDetails, field: FieldInfo) -> str:
    """Return what would have been right."""
    limits = mistake.get("ctx", {})
    if mistake["input"] != mistake["input"] or str(mistake["input"]).strip().lower() in ("nan", "inf", "-inf"):
        return "must be a number"
    match mistake["type"]:
        case "greater_than_equal":
            return f"must be at least {limits['ge']:g}"
        case "greater_than":
            return f"must be above {limits['gt']:g}"
        case "less_than_equal":
            return f"must be at most {limits['le']:g}"
        case "less_than":
            return f"must be below {limits['lt']:g}"
        case "literal_error" | "enum":
            return f"must be one of {', '.join(map(repr, choices(field)))}"
        case "int_parsing" | "int_type" | "int_from_float" | "int_parsing_size":
            return "must be a whole number"
        case "float_parsing" | "float_type" | "finite_number":
            return "must be a number"
        case "bool_parsing" | "bool_type":
            return "must be true or false"
        case "string_type":
            return "must be a text"
        case "list_type":
            return "must be a list"
        case "dict_type" | "model_type":
            return "must be a mapping of names to values"
        case _:
            return mistake["msg"]


def _alternatives(field: FieldInfo) -> tuple[object, ...]:
    """Return the types that a setting takes: `int` and `NoneType` for `int | None`."""
    is_union = get_origin(field.annotation) in (Union, UnionType)
    return get_args(field.annotation) if is_union else (field.annotation,)


def choices(field: FieldInfo) -> list[str]:
    """Return the words that a setting takes; empty where it takes something else."""
    words: list[str] = []
    for annotation in _alternatives(field):
        if get_origin(annotation) is Literal:
            words += map(str, get_args(annotation))
        elif isinstance(annotation, type) and issubclass(annotation, Enum):
            words += [str(choice.value) for choice in annotation]
    return words


def meaning(field: FieldInfo) -> str:
    """Return the description in one line."""
    return " ".join((field.description or "").split())


class DuplicateKeyError(ValueError):
    """A key is given twice in a mapping of YAML; the text names the key and both lines."""


class _Loader(yaml.SafeLoader):
    """YAML's loader, which by itself drops all but the last value of a key."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:
        lines: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                line = key.start_mark.line + 1
                name = (key.tag, key.value)
                if name in lines:
                    raise DuplicateKeyError(f"the key {key.value!r} is given twice, in lines {lines[name]} and {line}")
                lines[name] = line
        return super().construct_mapping(node, deep)


def load_yaml(text: str) -> object:
    """Return the content of YAML or JSON text. Raises yaml.YAMLError, and DuplicateKeyError for a double key."""
    return yaml.load(text, _Loader)


def parse_mapping(value: object) -> object:
    """Accept YAML or JSON text, and `pattern=value, pattern=value` for a mapping of numbers."""
    if not isinstance(value, str):
        _check_blanks(value)
        return value
    text = value.strip()
    if "=" in text and not text.startswith("{"):
        pairs = (pair.partition("=") for pair in text.split(",") if pair.strip())
        return {name.strip(): number.strip() for name, _, number in pairs}
    try:
        parsed = load_yaml(text) or {}
    except DuplicateKeyError:
        raise
    except yaml.YAMLError as error:
        raise ValueError(f"is neither YAML nor JSON: {' '.join(str(error).split())}") from error
    if not isinstance(parsed, dict):
        raise ValueError("must be a mapping, as in {name: value}")
    _check_blanks(parsed)
    return parsed


def parse_options(value: object) -> object:
    """Accept YAML or JSON text, and `name=value, name=value`, whose values are YAML: `false` is a boolean."""
    parsed = parse_mapping(value)
    if isinstance(value, str) and isinstance(parsed, dict):
        return {name: load_yaml(text) if isinstance(text, str) else text for name, text in parsed.items()}
    return parsed


def _check_blanks(value: object) -> None:
    """Raise ValueError for `{a:1}`, which YAML reads as the name `a:1` without a value."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if inner is None and ":" in str(name):
                raise ValueError(f"the name {name!r} has no value; write a blank after each colon, as in {{a: 1}}")
            _check_blanks(inner)
