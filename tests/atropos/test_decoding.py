from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from reasoning_env.atropos.inference.decoding import fast_decode
from testing import TOKENIZER

BACKEND = Tokenizer.from_file(f"{TOKENIZER}/tokenizer.json")
BACKEND.add_tokens([AddedToken("<odd token \u00ff\u2028>", special=False)])
BYTE_LEVEL = PreTrainedTokenizerFast(tokenizer_object=BACKEND, clean_up_tokenization_spaces=False)
DECODE = fast_decode(BYTE_LEVEL)
NUMBERS = st.one_of(st.integers(0, 300), st.integers(0, BACKEND.get_vocab_size() + 50))
OF_TEXTS = st.text().map(lambda text: BACKEND.encode(text, add_special_tokens=False).ids)


@given(st.lists(NUMBERS, max_size=40) | OF_TEXTS, st.sampled_from([{}, {"skip_special_tokens": True}]))
def test_tokens_in_any_order_are_decoded_as_by_the_tokenizer(tokens: list[int], options: dict[str, bool]) -> None:
    assert DECODE(tokens, **options) == BYTE_LEVEL.decode(tokens, **options)


def other_decoder() -> Any:
    backend = Tokenizer(WordLevel({"a": 0, "##b": 1, "c": 2}, unk_token="c"))
    backend.decoder = decoders.WordPiece()
    return backend


@pytest.mark.parametrize("clean_up", [True, False])
def test_tokenizer_that_is_not_byte_level_decodes_itself(clean_up: bool) -> None:
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=other_decoder(), clean_up_tokenization_spaces=clean_up)
    assert fast_decode(tokenizer)([0, 1, 2], skip_special_tokens=True) == "ab c"
