"""What a completion's tokens say, and which tokens its text has."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .thinking import TAGS, Thinking

if TYPE_CHECKING:
    from numpy.typing import NDArray


class CompletionFormat:
    """A tokenizer with what ends a completion, and with the formats in which the model thinks."""

    thinking: Thinking = TAGS

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.vocabulary_size = 0
        self._decodes_aside = _decodes_aside(tokenizer)
        self._ending: list[int] = []
        self._hidden_marks: dict[int, str] = {}

    def set_completions(self, ending: list[int], thinking: Thinking) -> None:
        """Set the tokens that end a completion and the formats of thinking, both of which the chat template tells."""
        self._ending = ending
        self.thinking = thinking
        vocabulary, special = self.tokenizer.get_vocab(), set(self.tokenizer.all_special_ids)
        self.vocabulary_size = 1 + max(vocabulary.values())
        marks = {
            token: vocabulary.get(token) for thinking_format in thinking.formats for token in thinking_format.tokens
        }
        self._hidden_marks = {token_id: token for token, token_id in marks.items() if token_id in special}

    def completion_tokens(self, text: str, *, finished: bool) -> list[int]:
        """Return the token ids of a completion's text; a finished one ends with the end-of-turn token.

        Servers that answer in text leave that token out, but the model produced it and must learn to.
        """
        tokens: list[int] = list(self.tokenizer.encode(text, add_special_tokens=False))
        ending = self._ending
        if finished and ending:
            # A server may have left a part of the ending in the text.
            there = next(size for size in range(len(ending), -1, -1) if tokens[len(tokens) - size :] == ending[:size])
            if not tokens or tokens[-1] != ending[-1]:
                tokens += ending[there:]
        return tokens

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
