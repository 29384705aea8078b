"""Read the completions that callers pass to `Session` and `Bridge`: several forms work, any other is a ConfigError."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import ConfigError
from ..runtime.text import short

Completion = str | Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
"""A text, a message, a conversation that ends with the completion, or None for a model that wrote nothing."""


def read_completions(completions: object) -> list[str]:
    """Return the texts of completions.

    A completion is a text, a message (a mapping with `content`), a conversation that ends with the completion, or None
    for a model that wrote nothing. Raises ConfigError for anything else.
    """
    if isinstance(completions, (str, bytes, Mapping)) or not isinstance(completions, Sequence):
        remedy = "for a single completion write [text]"
        raise ConfigError("must be a list of texts", setting="completions", got=short(completions), remedy=remedy)
    return [_text(completion, number) for number, completion in enumerate(completions)]


def _text(completion: Any, number: int) -> str:
    if isinstance(completion, str):
        return completion
    if completion is None:
        return ""
    if isinstance(completion, Mapping) and "content" in completion:
        return _content(completion["content"], number)
    if isinstance(completion, Sequence) and completion and isinstance(completion[-1], Mapping):
        return _text(completion[-1], number)
    raise _no_completion(completion, number)


def _content(content: Any, number: int) -> str:
    """Return the text of a message's content, which may be a list of parts."""
    if isinstance(content, list) and all(isinstance(part, Mapping) for part in content):
        return "".join(part["text"] for part in content if isinstance(part.get("text"), str))
    if content is None or isinstance(content, str):
        return content or ""
    raise _no_completion(content, number)


def _no_completion(value: object, number: int) -> ConfigError:
    expected = "must be a text, a message with `content`, or None for no completion"
    return ConfigError(expected, setting=f"completions[{number}]", got=short(value))
