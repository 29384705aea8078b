"""The tokenizer for tests, loaded by transformers, and its chat format."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reasoning_gym_testing.completions import format_chat

TAGGED = "<think>2 , 3 . don 't</think>\n<answer>x</answer>"
CONVERSATION = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is 12 * 3?\nQuick!"},
    {"role": "assistant", "content": TAGGED},
]


TEXTS = st.text() | st.text(alphabet=" \n\t<>/'.,!?0123456789abÄ🙂\u200b") | st.just(TAGGED)


@given(TEXTS)
def test_tokenizer_round_trips_text(tokenizer: Any, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_tokenizer_special_tokens_are_distinct(tokenizer: Any) -> None:
    assert tokenizer.eos_token == "<|im_end|>"
    assert tokenizer.pad_token_id not in (None, tokenizer.eos_token_id)


def test_tokenizer_has_no_length_limit(tokenizer: Any) -> None:
    assert tokenizer.model_max_length >= 100_000


def test_formatted_chat_equals_the_text_of_the_chat_template(tokenizer: Any) -> None:
    prompt = tokenizer.apply_chat_template(CONVERSATION[:2], tokenize=False, add_generation_prompt=True)
    assert format_chat(CONVERSATION[:2]) == prompt
    whole = tokenizer.apply_chat_template(CONVERSATION, tokenize=False)
    assert whole == f"{prompt}{TAGGED}<|im_end|>\n"
    ids = tokenizer.encode(prompt)
    assert tokenizer.encode(whole)[: len(ids)] == ids
