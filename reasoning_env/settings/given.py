"""Read settings that a user passes as values, strings or YAML, and describe invalid values in words."""

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

from ..errors import NO_VALUE, ConfigError, SeveralConfigErrors
from .removed import UNUSED, unknown_setting

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

logger = logging.getLogger(__name__)

Settings = TypeVar("Settings", bound=BaseModel)


def check_whole_number(name: str, value: object, least: int) -> None:
    """Raise ConfigError unless `value` is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError("must be a whole number", setting=name, got=value)
    if value < least:
        raise ConfigError(f"must be at least {least}", setting=name, got=value)


def check_checkout(folder: str | None) -> None:
    """Raise ConfigError if the setting `checkout` names a folder without the library."""
    # Otherwise workers would use the installed library.
    if folder is not None and not (Path(folder).expanduser() / "reasoning_gym" / "__init__.py").exists():
        raise ConfigError(
            f"{folder} does not contain the package reasoning_gym",
            setting="checkout",
            remedy="use the folder that contains the folder reasoning_gym",
        )


def make_settings(settings_cls: type[Settings], values: Mapping[str, object], section: str = "") -> Settings:
    """Return settings with these values, which may be strings.

    Raises ConfigError for unknown names and invalid values. `section` is the prefix of the names in messages, such as
    `env.`.
    """
    fields = settings_cls.model_fields
    raise_all([unknown_setting(name, fields, section) for name in values if name not in fields and name not in UNUSED])
    for name in filter(fields.__contains__, values):
        types = _alternatives(fields[name])
        if isinstance(values[name], bool) and bool not in types and not {int, float}.isdisjoint(types):
            # pydantic would accept False and True as 0 and 1.
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
    except ConfigError as error:  # raised by the settings class, which names settings without the section
        if isinstance(error.__cause__, ValidationError):
            raise settings_error(error.__cause__, fields, section) from error
        raise


def drop_unused(values: Mapping[str, object]) -> dict[str, object]:
    """Drop the settings that have no effect, log a warning for each, and return the other settings."""
    for name in filter(UNUSED.__contains__, values):
        logger.warning("%s is ignored: %s", name, UNUSED[name])
    return {name: value for name, value in values.items() if name not in UNUSED}


def raise_all(errors: Sequence[ConfigError]) -> None:
    """Raise all errors as one error, if there are any."""
    if errors:
        raise errors[0] if len(errors) == 1 else SeveralConfigErrors(errors)


def settings_error(error: ValidationError, fields: Mapping[str, FieldInfo], section: str) -> ConfigError:
    """Return pydantic's errors as one ConfigError."""
    mistakes = [_config_error(mistake, fields, section) for mistake in error.errors()]
    return mistakes[0] if len(mistakes) == 1 else SeveralConfigErrors(mistakes)


def read_none(value: object, field: FieldInfo, words: Collection[str] = ("none", "null")) -> object:
    """Return None if the value is one of `words` and the setting may be None; otherwise return the value unchanged."""
    may_be_none = type(None) in _alternatives(field)
    is_none = isinstance(value, str) and value.strip().lower() in words
    return None if may_be_none and is_none else value


def _read_whole_number(value: object, field: FieldInfo) -> object:
    """Convert strings such as "1e6" to integers for settings that are whole numbers; pydantic refuses the strings."""
    if isinstance(value, str) and int in _alternatives(field) and re.fullmatch(r"\d+(?:\.\d*)?[eE]\+?\d+", value):
        number = float(value)
        return int(number) if number.is_integer() else value
    return value


def _config_error(mistake: ErrorDetails, fields: Mapping[str, FieldInfo], section: str) -> ConfigError:
    """Return one of pydantic's errors as a ConfigError."""
    cause = mistake.get("ctx", {}).get("error")
    if isinstance(cause, ConfigError):  # raised by a check of several settings together
        return cause
    name, *entry = mistake["loc"]
    if mistake["type"] == "extra_forbidden":
        return unknown_setting(str(name), fields, section)
    problem = str(cause) if cause is not None else _expected(mistake, fields[str(name)])
    if entry and entry[-1] == "[key]":
        return ConfigError(f"every name {problem}", setting=f"{section}{name}", got=mistake["input"])
    if entry:
        problem = f"entry {'.'.join(map(repr, entry))} {problem}"
    got = NO_VALUE if name in ("api_key", "headers") else mistake["input"]  # never show a key
    return ConfigError(problem, setting=f"{section}{name}", got=got)


def _expected(mistake: ErrorDetails, field: FieldInfo) -> str:
    """Return what the value of the setting must be, such as `must be at least 1`."""
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
            return "must be a string"
        case "list_type":
            return "must be a list"
        case "dict_type" | "model_type":
            return "must be a mapping of names to values"
        case _:
            return mistake["msg"]


def _alternatives(field: FieldInfo) -> tuple[object, ...]:
    """Return the types that a setting accepts: `int` and `NoneType` for `int | None`."""
    is_union = get_origin(field.annotation) in (Union, UnionType)
    return get_args(field.annotation) if is_union else (field.annotation,)


def choices(field: FieldInfo) -> list[str]:
    """Return the words that a setting accepts; empty if the setting is not a choice of words."""
    words: list[str] = []
    for annotation in _alternatives(field):
        if get_origin(annotation) is Literal:
            words += map(str, get_args(annotation))
        elif isinstance(annotation, type) and issubclass(annotation, Enum):
            words += [str(choice.value) for choice in annotation]
    return words


def description_line(field: FieldInfo) -> str:
    """Return the setting's description as one line."""
    return " ".join((field.description or "").split())


class DuplicateKeyError(ValueError):
    """A YAML mapping contains a key twice; the text names the key and both lines."""


class _Loader(yaml.SafeLoader):
    """A YAML loader that raises for duplicate keys. PyYAML's own loader silently keeps the last value."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:
        lines: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                line = key.start_mark.line + 1
                name = (key.tag, key.value)
                if name in lines:
                    raise DuplicateKeyError(f"the key {key.value!r} appears twice, in lines {lines[name]} and {line}")
                lines[name] = line
        return super().construct_mapping(node, deep)


def load_yaml(text: str) -> object:
    """Return the value of a YAML or JSON string. Raises yaml.YAMLError, and DuplicateKeyError for a duplicate key."""
    return yaml.load(text, _Loader)


def parse_mapping(value: object) -> object:
    """Parse a string with a mapping (YAML, JSON or `name=value, name=value`); return other values unchanged.

    Raises ValueError for a string without a mapping.
    """
    if not isinstance(value, str):
        _check_spaces(value)
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
        raise ValueError(f"must be YAML or JSON: {' '.join(str(error).split())}") from error
    if not isinstance(parsed, dict):
        raise ValueError("must be a mapping, such as {name: value}")
    _check_spaces(parsed)
    return parsed


def parse_options(value: object) -> object:
    """Parse options like `parse_mapping`. In a string `name=value`, parse the value as YAML: `false` is a boolean."""
    parsed = parse_mapping(value)
    if isinstance(value, str) and isinstance(parsed, dict):
        return {name: load_yaml(text) if isinstance(text, str) else text for name, text in parsed.items()}
    return parsed


def _check_spaces(value: object) -> None:
    """Raise ValueError if the space after a colon is missing: YAML reads `{a:1}` as the name `a:1` without a value."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if inner is None and ":" in str(name):
                raise ValueError(f"the name {name!r} has no value; write a space after each colon, as in {{a: 1}}")
            _check_spaces(inner)
