"""Read YAML and JSON that a user writes, with mistakes that YAML's own loader passes over."""

from __future__ import annotations

from typing import Any

import yaml


class DuplicateKeyError(ValueError):
    """A key is given twice in a mapping of YAML; the text names the key and both lines."""


class _Loader(yaml.SafeLoader):
    """YAML's loader, which by itself drops all but the last value of a key."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        lines: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                line = key.start_mark.line + 1
                name = (key.tag, key.value)
                if name in lines:
                    raise DuplicateKeyError(f"the key {key.value!r} is given twice, in lines {lines[name]} and {line}")
                lines[name] = line
        return super().construct_mapping(node, deep)


def load_yaml(text: str) -> Any:
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
