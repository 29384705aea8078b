"""Build the messages of a problem, lay them out as text and tokens, and read the completions that come back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

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


def system_in_question(messages: Messages) -> Messages:
    """Return a conversation with the text of its system message in front of the question: for models without one."""
    if len(messages) < 2 or messages[0]["role"] != "system":
        return messages
    system, question, *rest = messages
    return [{**question, "content": f"{system['content']}\n\n{question['content']}"}, *rest]


class Tokenizer(Protocol):
    """The part of a transformers tokenizer that is used. `chat_template` is missing in some."""

    chat_template: str | Mapping[str, str] | None
    bos_token: str | None
    eos_token: str | None
    eos_token_id: int | None
    all_special_ids: Sequence[int]

    def apply_chat_template(self, conversation: Sequence[Mapping[str, object]], **options: object) -> Any: ...

    def get_vocab(self) -> Mapping[str, int]: ...

    def encode(self, text: str, *, add_special_tokens: bool = True) -> Sequence[int]: ...

    def decode(self, tokens: Any, *, skip_special_tokens: bool = False) -> str: ...


@dataclass(frozen=True)
class ChatLayout:
    """How a tokenizer lays out a conversation: its template, the template's options, and the form of messages."""

    tokenizer: Tokenizer
    options: Mapping[str, object]
    jinja: str | Mapping[str, str] | None
    """The text of the template, or of several by name."""
    formats_itself: bool = False
    """The tokenizer has no template, and writes special tokens itself, as Mistral's own do. It would not read special
    tokens back from text."""
    system_in_question: bool = False
    """The system message goes in front of the question: the template takes no message of that role."""
    content_as_list: bool = False
    """The content of a message goes as a list of one text part."""

    def render(self, messages: Messages, *, add_generation_prompt: bool = True) -> str:
        """Return the text of a conversation; by default up to the point where a reply begins."""
        options = {"add_generation_prompt": add_generation_prompt, **self.options}
        return str(self.tokenizer.apply_chat_template(self._arrange(messages), tokenize=False, **options))

    def render_tokens(self, messages: Messages) -> list[int]:
        """Return the tokens of a conversation, by a tokenizer that formats chats itself."""
        arranged = self._arrange(messages)
        return list(self.tokenizer.apply_chat_template(arranged, tokenize=True, return_dict=False, **self.options))

    def text_of(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, special tokens included; SentencePiece's marks become blanks and newlines."""
        return str(self.tokenizer.decode(list(tokens))).replace("▁", " ").replace("<0x0A>", "\n")

    def _arrange(self, messages: Messages) -> list[dict[str, object]]:
        placed = system_in_question(messages) if self.system_in_question else messages
        arranged: list[dict[str, object]] = [dict(message) for message in placed]
        if self.content_as_list:
            for message in arranged:
                message["content"] = [{"type": "text", "text": message["content"]}]
        return arranged


Completion = str | Mapping[str, object] | Sequence[Mapping[str, object]] | None
"""A text, a message of the assistant, a conversation that holds one, or None for a model that wrote nothing."""


def read_completions(completions: object) -> list[str]:
    """Return the texts of the completions that callers pass to `Session` and `Bridge`.

    A completion is a text, a message of the assistant (a mapping with `content`), a conversation, whose last message of
    the assistant counts, or None for a model that wrote nothing. Raises ConfigError for anything else.
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
        return _text_of_assistant([completion], number)
    if isinstance(completion, Sequence) and completion and all(isinstance(each, Mapping) for each in completion):
        return _text_of_assistant(completion, number)
    raise _no_completion(completion, number)


def _text_of_assistant(messages: Sequence[Mapping[str, object]], number: int) -> str:
    """Return the text of the assistant's last message: later messages of a user or a tool are not the model's."""
    message = next((message for message in reversed(messages) if _is_of_assistant(message)), None)
    if message is None:
        roles = ", ".join(sorted({str(message.get("role")) for message in messages}))
        raise ConfigError("holds no message of the assistant", setting=f"completions[{number}]", got=short(roles))
    content = read_content(message["content"])
    if content is None:
        raise _no_completion(message["content"], number)
    return content.text


def _is_of_assistant(message: Mapping[str, object]) -> bool:
    """Tell whether a message is the assistant's. A message without a role counts as the assistant's, but not an item of
    another type, such as the reasoning in the output of OpenAI's Responses."""
    if "content" not in message:
        return False
    return message["role"] == "assistant" if "role" in message else "type" not in message


def _no_completion(value: object, number: int) -> ConfigError:
    expected = "must be a text, a message with `content`, or None for no completion"
    return ConfigError(expected, setting=f"completions[{number}]", got=short(value))
