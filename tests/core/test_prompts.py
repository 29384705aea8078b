from __future__ import annotations

import pytest

from reasoning_env.prompting import build_messages
from reasoning_env.settings import SYSTEM_PROMPT


def test_system_message_comes_before_the_question() -> None:
    assert build_messages("Think.", "1 + 1?") == (
        {"role": "system", "content": "Think."},
        {"role": "user", "content": "1 + 1?"},
    )


@pytest.mark.parametrize("system_prompt", ["", " \n"])
def test_blank_system_prompt_is_left_out(system_prompt: str) -> None:
    assert build_messages(system_prompt, "1 + 1?") == ({"role": "user", "content": "1 + 1?"},)


@pytest.mark.parametrize("tag", ["<think>", "</think>", "<answer>", "</answer>"])
def test_default_prompt_names_each_tag_that_counts(tag: str) -> None:
    assert SYSTEM_PROMPT.count(tag) == 1
