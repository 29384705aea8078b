from __future__ import annotations

from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning_env.errors import ConfigError
from reasoning_env.prompting import ChatFormat, build_messages

MESSAGES = build_messages("Think.", "What is 1 + 1?")
END = "<|im_end|>"


@pytest.fixture(scope="module")
def end(tokenizer: Any) -> int:
    return int(tokenizer.convert_tokens_to_ids(END))


@pytest.mark.parametrize(
    ("system_prompt", "roles"), [("Think.", ["system", "user"]), ("", ["user"]), (" \n", ["user"])]
)
def test_blank_system_prompt_is_left_out(system_prompt: str, roles: list[str]) -> None:
    messages = build_messages(system_prompt, "1 + 1?")
    assert [message["role"] for message in messages] == roles
    assert [message["content"] for message in messages] == ["Think.", "1 + 1?"][-len(roles) :]


def test_prompt_ends_where_the_models_turn_begins_and_has_the_tokens_of_its_text(
    chat: ChatFormat, tokenizer: Any
) -> None:
    prompt = chat.prompt(MESSAGES)
    assert prompt.messages == MESSAGES
    assert prompt.text == (
        "<|im_start|>system\nThink.<|im_end|>\n<|im_start|>user\nWhat is 1 + 1?<|im_end|>\n<|im_start|>assistant\n"
    )
    assert prompt.tokens == tuple(tokenizer.encode(prompt.text, add_special_tokens=False))
    assert chat.decode(prompt.tokens) == prompt.text


@pytest.mark.parametrize(("text", "finished"), [("It is 2.", True), ("", True), ("It is", False), ("", False)])
def test_only_a_finished_completion_ends_with_the_end_of_turn(
    chat: ChatFormat, tokenizer: Any, end: int, text: str, finished: bool
) -> None:
    tokens = tokenizer.encode(text, add_special_tokens=False)
    assert chat.completion_tokens(text, finished=finished) == [*tokens, *[end] * finished]
    assert chat.completion_tokens(f"{text}{END}", finished=True) == [*tokens, end]


@pytest.mark.parametrize(("text", "stripped"), [(f"2{END}", "2"), ("2", "2"), (f"{END}2", f"{END}2"), (END, "")])
def test_end_of_turn_marker_is_stripped_from_the_end_only(chat: ChatFormat, text: str, stripped: str) -> None:
    assert chat.strip_end_of_turn(text) == stripped


@given(st.text(max_size=40))
def test_completion_decodes_to_what_it_was_made_of(chat: ChatFormat, text: str) -> None:
    assert chat.decode(chat.completion_tokens(text, finished=False)) == text


@pytest.mark.parametrize(
    ("reply_end", "eos_token", "ends"),
    [("bye", "<|im_start|>", "<|im_start|>"), ("<|pad|>", "<|im_start|>", "<|pad|>"), ("", None, "")],
    ids=["plain text means the end of text", "a special token means itself", "no end at all"],
)
def test_end_of_turn_is_what_the_template_puts_after_a_reply(
    tokenizer: Any, reply_end: str, eos_token: str | None, ends: str
) -> None:
    changed = deepcopy(tokenizer)
    changed.eos_token = eos_token
    changed.chat_template = f"{{{{ messages[0].content }}}} {{{{ messages[1].content }}}}{reply_end}"
    chat = ChatFormat(changed, "changed")
    assert chat.decode(chat.completion_tokens("four", finished=True)) == f"four{ends}"
    assert chat.strip_end_of_turn("one") == "one"


@pytest.mark.parametrize("template", [None, ""])
def test_tokenizer_without_a_chat_template_is_refused_by_name(template: str | None) -> None:
    with pytest.raises(ConfigError, match="tokenizer_name: 'base-model'"):
        ChatFormat(SimpleNamespace(chat_template=template), "base-model")
