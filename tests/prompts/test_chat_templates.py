from __future__ import annotations

import logging
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reasoning_env.errors import ConfigError
from reasoning_env.prompts.chat_format import ChatFormat
from reasoning_env.prompts.chat_templates import PLAIN, plain_text
from reasoning_env.prompts.messages import build_messages
from tests.chat_templates import CHATML, tokenizer_with

MESSAGES = build_messages("Think.", "What is 1 + 1?")


@pytest.mark.parametrize("template", [None, ""])
def test_tokenizer_without_chat_template_raises(template: str | None) -> None:
    base: Any = SimpleNamespace(chat_template=template)
    with pytest.raises(ConfigError, match=r"tokenizer_name: 'base-model'.*`plain` or to the path"):
        ChatFormat(base, "base-model")


# ---------------------------------------------------------------------------- the form of messages


def test_system_message_that_a_template_refuses_is_put_into_the_question(
    tokenizer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    refusing = "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    with caplog.at_level(logging.WARNING):
        chat = ChatFormat(tokenizer_with(tokenizer, refusing + CHATML), "gemma")
    prompt = chat.prompt(MESSAGES)
    assert "<|im_start|>user\nThink.\n\nWhat is 1 + 1?<|im_end|>" in prompt.text
    assert prompt.messages == MESSAGES
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    "content", ["{% for part in m.content %}{{ part['text'] }}{% endfor %}", "{{ m.content[0].text }}"]
)
def test_template_that_needs_content_parts_gets_a_list(tokenizer: Any, content: str) -> None:
    template = CHATML.replace("{{ m.content }}", content)
    text = ChatFormat(tokenizer_with(tokenizer, template), "list").prompt(MESSAGES).text
    assert text.count("Think.") == text.count("What is 1 + 1?") == 1


@pytest.mark.parametrize(
    ("template", "fault"),
    [
        ("{{ messages[1].content }}", "leaves out the system prompt"),
        (CHATML.replace("{{ m.content }}", "{{ m.content }}{{ m.content }}"), "writes the system prompt 2 times"),
        ("{% for m in messages %}", "TemplateSyntaxError"),
        (CHATML.replace("{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}", ""), "ignores add_gen"),
        ("{{ messages[9].content.x }}", "UndefinedError"),
    ],
)
def test_chat_template_that_formats_messages_incorrectly_raises(tokenizer: Any, template: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=f"chat template of 'odd'.*{fault}") as refused:
        ChatFormat(tokenizer_with(tokenizer, template), "odd")
    assert "\n" not in str(refused.value)


def test_template_that_adds_a_header_after_every_turn_is_accepted(tokenizer: Any) -> None:
    template = "{% for m in messages %}{{ m.content }}<|im_end|><|im_start|>{% endfor %}"
    text = ChatFormat(tokenizer_with(tokenizer, template), "odd").prompt(MESSAGES).text
    assert text.endswith("<|im_end|><|im_start|>")


# ---------------------------------------------------------------------------- the end of a reply


@pytest.mark.parametrize(
    ("reply_end", "eos_token", "ends"),
    [("bye", "<|im_start|>", "<|im_start|>"), ("<|pad|>", "<|im_start|>", "<|pad|>"), ("", None, "")],
    ids=["plain text: eos token", "special token", "no end of turn"],
)
def test_end_of_turn_token_is_found_in_the_chat_template(
    tokenizer: Any, reply_end: str, eos_token: str | None, ends: str
) -> None:
    changed = deepcopy(tokenizer)
    changed.eos_token = eos_token
    changed.chat_template = (
        "{% for message in messages %}"
        + f"{{{{ message.content }}}}{{% if message.role == 'assistant' %}}{reply_end}{{% endif %}} "
        + "{% endfor %}"
    )
    chat = ChatFormat(changed, "changed")
    assert chat.decode(chat.completion_tokens("four", finished=True)) == f"four{ends}"
    assert chat.strip_end_of_turn("one") == "one"


def test_reply_can_end_with_two_end_of_turn_tokens_in_a_row(tokenizer: Any) -> None:
    template = CHATML.replace("<|im_end|>", "<|reply_end|><|im_end|>")
    chat = ChatFormat(tokenizer_with(tokenizer, template), "command-a")
    assert chat.end_of_turn == "<|reply_end|><|im_end|>"
    assert chat.decode(chat.completion_tokens("5", finished=True)) == "5<|reply_end|><|im_end|>"
    assert chat.strip_end_of_turn("5<|im_end|>") == chat.strip_end_of_turn("5<|reply_end|><|im_end|>") == "5"


def test_token_that_begins_the_next_turn_is_taken_as_the_end_of_turn_token(tokenizer: Any) -> None:
    template = (
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    chat = ChatFormat(tokenizer_with(tokenizer, template, more=("<|user|>", "<|system|>")), "glm")
    assert chat.end_of_turn == "<|user|>"


# ---------------------------------------------------------------------------- user templates


def test_plain_chat_template_needs_no_special_tokens(tokenizer: Any) -> None:
    base = deepcopy(tokenizer)
    base.chat_template = None
    chat = ChatFormat(base, "base", template=PLAIN)
    assert chat.prompt(MESSAGES).text == "Think.\n\nUser: What is 1 + 1?\n\nAssistant: <think>"
    assert chat.end_of_turn == base.eos_token
    assert chat.prompt(MESSAGES).text == plain_text(MESSAGES)


def test_template_file_replaces_the_tokenizer_template(tokenizer: Any, tmp_path: Path) -> None:
    path = tmp_path / "own.jinja"
    path.write_text("Rules:" + CHATML)
    assert ChatFormat(tokenizer, "own", template=str(path)).prompt(MESSAGES).text.startswith("Rules:<|im_start|>")


def test_missing_template_file_raises(tokenizer: Any) -> None:
    with pytest.raises(ConfigError, match=r"chat_template: 'gone.jinja' cannot be read"):
        ChatFormat(tokenizer, "own", template="gone.jinja")


def test_chat_template_kwargs_are_passed_to_the_chat_template(tokenizer: Any) -> None:
    template = CHATML + "{% if enable_thinking is false %}<think></think>{% endif %}"
    changed = tokenizer_with(tokenizer, template)
    chat = ChatFormat(changed, "own", template_options={"enable_thinking": False})
    assert chat.prompt(MESSAGES).text.endswith("<think></think>")


# ---------------------------------------------------------------------------- thinking


def test_thinking_format_is_detected_from_the_template(tokenizer: Any) -> None:
    changed = deepcopy(tokenizer)
    changed.chat_template = "{# <reasoning>...</reasoning> #}" + CHATML
    assert ChatFormat(changed, "own").thinking.names == ("think", "reasoning")


def test_thinking_format_is_detected_from_the_tokenizer_vocabulary(tokenizer: Any) -> None:
    made = tokenizer_with(tokenizer, CHATML, more=("[THINK]", "[/THINK]"))
    assert ChatFormat(made, "own").thinking.names == ("think", "magistral")


def test_tokenizer_without_thinking_tokens_uses_think_tags(chat: ChatFormat) -> None:
    assert chat.thinking.names == ("think",)
    assert not chat.hides_thinking


def test_end_of_turn_marker_is_completed_if_it_was_generated_in_part(tokenizer: Any) -> None:
    template = CHATML.replace("<|im_end|>", "<|reply_end|><|im_end|>")
    chat = ChatFormat(tokenizer_with(tokenizer, template), "command-a")
    assert chat.decode(chat.completion_tokens("5<|reply_end|>", finished=True)) == "5<|reply_end|><|im_end|>"
