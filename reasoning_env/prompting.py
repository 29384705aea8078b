"""Build prompts: default system message, conversation of a problem, its text by a chat template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .errors import ConfigError
from .records import Prompt

PROBE = "probe-reply"
"""A reply to render, to see what the chat template puts after it."""


def build_messages(system_prompt: str, question: str) -> tuple[Mapping[str, str], ...]:
    """Return the conversation up to the model's turn; a blank system prompt is left out."""
    user = {"role": "user", "content": question}
    if not system_prompt.strip():
        return (user,)
    return ({"role": "system", "content": system_prompt}, user)


class ChatFormat:
    """The chat format of a tokenizer. Construction raises ConfigError without a chat template."""

    def __init__(self, tokenizer: Any, name: str) -> None:
        if not getattr(tokenizer, "chat_template", None):
            raise ConfigError(
                f"tokenizer_name: {name!r} has no chat template, so no prompt can be built; "
                "use the tokenizer of an instruct or chat model"
            )
        self._tokenizer = tokenizer
        self._end_of_turn = self._find_end_of_turn()

    def prompt(self, messages: Sequence[Mapping[str, str]]) -> Prompt:
        """Render the conversation up to the point where the model's turn begins."""
        text = self._render(messages, add_generation_prompt=True)
        # The chat template writes the beginning-of-text token itself where the model has one.
        tokens = self._tokenizer.encode(text, add_special_tokens=False)
        return Prompt(tuple(messages), text, tuple(tokens))

    def completion_tokens(self, text: str, *, finished: bool) -> list[int]:
        """Return the token ids of a completion's text; a finished one ends with the end-of-turn token.

        Servers that answer in text leave that token out, but the model produced it and must learn to.
        """
        tokens: list[int] = list(self._tokenizer.encode(text, add_special_tokens=False))
        end = self._end_of_turn
        if finished and end is not None and (not tokens or tokens[-1] != end):
            tokens.append(end)
        return tokens

    def strip_end_of_turn(self, text: str) -> str:
        """Return the text without the end-of-turn marker that some servers leave at its end."""
        return text if self._end_of_turn is None else text.removesuffix(self.decode([self._end_of_turn]))

    def decode(self, tokens: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(tokens)))

    def _render(self, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool) -> str:
        conversation, options = list(map(dict, messages)), {"add_generation_prompt": add_generation_prompt}
        return str(self._tokenizer.apply_chat_template(conversation, tokenize=False, **options))

    def _find_end_of_turn(self) -> int | None:
        """Return the token that the chat template puts after a reply, or the tokenizer's end-of-text token."""
        turn = [{"role": "user", "content": "probe"}, {"role": "assistant", "content": PROBE}]
        _, found, tail = self._render(turn, add_generation_prompt=False).rpartition(PROBE)
        tokens = self._tokenizer.encode(tail, add_special_tokens=False) if found and tail else []
        special = set(self._tokenizer.all_special_ids)
        following = tokens[0] if tokens and tokens[0] in special else self._tokenizer.eos_token_id
        return None if following is None else int(following)
