from __future__ import annotations

from array import array
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning_env.prompts.chat_format import ChatFormat
from reasoning_env.prompts.messages import build_messages
from tests.chat_templates import CHATML, tokenizer_with

MESSAGES = build_messages("Think.", "What is 1 + 1?")
END = "<|im_end|>"


@pytest.fixture(scope="module")
def end(tokenizer: Any) -> int:
    return int(tokenizer.convert_tokens_to_ids(END))


# ---------------------------------------------------------------------------- prompts


def test_prompt_text(chat: ChatFormat) -> None:
    prompt = chat.prompt(MESSAGES)
    assert prompt.messages == MESSAGES
    assert prompt.text == (
        "<|im_start|>system\nThink.<|im_end|>\n<|im_start|>user\nWhat is 1 + 1?<|im_end|>\n<|im_start|>assistant\n"
    )


def test_prompt_tokens(chat: ChatFormat, tokenizer: Any) -> None:
    prompt = chat.prompt(MESSAGES)
    assert prompt.tokens == tuple(tokenizer.encode(prompt.text, add_special_tokens=False))
    assert chat.decode(prompt.tokens) == prompt.text


def test_tokenizer_that_formats_itself(tokenizer: Any) -> None:
    class Own(type(tokenizer)):  # type: ignore[misc]
        """Lays out chats without a template, as Mistral's own tokenizers do."""

        def apply_chat_template(self, conversation: Any, **options: Any) -> list[int]:
            assert options.pop("tokenize")
            text = "".join(f"<|im_start|>{message['content']}" for message in conversation)
            return list(self.encode(text, add_special_tokens=False))

    own = deepcopy(tokenizer)
    own.__class__ = Own
    own.chat_template = None
    chat = ChatFormat(own, "own")
    prompt = chat.prompt(MESSAGES)
    assert prompt.text == "<|im_start|>Think.<|im_start|>What is 1 + 1?"
    assert prompt.tokens == tuple(own.encode(prompt.text, add_special_tokens=False))
    assert chat.end_of_turn == own.eos_token


# ---------------------------------------------------------------------------- completions


@pytest.mark.parametrize(("text", "finished"), [("It is 2.", True), ("", True), ("It is", False), ("", False)])
def test_end_of_finished_completion(chat: ChatFormat, tokenizer: Any, end: int, text: str, finished: bool) -> None:
    tokens = tokenizer.encode(text, add_special_tokens=False)
    ending = [end] if finished else []
    assert chat.completion_tokens(text, finished=finished) == [*tokens, *ending]


@pytest.mark.parametrize("text", ["It is 2.", ""])
def test_end_that_server_left(chat: ChatFormat, tokenizer: Any, end: int, text: str) -> None:
    tokens = tokenizer.encode(text, add_special_tokens=False)
    assert chat.completion_tokens(f"{text}{END}", finished=True) == [*tokens, end]


@pytest.mark.parametrize(("text", "stripped"), [(f"2{END}", "2"), ("2", "2"), (f"{END}2", f"{END}2"), (END, "")])
def test_strip_end_of_turn(chat: ChatFormat, text: str, stripped: str) -> None:
    assert chat.strip_end_of_turn(text) == stripped


@given(st.text(max_size=40))
def test_completion_round_trip(chat: ChatFormat, text: str) -> None:
    assert chat.decode(chat.completion_tokens(text, finished=False)) == text


@pytest.mark.parametrize("marks", [("[THINK]", "[/THINK]"), ("◁think▷", "◁/think▷")])
def test_marks_of_thinking_are_kept(tokenizer: Any, marks: tuple[str, str]) -> None:
    chat = ChatFormat(tokenizer_with(tokenizer, CHATML, more=marks), "native")
    text = f"{marks[0]}hm{marks[1]}5"
    assert chat.completion_text(chat.completion_tokens(text, finished=True)) == text
    assert chat.hides_thinking


# ---------------------------------------------------------------------------- decoding


@pytest.mark.parametrize("skip_special_tokens", [True, False])
@given(tokens=st.lists(st.integers(0, 300), max_size=40))
def test_decoded_like_transformers(
    chat: ChatFormat, tokenizer: Any, tokens: list[int], skip_special_tokens: bool
) -> None:
    expected = tokenizer.decode(tokens, skip_special_tokens=skip_special_tokens)
    assert chat.decode(tokens, skip_special_tokens=skip_special_tokens) == expected
    assert chat.decode(array("i", tokens), skip_special_tokens=skip_special_tokens) == expected


def test_tokenizer_with_own_decode(tokenizer: Any) -> None:
    class Own(type(tokenizer)):  # type: ignore[misc]
        def _decode(self, *args: Any, **kwargs: Any) -> str:
            return f"own {super()._decode(*args, **kwargs)}"

    own = deepcopy(tokenizer)
    own.__class__ = Own
    chat = ChatFormat(own, "own")
    assert chat.decode(chat.encode("2")) == "own 2"


def test_tokenizer_that_cleans_blanks(tokenizer: Any) -> None:
    cleaning = deepcopy(tokenizer)
    cleaning.clean_up_tokenization_spaces = True
    cleaning.clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output = True
    chat = ChatFormat(cleaning, "cleaning")
    assert chat.decode(chat.encode("no , it is")) == "no, it is"


def test_backend_decodes(chat: ChatFormat, tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tokenizer's own `decode` would hold the interpreter's lock."""
    monkeypatch.setattr(type(tokenizer), "decode", None)
    assert chat.decode(chat.encode("It is 2.")) == "It is 2."
