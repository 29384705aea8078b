"""Build prompts: default system message, conversation of a problem, its text and tokens by a chat template."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .errors import ConfigError
from .records import Prompt
from .settings import NATIVE_SYSTEM_PROMPT, SYSTEM_PROMPT
from .thinking import Thinking, ThinkingFormat, choose_thinking

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

Messages = Sequence[Mapping[str, str]]


def system_prompt(setting: str, thinking: Thinking) -> str:
    """Return the system message: the default that fits how the model thinks, or the user's own as it is."""
    return NATIVE_SYSTEM_PROMPT if setting == SYSTEM_PROMPT and not thinking.asks_for_tags else setting


def build_messages(system_prompt: str, question: str) -> tuple[Mapping[str, str], ...]:
    """Return the conversation up to the model's turn; a blank system prompt is left out."""
    user = {"role": "user", "content": question}
    if not system_prompt.strip():
        return (user,)
    return ({"role": "system", "content": system_prompt}, user)


class ChatFormat:
    """The chat format of a tokenizer.

    `template` is the path of a Jinja file, or `plain`, in place of the tokenizer's own; `template_options` reach the
    template; `thinking` is the setting of that name. Construction renders a probe, and raises ConfigError where no
    whole prompt can be built.
    """

    def __init__(
        self,
        tokenizer: Any,
        name: str,
        *,
        template: str | None = None,
        template_options: Mapping[str, Any] | None = None,
        thinking: str = "auto",
    ) -> None:
        self._tokenizer = tokenizer
        self._name = name
        self._options = dict(template_options or {})
        self._template = self._read_template(template)
        self._lists = False
        self._folds = False
        # Mistral's own tokenizers write special tokens themselves: their text would not be read back as such.
        self._formats_itself = self._template is None and not getattr(tokenizer, "chat_template", None)
        if self._formats_itself and not _formats_chats(tokenizer):
            raise ConfigError(
                f"tokenizer_name: {name!r} has no chat template, so no prompt can be built; use the tokenizer of an "
                "instruct or chat model, or, for a base model, set chat_template to `plain` or to the path of a "
                "template"
            )
        self._choose_shape()
        self._ending = self._find_ending()
        self.thinking = choose_thinking(thinking, self._knows)
        vocabulary = tokenizer.get_vocab()
        special = set(tokenizer.all_special_ids)
        marks = {token for one in self.thinking.formats for token in one.tokens if token in vocabulary}
        self._dropped = special - {vocabulary[token] for token in marks}
        self.hides_thinking = self._dropped != special
        """Whether decoding without special tokens would lose what tells thinking from answer."""

    def prompt(self, messages: Messages) -> Prompt:
        """Render the conversation up to the point where the model's turn begins."""
        tokens = self._render_tokens(messages) if self._formats_itself else None
        text = self._render(messages) if tokens is None else self.decode(tokens)
        # The chat template writes the beginning-of-text token itself where the model has one.
        return Prompt(tuple(messages), text, tuple(self._encode(text) if tokens is None else tokens))

    def completion_tokens(self, text: str, *, finished: bool) -> list[int]:
        """Return the token ids of a completion's text; a finished one ends with the end-of-turn token.

        Servers that answer in text leave that token out, but the model produced it and must learn to.
        """
        tokens = self._encode(text)
        ending = self._ending
        if finished and ending:
            # A server may have left a part of the ending in the text.
            there = next(size for size in range(len(ending), -1, -1) if tokens[len(tokens) - size :] == ending[:size])
            if not tokens or tokens[-1] != ending[-1]:
                tokens += ending[there:]
        return tokens

    def completion_text(self, tokens: Sequence[int]) -> str:
        """Return what a completion's tokens say, without special tokens other than marks of thinking."""
        return self.decode([token for token in tokens if token not in self._dropped])

    def strip_end_of_turn(self, text: str) -> str:
        """Return the text without the end-of-turn marker that some servers leave at its end."""
        for start in range(len(self._ending)):
            ending = self.decode(self._ending[start:])
            if text.endswith(ending):
                return text.removesuffix(ending)
        return text

    def decode(self, tokens: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(tokens)))

    @property
    def end_of_turn(self) -> str:
        """The text that ends a reply, and is learnt; empty for none."""
        return self.decode(self._ending) if self._ending else ""

    def _encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def _read_template(self, template: str | None) -> str | None:
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

    def _knows(self, one: ThinkingFormat) -> bool:
        """Tell whether the vocabulary holds the format's tokens, or the template its marks."""
        vocabulary = self._tokenizer.get_vocab()
        if all(token in vocabulary for token in one.tokens):
            return True
        template = self._template or getattr(self._tokenizer, "chat_template", None)
        return isinstance(template, str) and all(token in template for token in one.tokens)

    # ---- what the template does with a conversation

    def _shaped(self, messages: Messages) -> list[dict[str, Any]]:
        """Return the conversation as the template takes it."""
        shaped: list[dict[str, Any]] = [dict(message) for message in messages]
        if self._folds and len(shaped) > 1 and shaped[0]["role"] == "system":
            rules = shaped.pop(0)["content"]
            shaped[0]["content"] = f"{rules}\n\n{shaped[0]['content']}"
        if self._lists:
            for message in shaped:
                message["content"] = [{"type": "text", "text": message["content"]}]
        return shaped

    def _render(self, messages: Messages, *, add_generation_prompt: bool = True) -> str:
        options: dict[str, Any] = {"add_generation_prompt": add_generation_prompt, **self._options}
        if self._template is not None:
            options["chat_template"] = self._template
        if self._template is PLAIN_TEMPLATE:
            options["bos"] = self._text_start()
            options["eos_token"] = self._tokenizer.eos_token or ""
        return str(self._tokenizer.apply_chat_template(self._shaped(messages), tokenize=False, **options))

    def _render_tokens(self, messages: Messages) -> list[int]:
        return list(
            self._tokenizer.apply_chat_template(
                self._shaped(messages), tokenize=True, return_dict=False, **self._options
            )
        )

    def _text_start(self) -> str:
        """Return the beginning-of-text token where the tokenizer puts one before a text, else nothing."""
        start = getattr(self._tokenizer, "bos_token_id", None)
        written = list(self._tokenizer.encode("a"))[:1]
        return str(self._tokenizer.bos_token) if start is not None and written == [start] else ""

    def _choose_shape(self) -> None:
        """Find how the template takes a conversation whole; raises ConfigError where it takes none so."""
        faults = []
        for self._folds in (False, True):
            for self._lists in (False, True):
                fault = self._fault()
                if fault is None:
                    if self._folds:
                        logger.warning(
                            "the chat template of %s takes no system message; it goes in front of the question",
                            self._name,
                        )
                    return
                faults.append(fault)
        raise ConfigError(
            f"the chat template of {self._name!r} builds no whole prompt: {faults[0]}; "
            "set chat_template to the path of another one, or to `plain` for a base model"
        )

    def _fault(self) -> str | None:
        """Return what is wrong with the prompt of the probe, None for nothing."""
        probe = build_messages(PROBE_SYSTEM, PROBE_QUESTION)
        try:
            text = self.decode(self._render_tokens(probe)) if self._formats_itself else self._render(probe)
        except Exception as error:  # templates raise what they like, and Jinja what it finds
            return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        for part, what in ((PROBE_SYSTEM, "the system prompt"), (PROBE_QUESTION, "the question")):
            times = text.count(part)
            if times != 1:
                return f"it loses {what}" if times == 0 else f"it writes {what} {times} times"
        return None if self._formats_itself else self._fault_of_beginning(text)

    def _fault_of_beginning(self, text: str) -> str | None:
        """Return what is wrong where `add_generation_prompt` changes nothing, though replies begin with a header."""
        try:
            asked = build_messages(PROBE_SYSTEM, PROBE_QUESTION)
            ended = self._render(asked, add_generation_prompt=False)
            turn = (*asked, {"role": "assistant", "content": PROBE_REPLY})
            before, found, _ = self._render(turn, add_generation_prompt=False).partition(PROBE_REPLY)
        except Exception:  # some templates take no replies; what they do with questions is known
            return None
        if not found or text != ended or not before.startswith(text):
            return None
        header = before.removeprefix(text)
        special = set(self._tokenizer.all_special_ids)
        if any(token in special for token in self._encode(header)):
            return f"it ends before {header!r}, with which a reply begins (it ignores add_generation_prompt)"
        return None

    def _find_ending(self) -> list[int]:
        """Return the tokens that the chat template puts after a reply, or the tokenizer's end-of-text token.

        Where nothing stands after a last reply, the token with which the next turn begins ends it, as GLM's models do.

        Several special tokens in a row count up to the end-of-text token, if that is among them, and else the first.
        """
        end = self._tokenizer.eos_token_id
        fallback = [] if end is None else [int(end)]
        if self._formats_itself:
            return fallback
        turn = ({"role": "user", "content": PROBE_QUESTION}, {"role": "assistant", "content": PROBE_REPLY})
        try:
            tail = self._render(turn, add_generation_prompt=False).rpartition(PROBE_REPLY)[2]
            if not tail.strip():
                next_turn = self._render((*turn, turn[0]), add_generation_prompt=False)
                tail = next_turn.rpartition(PROBE_REPLY)[2].lstrip()
        except Exception:  # some templates take no replies
            return fallback
        special = set(self._tokenizer.all_special_ids)
        run: list[int] = []
        for token in self._encode(tail):
            if token not in special:
                break
            run.append(token)
        if end in run:
            return run[: run.index(end) + 1]
        return run[:1] or fallback


def _formats_chats(tokenizer: Any) -> bool:
    """Tell whether a tokenizer without a template formats chats all the same, as Mistral's own do."""
    try:
        tokens = tokenizer.apply_chat_template([{"role": "user", "content": PROBE_QUESTION}], tokenize=True)
    except Exception:  # transformers' and others' ways to say that there is no template
        return False
    return bool(tokens)
