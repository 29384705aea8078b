"""Build the messages of a problem, and parse completions, which are strings, messages or conversations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..errors import ConfigError
from ..runtime.text import short
from ..settings import NATIVE_SYSTEM_PROMPT, SYSTEM_PROMPT
from .thinking import Thinking

Messages = Sequence[Mapping[str, str]]


def system_prompt(setting: str, thinking: Thinking) -> str:
    """Return the system prompt: `setting` or, if it is the default, a prompt that fits the model's thinking format."""
    return NATIVE_SYSTEM_PROMPT if setting == SYSTEM_PROMPT and not thinking.asks_for_tags else setting


def build_messages(system_prompt: str, question: str) -> tuple[Mapping[str, str], ...]:
    """Return the conversation up to the model's turn. An empty system prompt is left out."""
    user = {"role": "user", "content": question}
    if not system_prompt.strip():
        return (user,)
    return ({"role": "system", "content": system_prompt}, user)


def system_in_question(messages: Messages) -> Messages:
    """Return the conversation with the system message moved to the beginning of the question."""
    if len(messages) < 2 or messages[0]["role"] != "system":
        return messages
    system, question, *rest = messages
    return [{**question, "content": f"{system['content']}\n\n{question['content']}"}, *rest]


Completion = str | Mapping[str, object] | Sequence[Mapping[str, object]] | None
"""A string, a message of the assistant, a conversation with such a message, or None if the model wrote nothing."""


def read_completions(completions: object) -> list[str]:
    """Return the strings of the completions that callers pass to `Session` and `Bridge`.

    A completion is a string, a message of the assistant, a conversation, or None if the model wrote nothing. In a
    conversation, the last message of the assistant counts. Raises ConfigError for anything else.
    """
    if isinstance(completions, (str, bytes, Mapping)) or not isinstance(completions, Sequence):
        remedy = "pass a single completion as [completion]"
        raise ConfigError("must be a list of completions", setting="completions", got=short(completions), remedy=remedy)
    return [_text(completion, number) for number, completion in enumerate(completions)]


THINKING_PARTS = ("thinking", "reasoning", "redacted_thinking")
"""Types of message parts that contain thinking, as Magistral, Anthropic and others name them."""


@dataclass(frozen=True)
class Content:
    """The content of a message: its text, its thinking, and whether one of its parts is a refusal."""

    text: str
    thinking: str = ""
    is_refusal: bool = False


def read_content(content: object) -> Content | None:
    """Read the content of a message: a string, None, or a list of parts. Return None if `content` is anything else.

    A part is a mapping or a client library's object. Parts with neither text nor thinking, such as images, are skipped.
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
    """Return the fields of each part of a message; None if `parts` is not a list of such parts."""
    if not isinstance(parts, list):
        return None
    fields = [part if isinstance(part, Mapping) else getattr(part, "__dict__", None) for part in parts]
    return None if None in fields else [part for part in fields if part is not None]


def _thinking_of(part: Mapping[str, object]) -> str:
    """Return the thinking of a message part, stored as a list of text parts (Magistral) or as a string (others)."""
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
        return _text_of_assistant([completion], number)
    if isinstance(completion, Sequence) and completion and all(isinstance(each, Mapping) for each in completion):
        return _text_of_assistant(completion, number)
    raise _completion_error(completion, number)


def _text_of_assistant(messages: Sequence[Mapping[str, object]], number: int) -> str:
    """Return the text of the assistant's last message. Raises ConfigError if the assistant has no message."""
    message = next((message for message in reversed(messages) if _is_of_assistant(message)), None)
    if message is None:
        roles = ", ".join(sorted({str(message.get("role")) for message in messages}))
        raise ConfigError("has no assistant message", setting=f"completions[{number}]", got=short(roles))
    content = read_content(message["content"])
    if content is None:
        raise _completion_error(message["content"], number)
    return content.text


def _is_of_assistant(message: Mapping[str, object]) -> bool:
    """Return True for a message with the role `assistant` or without a role."""
    if "content" not in message:
        return False
    # An item with a type and no role is no message, such as a `reasoning` item of OpenAI's Responses API.
    return message["role"] == "assistant" if "role" in message else "type" not in message


def _completion_error(value: object, number: int) -> ConfigError:
    expected = "must be a string, a message with `content`, or None for no completion"
    return ConfigError(expected, setting=f"completions[{number}]", got=short(value))
