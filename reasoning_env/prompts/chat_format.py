"""Build prompts from conversations, and convert completions between tokens and text, with one tokenizer."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from ..records import Prompt
from .chat_templates import PROBE_QUESTION, Tokenizer, probe_template
from .messages import Messages
from .thinking import AUTO_FORMAT, choose_thinking

if TYPE_CHECKING:
    from numpy.typing import NDArray

Tokens: TypeAlias = "Sequence[int] | NDArray[Any]"

PROBES = (PROBE_QUESTION, " 1 + 1 ", "\n\n\u0301x\n", "É\u2581日本")
"""Test questions with various first and last characters, to check that a prompt can be encoded in two parts."""
MAX_STARTS = 8
"""Limit for the number of cached prompt beginnings. Training and evaluation need one beginning each."""


@dataclass(frozen=True)
class _Start:
    """The common beginning of prompts with the same system prompt; empty if it cannot be encoded on its own."""

    text: str = ""
    tokens: tuple[int, ...] = ()


class ChatFormat:
    """The chat format of one model: how a conversation becomes a prompt, and how a completion's tokens become text.

    - `name`: the name of the tokenizer, for errors and warnings.
    - `template`: `plain` or the path of a Jinja file; None for the tokenizer's own template.
    - `template_options`: variables for the template.
    - `thinking`: the setting `thinking`.

    Raises ConfigError if the template cannot format a test conversation.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        name: str,
        *,
        template: str | None = None,
        template_options: Mapping[str, object] | None = None,
        thinking: str = AUTO_FORMAT,
    ) -> None:
        probed = probe_template(tokenizer, name, template, template_options or {})
        vocabulary = tokenizer.get_vocab()
        special = set(tokenizer.all_special_ids)
        self.name = name
        self.thinking = choose_thinking(thinking, probed.thinking_formats)
        self.vocabulary_size = 1 + max(vocabulary.values())
        self._tokenizer = tokenizer
        self._layout = probed.layout
        self._ending = list(probed.ending)
        self._uses_backend = _decodes_like_backend(tokenizer)
        self._encodes_by_backend = _encodes_like_backend(tokenizer)
        self._starts: dict[tuple[str, ...], _Start] = {}
        self._special_marks = {
            vocabulary[token]: token
            for thinking_format in self.thinking.formats
            for token in thinking_format.tokens
            if vocabulary.get(token) in special
        }
        """Maps token ids to marks, for all thinking marks that are special tokens."""

    # ---- prompts

    def prompt(self, messages: Messages) -> Prompt:
        """Return the prompt: the conversation up to the point where the reply begins."""
        if self._layout.formats_itself:
            tokens = self._layout.render_tokens(messages)
            return Prompt(tuple(messages), self._layout.text_of(tokens), tuple(tokens))
        text = self._layout.render(messages)
        start = self._start(messages)
        if start.text and text.startswith(start.text):
            return Prompt(tuple(messages), text, (*start.tokens, *self.encode(text.removeprefix(start.text))))
        # No special tokens are added, because the chat template writes the beginning-of-text token if there is one.
        return Prompt(tuple(messages), text, tuple(self.encode(text)))

    def _start(self, messages: Messages) -> _Start:
        """Return the beginning of the prompt that is the same for every question."""
        before = tuple(message["content"] for message in messages[:-1])
        start = self._starts.get(before)
        if start is None:
            start = self._find_start(messages) if before and self._encodes_by_backend else _Start()
            if len(self._starts) < MAX_STARTS:
                self._starts[before] = start
        return start

    def _find_start(self, messages: Messages) -> _Start:
        """Return the constant beginning of prompts, up to its last special token."""
        *before, question = messages
        prompts = [self._layout.render([*before, {**question, "content": probe}]) for probe in PROBES]
        constant = prompts[0].partition(PROBE_QUESTION)[0]
        added: Any = self._tokenizer.backend_tokenizer.get_added_tokens_decoder()  # type: ignore[attr-defined]
        # Skip special tokens that absorb spaces, or that match only in normalized text.
        marks = [token.content for token in added.values() if token.special and not (token.lstrip or token.normalized)]
        # Tokenizers split a text at special tokens first, so this part has the same tokens if it is encoded alone.
        text = constant[: max([0, *map(constant.rfind, marks)])]
        tokens = self.encode(text)
        # Verify this, because a tokenizer may treat the beginning of a text differently.
        for prompt in prompts:
            if [*tokens, *self.encode(prompt.removeprefix(text))] != list(self._encode_with_tokenizer(prompt)):
                return _Start()
        return _Start(text, tuple(tokens))

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text, without adding special tokens."""
        if self._encodes_by_backend:
            # `encode_batch_fast` takes half of the time of transformers' `encode`.
            tokenizer: Any = self._tokenizer
            backend = tokenizer.backend_tokenizer
            # Check this, because other code that shares the tokenizer may have set truncation or padding.
            is_plain = backend.truncation is None and backend.padding is None
            if is_plain and backend.encode_special_tokens == tokenizer.split_special_tokens:
                ids: list[int] = backend.encode_batch_fast([text], add_special_tokens=False)[0].ids
                return ids
        return list(self._encode_with_tokenizer(text))

    def _encode_with_tokenizer(self, text: str) -> Sequence[int]:
        return self._tokenizer.encode(text, add_special_tokens=False)

    def count_tokens(self, text: str) -> int:
        return len(self.encode(text))

    # ---- completions

    @property
    def end_of_turn(self) -> str:
        """The string that a model writes at the end of a reply; "" if the template has none."""
        return self.decode(self._ending) if self._ending else ""

    @property
    def hides_thinking(self) -> bool:
        """True if decoding without special tokens would lose the marks between thinking and answer."""
        return bool(self._special_marks)

    def completion_tokens(self, text: str, *, finished: bool) -> list[int]:
        """Return the tokens of a completion's text. A finished completion ends with the end-of-turn tokens."""
        tokens = self.encode(text)
        ending = self._ending
        if finished and ending:
            # Servers that reply with text leave out the end-of-turn tokens, but a model must learn them.
            # Some servers leave the first tokens of the ending in the text.
            there = next(size for size in range(len(ending), -1, -1) if tokens[len(tokens) - size :] == ending[:size])
            if not tokens or tokens[-1] != ending[-1]:
                tokens += ending[there:]
        return tokens

    def completion_text(self, tokens: Tokens) -> str:
        """Return the text of a completion's tokens. Special tokens are removed, except marks of thinking."""
        if not self._special_marks:
            return self._decode_with_tokenizer(tokens)
        parts: list[str] = []
        start = 0
        for position, token in enumerate(tokens):
            if token in self._special_marks:
                parts.append(self._decode_with_tokenizer(tokens[start:position]))
                parts.append(self._special_marks[token])
                start = position + 1
        parts.append(self._decode_with_tokenizer(tokens[start:]))
        return "".join(parts)

    def strip_end_of_turn(self, text: str) -> str:
        """Return the text without the end-of-turn tokens that some servers leave at its end."""
        for start in range(len(self._ending)):
            ending = self.decode(self._ending[start:])
            if text.endswith(ending):
                return text.removesuffix(ending)
        return text

    def decode(self, tokens: Tokens, *, skip_special_tokens: bool = False) -> str:
        """Return the text of tokens."""
        if self._uses_backend:
            # `decode_batch` releases the interpreter lock; for 32,000 tokens, `decode` blocks the event loop for 5 ms.
            batch = [tokens.tolist() if hasattr(tokens, "tolist") else list(tokens)]
            backend: Any = self._tokenizer.backend_tokenizer  # type: ignore[attr-defined]
            return str(backend.decode_batch(batch, skip_special_tokens=skip_special_tokens)[0])
        # Pass numpy's arrays as they are: transformers checks the type of each token of a list.
        ids = tokens if hasattr(tokens, "dtype") else list(tokens)
        return str(self._tokenizer.decode(ids, skip_special_tokens=skip_special_tokens))

    def _decode_with_tokenizer(self, tokens: Tokens) -> str:
        return self.decode(tokens, skip_special_tokens=True) if len(tokens) else ""


def _decodes_like_backend(tokenizer: Any) -> bool:
    """Return True if a tokenizer of transformers decodes exactly as its backend does."""
    if not _has_usual_methods(tokenizer, "decode", "_decode"):
        return False
    cleans_bpe = getattr(tokenizer, "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output", True)
    is_bpe = type(tokenizer.backend_tokenizer.model).__name__ == "BPE"
    return not tokenizer.clean_up_tokenization_spaces or (is_bpe and not cleans_bpe)


def _encodes_like_backend(tokenizer: object) -> bool:
    """Return True if a tokenizer of transformers encodes exactly as its backend does."""
    return _has_usual_methods(tokenizer, "encode", "_encode_plus", "set_truncation_and_padding")


def _has_usual_methods(tokenizer: object, *names: str) -> bool:
    """Return True if a tokenizer inherits all methods in `names` unchanged from PreTrainedTokenizerFast."""
    transformers = sys.modules.get("transformers")
    if transformers is None or not isinstance(tokenizer, transformers.PreTrainedTokenizerFast):
        return False
    usual = transformers.PreTrainedTokenizerFast
    return all(getattr(type(tokenizer), name) is getattr(usual, name, None) for name in names)
