from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning_env.errors import ConfigError
from reasoning_env.prompting import ChatFormat, build_messages

MESSAGES = build_messages("Think.", "What is 1 + 1?")
END = "<|im_end|>"


@pytest.fixture(scope="module")
def chat(tokenizer: Any) -> ChatFormat:
    return ChatFormat(tokenizer, "demo")


def test_prompt_ends_where_the_models_turn_begins(chat: ChatFormat) -> None:
    assert chat.prompt(MESSAGES).text == (
        "<|im_start|>system\nThink.<|im_end|>\n<|im_start|>user\nWhat is 1 + 1?<|im_end|>\n<|im_start|>assistant\n"
    )


def test_prompt_tokens_are_those_of_its_text(chat: ChatFormat, tokenizer: Any) -> None:
    prompt = chat.prompt(MESSAGES)
    assert prompt.tokens == tuple(tokenizer.encode(prompt.text, add_special_tokens=False))
    assert chat.decode(prompt.tokens) == prompt.text


def test_prompt_keeps_its_messages(chat: ChatFormat) -> None:
    assert chat.prompt(MESSAGES).messages == MESSAGES


def test_finished_completion_ends_with_the_end_of_turn(chat: ChatFormat, tokenizer: Any) -> None:
    tokens = chat.completion_tokens("It is 2.", finished=True)
    assert tokens == [*tokenizer.encode("It is 2.", add_special_tokens=False), tokenizer.convert_tokens_to_ids(END)]


def test_end_of_turn_is_not_appended_twice(chat: ChatFormat) -> None:
    assert chat.completion_tokens(f"It is 2.{END}", finished=True) == chat.completion_tokens("It is 2.", finished=True)


def test_unfinished_completion_has_no_end_of_turn(chat: ChatFormat, tokenizer: Any) -> None:
    tokens = chat.completion_tokens("It is", finished=False)
    assert tokens == tokenizer.encode("It is", add_special_tokens=False)


def test_empty_completion_that_finished_is_the_end_of_turn(chat: ChatFormat, tokenizer: Any) -> None:
    assert chat.completion_tokens("", finished=True) == [tokenizer.convert_tokens_to_ids(END)]
    assert chat.completion_tokens("", finished=False) == []


@pytest.mark.parametrize(("text", "stripped"), [(f"2{END}", "2"), ("2", "2"), (f"{END}2", f"{END}2"), (END, "")])
def test_end_of_turn_marker_is_stripped_from_the_end_only(chat: ChatFormat, text: str, stripped: str) -> None:
    assert chat.strip_end_of_turn(text) == stripped


@given(st.text(max_size=40))
def test_prompt_and_completion_decode_to_what_they_were_made_of(chat: ChatFormat, text: str) -> None:
    completion = chat.completion_tokens(text, finished=False)
    assert chat.decode(completion) == text


class WordTokenizer:
    """One token a word; a fork server of its own, and an end-of-text token where the test gives one."""

    def __init__(self, chat_template: Any, reply_end: str, eos_token_id: int | None, special: list[int]) -> None:
        self.chat_template = chat_template
        self.eos_token_id = eos_token_id
        self.all_special_ids = special
        self._reply_end = reply_end

    def apply_chat_template(
        self, conversation: list[dict[str, str]], *, tokenize: bool, add_generation_prompt: bool
    ) -> str:
        assert not tokenize
        turns = [
            message["content"] + (self._reply_end if message["role"] == "assistant" else " ")
            for message in conversation
        ]
        return "".join(turns) + ("reply: " if add_generation_prompt else "")

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        assert not add_special_tokens
        return [len(word) for word in text.split()]

    def decode(self, tokens: list[int]) -> str:
        return " ".join("x" * token for token in tokens)


def test_template_that_ends_a_reply_with_plain_text_means_the_end_of_text_token() -> None:
    chat = ChatFormat(WordTokenizer("template", " bye", 50, [50]), "plain")
    assert chat.completion_tokens("one", finished=True) == [3, 50]


def test_template_that_ends_a_reply_with_a_special_token_means_that_one() -> None:
    chat = ChatFormat(WordTokenizer("template", " bye", 50, [50, 3]), "special")
    assert chat.completion_tokens("four", finished=True) == [4, 3]


def test_tokenizer_without_any_end_token_appends_and_strips_nothing() -> None:
    chat = ChatFormat(WordTokenizer("template", "", None, []), "endless")
    assert chat.completion_tokens("one", finished=True) == [3]
    assert chat.strip_end_of_turn("one") == "one"


@pytest.mark.parametrize("template", [None, ""])
def test_tokenizer_without_a_chat_template_is_refused(template: str | None) -> None:
    with pytest.raises(ConfigError, match=r"tokenizer_name: 'base-model' has no chat template.*instruct or chat model"):
        ChatFormat(WordTokenizer(template, "", None, []), "base-model")
