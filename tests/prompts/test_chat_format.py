from __future__ import annotations

from array import array
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reasoning_env.prompts.chat_format import ChatFormat
from reasoning_env.prompts.messages import build_messages
from tests.chat_templates import CHATML, small_tokenizer, tokenizer_with

MESSAGES = build_messages("Think.", "What is 1 + 1?")
END = "<|im_end|>"


@pytest.fixture(scope="module")
def end(tokenizer: Any) -> int:
    return int(tokenizer.convert_tokens_to_ids(END))


# ---------------------------------------------------------------------------- prompts


def test_prompt_ends_where_the_reply_begins(chat: ChatFormat) -> None:
    prompt = chat.prompt(MESSAGES)
    assert prompt.messages == MESSAGES
    assert prompt.text == (
        "<|im_start|>system\nThink.<|im_end|>\n<|im_start|>user\nWhat is 1 + 1?<|im_end|>\n<|im_start|>assistant\n"
    )


def test_encoding_the_prompt_text_gives_the_prompt_tokens(chat: ChatFormat, tokenizer: Any) -> None:
    prompt = chat.prompt(MESSAGES)
    assert prompt.tokens == tuple(tokenizer.encode(prompt.text, add_special_tokens=False))
    assert chat.decode(prompt.tokens) == prompt.text


def test_tokenizer_that_formats_chats_without_a_template_is_supported(tokenizer: Any) -> None:
    class Own(type(tokenizer)):  # type: ignore[misc]
        """A tokenizer that formats chats without a template, as Mistral's own tokenizers do."""

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


@pytest.fixture(params=["byte_level", "byte_level_prefix", "first", "always", "never", "prepend", "lower"])
def other(request: pytest.FixtureRequest) -> Any:
    """A small tokenizer of a different kind, named by how it treats the beginning of a string."""
    return small_tokenizer(request.param)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(question=st.lists(st.sampled_from([*"aé 1\n▁日\u0301", END]), max_size=20).map("".join))
def test_prompt_tokens_equal_the_encoded_prompt_text_for_each_tokenizer_type(other: Any, question: str) -> None:
    chat = ChatFormat(other, "other")
    for system in ("Think.", " ▁É\n"):
        prompt = chat.prompt(build_messages(system, question))
        assert list(prompt.tokens) == other.encode(prompt.text, add_special_tokens=False)


def test_prompt_is_encoded_correctly_if_the_template_inserts_the_time(tokenizer: Any) -> None:
    """A template may insert the time, so a later prompt may begin differently."""
    own = tokenizer_with(tokenizer, "{{ strftime_now('%f') }}" + CHATML)
    chat = ChatFormat(own, "own")
    for _ in range(2):
        prompt = chat.prompt(MESSAGES)
        assert list(prompt.tokens) == own.encode(prompt.text, add_special_tokens=False)


def test_encode_method_of_a_tokenizer_subclass_is_called(tokenizer: Any) -> None:
    class Own(type(tokenizer)):  # type: ignore[misc]
        def encode(self, *args: Any, **kwargs: Any) -> list[int]:
            return [0, *super().encode(*args, **kwargs)]

    own = deepcopy(tokenizer)
    own.__class__ = Own
    assert ChatFormat(own, "own").encode("2") == own.encode("2", add_special_tokens=False)


@pytest.mark.parametrize("leave", ["enable_truncation", "enable_padding"])
def test_truncation_or_padding_set_on_the_tokenizer_is_ignored(tokenizer: Any, leave: str) -> None:
    """Other code may share the tokenizer and may have switched on truncation or padding."""
    shared = deepcopy(tokenizer)
    getattr(shared.backend_tokenizer, leave)(**{"enable_truncation": {"max_length": 2}}.get(leave, {"length": 9}))
    assert ChatFormat(shared, "shared").encode("one two three") == tokenizer.encode("one two three")


# ---------------------------------------------------------------------------- completions


@pytest.mark.parametrize(("text", "finished"), [("It is 2.", True), ("", True), ("It is", False), ("", False)])
def test_finished_completion_gets_end_of_turn_tokens(
    chat: ChatFormat, tokenizer: Any, end: int, text: str, finished: bool
) -> None:
    tokens = tokenizer.encode(text, add_special_tokens=False)
    ending = [end] if finished else []
    assert chat.completion_tokens(text, finished=finished) == [*tokens, *ending]


@pytest.mark.parametrize("text", ["It is 2.", ""])
def test_end_of_turn_token_at_the_end_of_a_text_is_not_added_twice(
    chat: ChatFormat, tokenizer: Any, end: int, text: str
) -> None:
    tokens = tokenizer.encode(text, add_special_tokens=False)
    assert chat.completion_tokens(f"{text}{END}", finished=True) == [*tokens, end]


@pytest.mark.parametrize(("text", "stripped"), [(f"2{END}", "2"), ("2", "2"), (f"{END}2", f"{END}2"), (END, "")])
def test_end_of_turn_is_stripped_from_completion_text(chat: ChatFormat, text: str, stripped: str) -> None:
    assert chat.strip_end_of_turn(text) == stripped


@given(st.text(max_size=40))
def test_completion_text_round_trips_through_tokens(chat: ChatFormat, text: str) -> None:
    assert chat.decode(chat.completion_tokens(text, finished=False)) == text


@pytest.mark.parametrize("marks", [("[THINK]", "[/THINK]"), ("◁think▷", "◁/think▷")])
def test_thinking_marks_are_kept_in_decoded_text(tokenizer: Any, marks: tuple[str, str]) -> None:
    chat = ChatFormat(tokenizer_with(tokenizer, CHATML, more=marks), "native")
    text = f"{marks[0]}hm{marks[1]}5"
    assert chat.completion_text(chat.completion_tokens(text, finished=True)) == text
    assert chat.hides_thinking


# ---------------------------------------------------------------------------- decoding


@pytest.mark.parametrize("skip_special_tokens", [True, False])
@given(tokens=st.lists(st.integers(0, 300), max_size=40))
def test_decoded_text_equals_the_text_that_transformers_decodes(
    chat: ChatFormat, tokenizer: Any, tokens: list[int], skip_special_tokens: bool
) -> None:
    expected = tokenizer.decode(tokens, skip_special_tokens=skip_special_tokens)
    assert chat.decode(tokens, skip_special_tokens=skip_special_tokens) == expected
    assert chat.decode(array("i", tokens), skip_special_tokens=skip_special_tokens) == expected


def test_decode_method_of_a_tokenizer_subclass_is_called(tokenizer: Any) -> None:
    class Own(type(tokenizer)):  # type: ignore[misc]
        def _decode(self, *args: Any, **kwargs: Any) -> str:
            return f"own {super()._decode(*args, **kwargs)}"

    own = deepcopy(tokenizer)
    own.__class__ = Own
    chat = ChatFormat(own, "own")
    assert chat.decode(chat.encode("2")) == "own 2"


def test_space_cleanup_option_of_a_tokenizer_is_respected(tokenizer: Any) -> None:
    cleaning = deepcopy(tokenizer)
    cleaning.clean_up_tokenization_spaces = True
    cleaning.clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output = True
    chat = ChatFormat(cleaning, "cleaning")
    assert chat.decode(chat.encode("no , it is")) == "no, it is"
