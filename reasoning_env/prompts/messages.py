"""Build the messages of a problem, and read the completions that come back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..errors import ConfigError
from ..runtime.text import short
from ..settings import NATIVE_SYSTEM_PROMPT, SYSTEM_PROMPT
from .thinking import Thinking

Messages = Sequence[Mapping[str, str]]


def system_prompt(setting: str, thinking: Thinking) -> str:
    """Return the system prompt: the default that fits how the model thinks, or the user's own as given."""
    return NATIVE_SYSTEM_PROMPT if setting == SYSTEM_PROMPT and not thinking.asks_for_tags else setting


def build_messages(system_prompt: str, question: str) -> tuple[Mapping[str, str], ...]:
    """Return the conversation up to the model's turn; a blank system prompt is left out."""
    user = {"role": "user", "content": question}
    if not system_prompt.strip():
        return (user,)
    return ({"role": "system", "content": system_prompt}, user)


Completion = str | Mapping[str, object] | Sequence[Mapping[str, object]] | None
"""A text, a message, a conversation that ends with the completion, or None for a model that wrote nothing."""


def read_completions(completions: object) -> list[str]:
    """Return the texts of the completions that callers pass to `Session` and `Bridge`.

    A completion is a text, a message (a mapping with `content`), a conversation that ends with the completion, or None
    for a model that wrote nothing. Raises ConfigError for anything else.
    """
    if isinstance(completions, (str, bytes, Mapping)) or not isinstance(completions, Sequence):
        remedy = "for a single completion write [text]"
        raise ConfigError("must be a list of texts", setting="completions", got=short(completions), remedy=remedy)
    return [_text(completion, number) for number, completion in enumerate(completions)]


THINKING_PARTS = ("thinking", "reasoning", "redacted_thinking")
"""Types of the parts of a message that hold thinking: Magistral's and Anthropic's, and the names of others."""


@dataclass(frozen=True)
class Content:
    """The content of a message: its text, its thinking, and whether a part of it is a refusal."""

    text: str
    thinking: str = ""
    is_refusal: bool = False


def read_content(content: object) -> Content | None:
    """Return the content of a message: a text, None, or a list of parts; None for anything else.

    A part is a mapping with a `type`, or an object with the same attributes, as clients make of JSON. Parts that hold
    neither text nor thinking, such as images, are passed over.
    """
    if content is None or isinstance(content, str):
        return Content(content or "")
    parts = _fields(content)
    if parts is None:
        return None
    texts: list[str] = []
    thinking: list[str] = []
    for part in parts:
        if part.get("type") in THINKING_PARTS:
            thinking.append(_thinking_of(part))
        elif isinstance(text := part.get("text"), str):
            texts.append(text)
    return Content("".join(texts), "".join(thinking), any(part.get("type") == "refusal" for part in parts))


def _fields(parts: object) -> list[Mapping[str, object]] | None:
    """Return the fields of each part of a list; None for anything else."""
    if not isinstance(parts, list):
        return None
    fields = [part if isinstance(part, Mapping) else getattr(part, "__dict__", None) for part in parts]
    return None if None in fields else [part for part in fields if part is not None]


def _thinking_of(part: Mapping[str, object]) -> str:
    """Return the text of a part with thinking, which Magistral writes as a list of text parts."""
    given = next((part[name] for name in ("thinking", "reasoning", "text") if part.get(name)), "")
    inner = _fields(given)
    if inner is None:
        return given if isinstance(given, str) else ""
    return "".join(text for each in inner if isinstance(text := each.get("text"), str))


def _text(completion: object, number: int) -> str:
    if isinstance(completion, str):
        return completion
    if completion is None:
        return ""
    if isinstance(completion, Mapping) and "content" in completion:
        content = read_content(completion["content"])
        if content is None:
            raise _no_completion(completion["content"], number)
        return content.text
    if isinstance(completion, Sequence) and completion and isinstance(completion[-1], Mapping):
        return _text(completion[-1], number)
    raise _no_completion(completion, number)


def _no_completion(value: object, number: int) -> ConfigError:
    expected = "must be a text, a message with `content`, or None for no completion"
    return ConfigError(expected, setting=f"completions[{number}]", got=short(value))
