"""What a chat template does with a conversation: found out once, with a probe, before anything is asked."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, Protocol

from ..errors import ConfigError
from .thinking import ThinkingFormat

logger = logging.getLogger(__name__)

PLAIN = "plain"
PLAIN_TEMPLATE = """\
{{- bos -}}
{%- for message in messages -%}
{%- if message.role == 'user' -%}User: {{ message.content + '\\n\\n' }}
{%- elif message.role == 'assistant' -%}Assistant: {{ message.content + eos_token }}
{%- else -%}{{ message.content + '\\n\\n' }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}Assistant: <think>{%- endif -%}"""
"""For base models, after the template of R1-Zero (DeepSeek-AI 2025, arXiv:2501.12948, table 1)."""
PROBE_SYSTEM, PROBE_QUESTION, PROBE_REPLY = "probe-of-the-rules", "probe-of-the-question", "probe-of-the-reply"
"""A conversation to render, to see what the chat template does with it."""
QUESTION = ({"role": "system", "content": PROBE_SYSTEM}, {"role": "user", "content": PROBE_QUESTION})
REPLY = {"role": "assistant", "content": PROBE_REPLY}


class Renderer(Protocol):
    """What is probed: the chat format of a tokenizer, with the shape of conversations to be tried set on it."""

    name: str
    tokenizer: Any
    template: str | None
    formats_itself: bool
    folds: bool
    lists: bool
    options: dict[str, Any]

    def render(self, messages: Any, *, add_generation_prompt: bool = True) -> str: ...

    def shaped(self, messages: Any) -> list[dict[str, Any]]: ...

    def decode(self, tokens: Sequence[int]) -> str: ...

    def encode(self, text: str) -> list[int]: ...


def read_template(template: str | None) -> str | None:
    if template is None:
        return None
    if template == PLAIN:
        return PLAIN_TEMPLATE
    try:
        return Path(template).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise ConfigError(
            f"chat_template: {template!r} cannot be read ({reason}); it takes the path of a Jinja file, or `plain`"
        ) from error


def knows(chat: Renderer, thinking_format: ThinkingFormat) -> bool:
    """Tell whether the vocabulary holds the format's tokens, or the template its marks."""
    vocabulary = chat.tokenizer.get_vocab()
    if all(token in vocabulary for token in thinking_format.tokens):
        return True
    template = chat.template or getattr(chat.tokenizer, "chat_template", None)
    return isinstance(template, str) and all(token in template for token in thinking_format.tokens)


def choose_shape(chat: Renderer) -> None:
    """Find how the template takes a conversation whole; raises ConfigError where it takes none so."""
    faults = []
    for chat.folds in (False, True):
        for chat.lists in (False, True):
            fault = _fault(chat)
            if fault is None:
                if chat.folds:
                    logger.warning(
                        "the chat template of %s takes no system message; it goes in front of the question",
                        chat.name,
                    )
                return
            faults.append(fault)
    raise ConfigError(
        f"the chat template of {chat.name!r} builds no whole prompt: {faults[0]}; "
        "give it what it asks for in chat_template_kwargs, or set chat_template to the path of another one, or to "
        "`plain` for a base model"
    )


def find_ending(chat: Renderer) -> list[int]:
    """Return the tokens that the chat template puts after a reply, or the tokenizer's end-of-text token.

    Where nothing stands after a last reply, the token with which the next turn begins ends it, as GLM's models do.

    Several special tokens in a row count up to the end-of-text token, if that is among them, and else the first. Where
    words stand before the end-of-text token, as in Kimi K3's templates, the model writes those too, and it ends alone.
    """
    end = chat.tokenizer.eos_token_id
    fallback = [] if end is None else [int(end)]
    if chat.formats_itself:
        return fallback
    turn = ({"role": "user", "content": PROBE_QUESTION}, REPLY)
    try:
        tail = chat.render(turn, add_generation_prompt=False).rpartition(PROBE_REPLY)[2]
        if not tail.strip():
            next_turn = chat.render((*turn, turn[0]), add_generation_prompt=False)
            tail = next_turn.rpartition(PROBE_REPLY)[2].lstrip()
    except Exception:  # some templates take no replies
        return fallback
    tokens = chat.encode(tail)
    special = set(chat.tokenizer.all_special_ids)
    run = list(takewhile(special.__contains__, tokens))
    if end in run:
        return run[: run.index(end) + 1]
    if end in tokens and chat.decode(tokens[len(run) : tokens.index(end)]).strip():
        return fallback
    return run[:1] or fallback


def render_tokens(chat: Renderer, messages: Sequence[Mapping[str, str]]) -> list[int]:
    return list(
        chat.tokenizer.apply_chat_template(chat.shaped(messages), tokenize=True, return_dict=False, **chat.options)
    )


def text_of(chat: Renderer, tokens: Sequence[int]) -> str:
    """Return the text of tokens, special ones included; SentencePiece's pieces are left in it as such."""
    return chat.decode(tokens).replace("▁", " ").replace("<0x0A>", "\n")


def text_start(tokenizer: Any) -> str:
    """Return the beginning-of-text token where the tokenizer puts one before a text, else nothing."""
    start = getattr(tokenizer, "bos_token_id", None)
    written = list(tokenizer.encode("a"))[:1]
    return str(tokenizer.bos_token) if start is not None and written == [start] else ""


def formats_chats(tokenizer: Any) -> bool:
    """Tell whether a tokenizer without a template formats chats all the same, as Mistral's own do."""
    try:
        tokens = tokenizer.apply_chat_template([{"role": "user", "content": PROBE_QUESTION}], tokenize=True)
    except Exception:  # transformers' and others' ways to say that there is no template
        return False
    return bool(tokens)


def _fault(chat: Renderer) -> str | None:
    """Return what is wrong with the prompt of the probe, None for nothing."""
    probe = QUESTION
    try:
        text = text_of(chat, render_tokens(chat, probe)) if chat.formats_itself else chat.render(probe)
    except Exception as error:  # templates raise what they like, and Jinja what it finds
        return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    for part, what in ((PROBE_SYSTEM, "the system prompt"), (PROBE_QUESTION, "the question")):
        times = text.count(part)
        if times != 1:
            return f"it loses {what}" if times == 0 else f"it writes {what} {times} times"
    return None if chat.formats_itself else _fault_of_beginning(chat, text)


def _fault_of_beginning(chat: Renderer, text: str) -> str | None:
    """Return what is wrong where `add_generation_prompt` changes nothing, though replies begin with a header."""
    try:
        asked = QUESTION
        ended = chat.render(asked, add_generation_prompt=False)
        turn = (*asked, REPLY)
        before, reply, after = chat.render(turn, add_generation_prompt=False).partition(PROBE_REPLY)
        next_turn = chat.render((*turn, asked[-1]), add_generation_prompt=False).partition(PROBE_REPLY)[2]
    except Exception:  # some templates take no replies; what they do with questions is known
        return None
    if not reply or text != ended or not before.startswith(text):
        return None
    if not next_turn.startswith(after):
        return None  # it begins a reply always, even after a reply
    header = before.removeprefix(text)
    special = set(chat.tokenizer.all_special_ids)
    if any(token in special for token in chat.encode(header)):
        return f"it ends before {header!r}, with which a reply begins (it ignores add_generation_prompt)"
    return None
