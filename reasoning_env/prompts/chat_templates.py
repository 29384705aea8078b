"""Format conversations with a tokenizer's chat template.

A probe at startup finds out which messages the template accepts and how a reply ends.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product, takewhile
from pathlib import Path
from typing import Any, Protocol

from ..errors import ConfigError
from ..runtime.text import error_text
from .messages import Messages, system_in_question
from .thinking import FORMATS, ThinkingFormat

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
"""The template for base models, similar to R1-Zero's (DeepSeek-AI 2025, arXiv:2501.12948, table 1)."""


def plain_text(messages: Messages) -> str:
    """Format system prompt and question like PLAIN_TEMPLATE, without special tokens, which only a tokenizer knows."""
    turns = [f"{'User: ' if message['role'] == 'user' else ''}{message['content']}\n\n" for message in messages]
    return "".join([*turns, "Assistant: <think>"])


class Tokenizer(Protocol):
    """The part of a transformers tokenizer that this package uses. Some tokenizers have no `chat_template`."""

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
    """How a tokenizer formats a conversation: the template, its options, and the accepted form of messages."""

    tokenizer: Tokenizer
    options: Mapping[str, object]
    jinja: str | Mapping[str, str] | None
    """The text of the template, or a mapping of names to templates."""
    formats_itself: bool = False
    """True if the tokenizer has no template and adds special tokens itself, as Mistral's own tokenizers do. Such a
    tokenizer does not parse special tokens in a string."""
    system_in_question: bool = False
    """True if the system message is put into the question, because the template accepts no system role."""
    content_as_list: bool = False
    """True if the template needs the content of a message as a list with one text part."""

    def render(self, messages: Messages, *, add_generation_prompt: bool = True) -> str:
        """Return the text of a conversation, by default up to the point where a reply begins."""
        options = {"add_generation_prompt": add_generation_prompt, **self.options}
        return str(self.tokenizer.apply_chat_template(self._arrange(messages), tokenize=False, **options))

    def render_tokens(self, messages: Messages) -> list[int]:
        """Return the tokens of a conversation, for a tokenizer that formats chats without a template."""
        arranged = self._arrange(messages)
        return list(self.tokenizer.apply_chat_template(arranged, tokenize=True, return_dict=False, **self.options))

    def text_of(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, with special tokens. SentencePiece's marks become spaces and newlines."""
        return str(self.tokenizer.decode(list(tokens))).replace("▁", " ").replace("<0x0A>", "\n")

    def _arrange(self, messages: Messages) -> list[dict[str, object]]:
        placed = system_in_question(messages) if self.system_in_question else messages
        arranged: list[dict[str, object]] = [dict(message) for message in placed]
        if self.content_as_list:
            for message in arranged:
                message["content"] = [{"type": "text", "text": message["content"]}]
        return arranged


# No probe contains another, so that the occurrences of each probe in a prompt can be counted.
PROBE_SYSTEM = "probe-of-the-rules"
PROBE_QUESTION = "probe-of-the-question"
PROBE_REPLY = "probe-of-the-reply"
SYSTEM = {"role": "system", "content": PROBE_SYSTEM}
USER = {"role": "user", "content": PROBE_QUESTION}
PROBE_TURN = {"role": "assistant", "content": PROBE_REPLY}
"""The reply in the test conversation."""


@dataclass(frozen=True)
class ProbedTemplate:
    """What `probe_template` found: the layout, the tokens that end a reply, and the thinking formats of the model."""

    layout: ChatLayout
    ending: tuple[int, ...]
    thinking_formats: tuple[ThinkingFormat, ...]


def probe_template(
    tokenizer: Tokenizer, name: str, template: str | None, options: Mapping[str, object]
) -> ProbedTemplate:
    """Test a tokenizer's chat template with a short conversation, and return what the test found.

    `ChatFormat` explains the parameters. Raises ConfigError:

    - The template cannot be read.
    - The tokenizer has no chat template.
    - The template raises an error, repeats a message, or leaves out a message or the header of the reply.
    """
    layout = _choose_layout(_given_layout(tokenizer, name, template, options), name)
    vocabulary = tokenizer.get_vocab()  # called once: takes tens of milliseconds for a large vocabulary
    known = [thinking_format for thinking_format in FORMATS if _is_known(thinking_format, vocabulary, layout.jinja)]
    return ProbedTemplate(layout, tuple(_find_ending(layout)), tuple(known))


# ---------------------------------------------------------------------------- the template


def _given_layout(tokenizer: Tokenizer, name: str, template: str | None, options: Mapping[str, object]) -> ChatLayout:
    """Return the layout that does not change messages. Raises ConfigError if there is no template."""
    if template is None:
        own = getattr(tokenizer, "chat_template", None)
        if not own and not _formats_chats(tokenizer):
            raise ConfigError(
                f"{name!r} has no chat template, so no prompt can be built",
                setting="tokenizer_name",
                remedy="use the tokenizer of an instruct or chat model, or, for a base model, set {chat_template} to "
                "`plain` or to the path of a template",
            )
        return ChatLayout(tokenizer, options, own, formats_itself=not own)
    if template != PLAIN:
        text = _read_template(template)
        return ChatLayout(tokenizer, {**options, "chat_template": text}, text)
    variables = {"bos": _text_start(tokenizer), "eos_token": tokenizer.eos_token or ""}
    return ChatLayout(tokenizer, {**options, "chat_template": PLAIN_TEMPLATE, **variables}, PLAIN_TEMPLATE)


def _read_template(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise ConfigError(
            f"{path!r} cannot be read ({reason})",
            setting="chat_template",
            remedy="give the path of a Jinja file, or `plain`",
        ) from error


def _text_start(tokenizer: Tokenizer) -> str:
    """Return the beginning-of-text token that the tokenizer adds to each string; "" if it adds none."""
    start = getattr(tokenizer, "bos_token_id", None)
    written = list(tokenizer.encode("a"))[:1]
    return str(tokenizer.bos_token) if start is not None and written == [start] else ""


def _formats_chats(tokenizer: Tokenizer) -> bool:
    """Return True if a tokenizer without a template can format a conversation, as Mistral's own tokenizers can."""
    try:
        tokens = tokenizer.apply_chat_template([USER], tokenize=True)
    except Exception:  # each tokenizer library raises its own error for a missing template
        return False
    return bool(tokens)


# ---------------------------------------------------------------------------- the form of messages


def _choose_layout(given: ChatLayout, name: str) -> ChatLayout:
    """Return the first layout in which `_find_fault` finds no fault. Raises ConfigError if there is none."""
    faults: list[str] = []
    for in_question, content_as_list in product((False, True), repeat=2):
        layout = replace(given, system_in_question=in_question, content_as_list=content_as_list)
        fault = _find_fault(layout)
        if fault is not None:
            faults.append(fault)
            continue
        if in_question:
            logger.warning(
                "the chat template of %s rejects system messages, so the system prompt is put before the question",
                name,
            )
        return layout
    raise ConfigError(
        f"the chat template of {name!r} cannot be used: {faults[0]}",
        remedy="give the template its options in {chat_template_kwargs}, or set {chat_template} to the path of another "
        "template, or to `plain` for a base model",
    )


def _find_fault(layout: ChatLayout) -> str | None:
    """Return an error message if the template cannot format a test conversation; None if it can."""
    question = (SYSTEM, USER)
    try:
        text = layout.text_of(layout.render_tokens(question)) if layout.formats_itself else layout.render(question)
    except Exception as error:  # templates raise their own errors, and Jinja raises errors of many types
        return error_text(error)[:200]
    for part, description in ((PROBE_SYSTEM, "the system prompt"), (PROBE_QUESTION, "the question")):
        times = text.count(part)
        if times == 0:
            return f"the template leaves out {description}"
        if times > 1:
            return f"the template writes {description} {times} times"
    return None if layout.formats_itself else _find_missing_header(layout, text)


def _find_missing_header(layout: ChatLayout, prompt: str) -> str | None:
    """Return an error message if the prompt ends before the header of the reply; None if it does not."""
    try:
        ended = layout.render((SYSTEM, USER), add_generation_prompt=False)
        replied = layout.render((SYSTEM, USER, PROBE_TURN), add_generation_prompt=False)
        asked_again = layout.render((SYSTEM, USER, PROBE_TURN, USER), add_generation_prompt=False)
    except Exception:  # some templates accept no replies; the prompt without a reply was checked before
        return None
    before, reply, after = replied.partition(PROBE_REPLY)
    if not reply or prompt != ended or not before.startswith(prompt):
        return None
    if not asked_again.partition(PROBE_REPLY)[2].startswith(after):
        return None  # the header of a reply follows every turn, even after a reply
    header = before.removeprefix(prompt)  # empty in templates whose replies have no header
    special = set(layout.tokenizer.all_special_ids)
    if any(token in special for token in layout.tokenizer.encode(header, add_special_tokens=False)):
        return f"the prompt lacks {header!r}, with which a reply begins (the template ignores add_generation_prompt)"
    return None


# ---------------------------------------------------------------------------- replies


def _find_ending(layout: ChatLayout) -> list[int]:
    """Return the tokens that end a reply. What the template writes after the last reply decides which tokens:

    - special tokens, one of them the end-of-text token: the tokens up to and including the end-of-text token,
    - special tokens without the end-of-text token: the first of them,
    - words, then the end-of-text token (Kimi K3): only this token, because replies contain these words,
    - nothing (GLM): the special token that begins the next turn,
    - anything else: the end-of-text token, if the tokenizer has one.
    """
    tokenizer = layout.tokenizer
    end = tokenizer.eos_token_id
    fallback = [] if end is None else [int(end)]
    if layout.formats_itself:
        return fallback
    try:
        tail = layout.render((USER, PROBE_TURN), add_generation_prompt=False).rpartition(PROBE_REPLY)[2]
        if not tail.strip():
            next_turn = layout.render((USER, PROBE_TURN, USER), add_generation_prompt=False)
            tail = next_turn.rpartition(PROBE_REPLY)[2].lstrip()
    except Exception:  # some templates accept no replies
        return fallback
    tokens = list(tokenizer.encode(tail, add_special_tokens=False))
    special = set(tokenizer.all_special_ids)
    run = list(takewhile(special.__contains__, tokens))
    if end in run:
        return run[: run.index(end) + 1]
    if end in tokens and tokenizer.decode(tokens[len(run) : tokens.index(end)]).strip():
        return fallback
    return run[:1] or fallback


def _is_known(thinking_format: ThinkingFormat, vocabulary: Mapping[str, int], jinja: object) -> bool:
    """Return True if all tokens of a thinking format are in the vocabulary, or all are in the template."""
    if all(token in vocabulary for token in thinking_format.tokens):
        return True
    return isinstance(jinja, str) and all(token in jinja for token in thinking_format.tokens)
