from __future__ import annotations

import logging
from array import array
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning_env.errors import ConfigError
from reasoning_env.prompts.chat_templates import PLAIN
from reasoning_env.prompts.messages import ChatFormat, build_messages, system_prompt
from reasoning_env.prompts.thinking import TAGS, choose_thinking
from reasoning_env.settings import NATIVE_SYSTEM_PROMPT, SYSTEM_PROMPT
from tests.chat_templates import tokenizer_with

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
    changed.chat_template = (
        "{% for message in messages %}"
        + f"{{{{ message.content }}}}{{% if message.role == 'assistant' %}}{reply_end}{{% endif %}} "
        + "{% endfor %}"
    )
    chat = ChatFormat(changed, "changed")
    assert chat.decode(chat.completion_tokens("four", finished=True)) == f"four{ends}"
    assert chat.strip_end_of_turn("one") == "one"


CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.mark.parametrize("template", [None, ""])
def test_base_model_is_refused_with_both_ways_out(template: str | None) -> None:
    with pytest.raises(ConfigError, match=r"tokenizer_name: 'base-model'.*`plain` or to the path"):
        ChatFormat(SimpleNamespace(chat_template=template), "base-model")


# ---------------------------------------------------------------------------- what a template does with a conversation


def test_refused_system_message_goes_in_front_of_the_question(tokenizer: Any, caplog: pytest.LogCaptureFixture) -> None:
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
def test_content_goes_as_a_list_where_the_template_wants_one(tokenizer: Any, content: str) -> None:
    template = CHATML.replace("{{ m.content }}", content)
    text = ChatFormat(tokenizer_with(tokenizer, template), "list").prompt(MESSAGES).text
    assert text.count("Think.") == text.count("What is 1 + 1?") == 1


@pytest.mark.parametrize(
    ("template", "fault"),
    [
        ("{{ messages[1].content }}", "loses the system prompt"),
        (CHATML.replace("{{ m.content }}", "{{ m.content }}{{ m.content }}"), "writes the system prompt 2 times"),
        ("{% for m in messages %}", "TemplateSyntaxError"),
        (CHATML.replace("{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}", ""), "ignores add_gen"),
        ("{{ messages[9].content.x }}", "UndefinedError"),
    ],
)
def test_template_without_a_whole_prompt_is_refused_in_a_line(tokenizer: Any, template: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=f"chat template of 'odd'.*{fault}") as refused:
        ChatFormat(tokenizer_with(tokenizer, template), "odd")
    assert "\n" not in str(refused.value)


def test_run_of_ending_tokens_is_learnt_and_stripped_whole(tokenizer: Any) -> None:
    template = CHATML.replace("<|im_end|>", "<|reply_end|><|im_end|>")
    chat = ChatFormat(tokenizer_with(tokenizer, template), "command-a")
    assert chat.end_of_turn == "<|reply_end|><|im_end|>"
    assert chat.decode(chat.completion_tokens("5", finished=True)) == "5<|reply_end|><|im_end|>"
    assert chat.strip_end_of_turn("5<|im_end|>") == chat.strip_end_of_turn("5<|reply_end|><|im_end|>") == "5"


def test_next_turns_token_ends_a_reply_that_nothing_follows(tokenizer: Any) -> None:
    template = (
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    chat = ChatFormat(tokenizer_with(tokenizer, template, more=("<|user|>", "<|system|>")), "glm")
    assert chat.end_of_turn == "<|user|>"


# ---------------------------------------------------------------------------- templates of the user's choice


def test_plain_template_suits_a_base_model(tokenizer: Any) -> None:
    base = deepcopy(tokenizer)
    base.chat_template = None
    chat = ChatFormat(base, "base", template=PLAIN)
    assert chat.prompt(MESSAGES).text == "Think.\n\nUser: What is 1 + 1?\n\nAssistant: <think>"
    assert chat.end_of_turn == base.eos_token


def test_template_is_read_from_a_file(tokenizer: Any, tmp_path: Path) -> None:
    path = tmp_path / "own.jinja"
    path.write_text("Rules:" + CHATML)
    assert ChatFormat(tokenizer, "own", template=str(path)).prompt(MESSAGES).text.startswith("Rules:<|im_start|>")


def test_missing_template_file_is_named(tokenizer: Any) -> None:
    with pytest.raises(ConfigError, match=r"chat_template: 'gone.jinja' cannot be read"):
        ChatFormat(tokenizer, "own", template="gone.jinja")


def test_options_reach_the_template(tokenizer: Any) -> None:
    template = CHATML + "{% if enable_thinking is false %}<think></think>{% endif %}"
    changed = tokenizer_with(tokenizer, template)
    chat = ChatFormat(changed, "own", template_options={"enable_thinking": False})
    assert chat.prompt(MESSAGES).text.endswith("<think></think>")


# ---------------------------------------------------------------------------- native thinking


@pytest.mark.parametrize("marks", [("[THINK]", "[/THINK]"), ("◁think▷", "◁/think▷")])
def test_marks_of_thinking_survive_decoding(tokenizer: Any, marks: tuple[str, str]) -> None:
    chat = ChatFormat(tokenizer_with(tokenizer, CHATML, more=marks), "native")
    text = f"{marks[0]}hm{marks[1]}5"
    assert chat.completion_text(chat.completion_tokens(text, finished=True)) == text
    assert chat.hides_thinking


def test_template_alone_tells_a_format(tokenizer: Any) -> None:
    changed = deepcopy(tokenizer)
    changed.chat_template = "{# <reasoning>...</reasoning> #}" + CHATML
    assert ChatFormat(changed, "own").thinking.names == ("think", "reasoning")


def test_plain_tokenizer_takes_think_only(chat: ChatFormat) -> None:
    assert chat.thinking.names == ("think",)
    assert not chat.hides_thinking


def test_default_prompt_asks_for_tags_only_where_they_count() -> None:
    native = choose_thinking("auto", lambda one: one.name == "kimi")
    assert system_prompt(SYSTEM_PROMPT, TAGS) == SYSTEM_PROMPT
    assert system_prompt(SYSTEM_PROMPT, native) == NATIVE_SYSTEM_PROMPT
    assert "<think>" not in NATIVE_SYSTEM_PROMPT


def test_users_own_system_prompt_stays() -> None:
    assert system_prompt("Mine.", choose_thinking("gpt-oss")) == "Mine."


@pytest.mark.parametrize("skip_special_tokens", [True, False])
@given(tokens=st.lists(st.integers(0, 300), max_size=40))
def test_completion_is_decoded_as_transformers_decodes_it(
    chat: ChatFormat, tokenizer: Any, tokens: list[int], skip_special_tokens: bool
) -> None:
    expected = tokenizer.decode(tokens, skip_special_tokens=skip_special_tokens)
    assert chat.decode(tokens, skip_special_tokens=skip_special_tokens) == expected
    assert chat.decode(array("i", tokens), skip_special_tokens=skip_special_tokens) == expected


def test_tokenizer_that_decodes_in_a_way_of_its_own_is_asked(tokenizer: Any) -> None:
    class Own(type(tokenizer)):  # type: ignore[misc]
        def _decode(self, *args: Any, **kwargs: Any) -> str:
            return f"own {super()._decode(*args, **kwargs)}"

    own = deepcopy(tokenizer)
    own.__class__ = Own
    chat = ChatFormat(own, "own")
    assert chat.decode(chat.encode("2")) == "own 2"


def test_tokenizer_that_cleans_up_blanks_does_so_still(tokenizer: Any) -> None:
    cleaning = deepcopy(tokenizer)
    cleaning.clean_up_tokenization_spaces = True
    cleaning.clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output = True
    chat = ChatFormat(cleaning, "cleaning")
    assert chat.decode(chat.encode("no , it is")) == "no, it is"


def test_usual_tokenizer_leaves_the_interpreter_to_others_when_it_decodes(
    chat: ChatFormat, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(tokenizer), "decode", None)
    assert chat.decode(chat.encode("It is 2.")) == "It is 2."
