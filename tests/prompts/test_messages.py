from __future__ import annotations

import pytest

from reasoning_env.errors import ConfigError
from reasoning_env.prompts.messages import Completion, build_messages, read_completions, system_prompt
from reasoning_env.prompts.thinking import FORMATS, TAGS, choose_thinking
from reasoning_env.settings import NATIVE_SYSTEM_PROMPT, SYSTEM_PROMPT


@pytest.mark.parametrize(
    ("system_prompt", "roles"), [("Think.", ["system", "user"]), ("", ["user"]), (" \n", ["user"])]
)
def test_blank_system_prompt_is_left_out(system_prompt: str, roles: list[str]) -> None:
    messages = build_messages(system_prompt, "1 + 1?")
    assert [message["role"] for message in messages] == roles
    assert [message["content"] for message in messages] == ["Think.", "1 + 1?"][-len(roles) :]


def test_default_system_prompt_omits_think_tags_for_native_thinking_formats() -> None:
    kimi = [thinking_format for thinking_format in FORMATS if thinking_format.name == "kimi"]
    assert system_prompt(SYSTEM_PROMPT, TAGS) == SYSTEM_PROMPT
    assert system_prompt(SYSTEM_PROMPT, choose_thinking("auto", kimi)) == NATIVE_SYSTEM_PROMPT
    assert "<think>" not in NATIVE_SYSTEM_PROMPT


def test_configured_system_prompt_gets_no_additions_for_a_thinking_format() -> None:
    assert system_prompt("Mine.", choose_thinking("gpt-oss")) == "Mine."


def test_thinking_parts_of_a_message_are_not_judged() -> None:
    parts = [{"type": "thinking", "thinking": "<answer>1</answer>"}, {"type": "text", "text": "<answer>2</answer>"}]
    conversation = [{"role": "user", "content": "1 + 1?"}, {"role": "assistant", "content": parts}]
    assert read_completions([{"content": parts}, conversation]) == ["<answer>2</answer>"] * 2


ASSISTANT = {"role": "assistant", "content": "<answer>2</answer>"}


@pytest.mark.parametrize(
    "later",
    [
        {"role": "user", "content": "thanks"},
        {"role": "tool", "content": "<answer>1</answer>"},
        {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "<answer>1</answer>"}]},
    ],
)
def test_last_assistant_message_is_judged(later: dict[str, object]) -> None:
    assert read_completions([[{"role": "user", "content": "Q?"}, ASSISTANT, later]]) == ["<answer>2</answer>"]


@pytest.mark.parametrize("role", ["user", "system", "tool"])
def test_message_list_without_an_assistant_message_raises(role: str) -> None:
    message = {**ASSISTANT, "role": role}
    conversations: list[Completion] = [message, [message, message]]
    for conversation in conversations:
        with pytest.raises(ConfigError, match=rf"completions\[0\]: has no assistant message; got '{role}'"):
            read_completions([conversation])
