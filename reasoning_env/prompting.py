"""Build prompts: default system message, conversation of a problem, its text and tokens by a chat template."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from .chat_templates import (
    PLAIN_TEMPLATE,
    choose_shape,
    find_ending,
    formats_chats,
    knows,
    read_template,
    render_tokens,
    text_of,
    text_start,
)
from .errors import ConfigError
from .records import Prompt
from .settings import NATIVE_SYSTEM_PROMPT, SYSTEM_PROMPT
from .thinking import Thinking, choose_thinking

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
        self.tokenizer = tokenizer
        self._decodes_aside = _decodes_aside(tokenizer)
        self.name = name
        self.options = dict(template_options or {})
        self.template = read_template(template)
        self.lists = False
        self.folds = False
        # Mistral's own tokenizers write special tokens themselves: their text would not be read back as such.
        self.formats_itself = self.template is None and not getattr(tokenizer, "chat_template", None)
        if self.formats_itself and not formats_chats(tokenizer):
            raise ConfigError(
                f"tokenizer_name: {name!r} has no chat template, so no prompt can be built; use the tokenizer of an "
                "instruct or chat model, or, for a base model, set chat_template to `plain` or to the path of a "
                "template"
            )
        choose_shape(self)
        self._ending = find_ending(self)
        self.thinking = choose_thinking(thinking, partial(knows, self))
        vocabulary = tokenizer.get_vocab()
        self.vocabulary_size = 1 + max(vocabulary.values())
        special = set(tokenizer.all_special_ids)
        marks = {
            token: vocabulary.get(token)
            for thinking_format in self.thinking.formats
            for token in thinking_format.tokens
        }
        self._hidden_marks = {token_id: token for token, token_id in marks.items() if token_id in special}

    def prompt(self, messages: Messages) -> Prompt:
        """Render the conversation up to the point where the model's turn begins."""
        tokens = render_tokens(self, messages) if self.formats_itself else None
        text = self.render(messages) if tokens is None else text_of(self, tokens)
        # The chat template writes the beginning-of-text token itself where the model has one.
        return Prompt(tuple(messages), text, tuple(self.encode(text) if tokens is None else tokens))

    def completion_tokens(self, text: str, *, finished: bool) -> list[int]:
        """Return the token ids of a completion's text; a finished one ends with the end-of-turn token.

        Servers that answer in text leave that token out, but the model produced it and must learn to.
        """
        tokens = self.encode(text)
        ending = self._ending
        if finished and ending:
            # A server may have left a part of the ending in the text.
            there = next(size for size in range(len(ending), -1, -1) if tokens[len(tokens) - size :] == ending[:size])
            if not tokens or tokens[-1] != ending[-1]:
                tokens += ending[there:]
        return tokens

    def count_tokens(self, text: str) -> int:
        return len(self.encode(text))

    @property
    def hides_thinking(self) -> bool:
        """Whether decoding without special tokens would lose what tells thinking from answer."""
        return bool(self._hidden_marks)

    def completion_text(self, tokens: Sequence[int] | NDArray[Any]) -> str:
        """Return what a completion's tokens say, without special tokens other than marks of thinking."""
        if not self._hidden_marks:
            return self._decode_plainly(tokens)
        parts: list[str] = []
        start = 0
        for position, token in enumerate(tokens):
            if token in self._hidden_marks:
                parts += [self._decode_plainly(tokens[start:position]), self._hidden_marks[token]]
                start = position + 1
        return "".join([*parts, self._decode_plainly(tokens[start:])])

    def _decode_plainly(self, tokens: Sequence[int] | NDArray[Any]) -> str:
        return self.decode(tokens, skip_special_tokens=True) if len(tokens) else ""

    def strip_end_of_turn(self, text: str) -> str:
        """Return the text without the end-of-turn marker that some servers leave at its end."""
        for start in range(len(self._ending)):
            ending = self.decode(self._ending[start:])
            if text.endswith(ending):
                return text.removesuffix(ending)
        return text

    def decode(self, tokens: Sequence[int] | NDArray[Any], *, skip_special_tokens: bool = False) -> str:
        if self._decodes_aside:
            batch = [tokens.tolist() if hasattr(tokens, "tolist") else list(tokens)]
            decode_batch = self.tokenizer.backend_tokenizer.decode_batch
            return str(decode_batch(batch, skip_special_tokens=skip_special_tokens)[0])
        # numpy's arrays as they are: of a list, transformers looks at the type of each token.
        ids = tokens if hasattr(tokens, "dtype") else list(tokens)
        return str(self.tokenizer.decode(ids, skip_special_tokens=skip_special_tokens))

    @property
    def end_of_turn(self) -> str:
        """The text that ends a reply, and is learnt; empty for none."""
        return self.decode(self._ending) if self._ending else ""

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    # ---- what the template does with a conversation

    def shaped(self, messages: Messages) -> list[dict[str, Any]]:
        """Return the conversation as the template takes it."""
        shaped: list[dict[str, Any]] = [dict(message) for message in messages]
        if self.folds and len(shaped) > 1 and shaped[0]["role"] == "system":
            rules = shaped.pop(0)["content"]
            shaped[0]["content"] = f"{rules}\n\n{shaped[0]['content']}"
        if self.lists:
            for message in shaped:
                message["content"] = [{"type": "text", "text": message["content"]}]
        return shaped

    def render(self, messages: Messages, *, add_generation_prompt: bool = True) -> str:
        options: dict[str, Any] = {"add_generation_prompt": add_generation_prompt, **self.options}
        if self.template is not None:
            options["chat_template"] = self.template
        if self.template is PLAIN_TEMPLATE:
            options["bos"] = text_start(self.tokenizer)
            options["eos_token"] = self.tokenizer.eos_token or ""
        return str(self.tokenizer.apply_chat_template(self.shaped(messages), tokenize=False, **options))


def _decodes_aside(tokenizer: Any) -> bool:
    """Tell whether `decode` of one of transformers' tokenizers is its backend's alone.

    The backend's `decode_batch` leaves the interpreter to other threads, and `decode` does not: it holds the event loop
    for 5 ms where a completion has 32,000 tokens.
    """
    transformers = sys.modules.get("transformers")
    if transformers is None or not isinstance(tokenizer, transformers.PreTrainedTokenizerFast):
        return False
    own, usual = type(tokenizer), transformers.PreTrainedTokenizerFast
    if own.decode is not usual.decode or own._decode is not usual._decode:
        return False
    cleans_bpe = getattr(tokenizer, "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output", True)
    is_bpe = type(tokenizer.backend_tokenizer.model).__name__ == "BPE"
    return not tokenizer.clean_up_tokenization_spaces or (is_bpe and not cleans_bpe)
