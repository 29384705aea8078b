from __future__ import annotations

import re
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning_env.prompts.thinking import FORMATS, NAMES, TAGS, Thinking, ThinkingFormat, choose_thinking
from reasoning_env.records import Reason
from reasoning_env.rewards import Extraction, extract_answer, split_thinking
from reasoning_env.settings import ReasoningSettings

LIMIT = 100
DRAFT = "Perhaps <answer>3</answer>, to be put in <answer> tags."
REPLY = "So <answer>24</answer>"
WRITTEN = {
    "think": f"<think>{DRAFT}</think>{REPLY}",
    "gpt-oss": f"<|channel|>analysis<|message|>{DRAFT}<|end|><|start|>assistant<|channel|>final<|message|>{REPLY}",
    "gemma": f"<|channel>thought\n{DRAFT}<channel|>{REPLY}",
    "magistral": f"[THINK]{DRAFT}[/THINK]{REPLY}",
    "seed-oss": f"<seed:think>{DRAFT}</seed:think>{REPLY}",
    "command-a": f"<|START_THINKING|>{DRAFT}<|END_THINKING|><|START_RESPONSE|>{REPLY}<|END_RESPONSE|>",
    "kimi": f"◁think▷{DRAFT}◁/think▷{REPLY}",
    "kimi-k3": f"<|open|>think<|sep|>{DRAFT}<|close|>think<|sep|><|open|>response<|sep|>{REPLY}",
    "minimax": f"<mm:think>{DRAFT}</mm:think>{REPLY}",
    "hunyuan": f"<think:opensource>{DRAFT}</think:opensource>{REPLY}",
    "solar": f"<|think|>{DRAFT}<|end|><|begin|>assistant<|content|>{REPLY}",
    "apriel": f"Here are my reasoning steps:\n{DRAFT}\n[BEGIN FINAL RESPONSE]\n{REPLY}\n[END FINAL RESPONSE]",
    "muse": f" to=self<|message|>{DRAFT}<|eom|><|start|>assistant to=user<|message|>{REPLY}",
    "thinking": f"<Thinking>{DRAFT}</THINKING>{REPLY}",
    "reasoning": f"<reasoning>{DRAFT}</reasoning>{REPLY}",
}
CHANNELS = choose_thinking("gpt-oss")
ANALYSIS, FINAL = "<|channel|>analysis<|message|>", "<|channel|>final<|message|>"


def by_name(name: str) -> ThinkingFormat:
    return next(thinking_format for thinking_format in FORMATS if thinking_format.name == name)


def test_every_thinking_format_has_an_example() -> None:
    assert list(WRITTEN) == [thinking_format.name for thinking_format in FORMATS]


def test_thinking_setting_accepts_every_thinking_format() -> None:
    assert get_args(ReasoningSettings.model_fields["thinking"].annotation) == NAMES


@pytest.mark.parametrize("name", WRITTEN)
def test_answer_inside_thinking_of_a_known_format_is_ignored(name: str) -> None:
    assert extract_answer(WRITTEN[name], LIMIT, choose_thinking(name)) == Extraction("24")


@pytest.mark.parametrize("name", [name for name in WRITTEN if name != "think"])
def test_answer_inside_thinking_of_an_unknown_format_counts_as_an_additional_answer(name: str) -> None:
    assert extract_answer(WRITTEN[name], LIMIT, TAGS) == Extraction(None, Reason.SEVERAL_ANSWERS)


@pytest.mark.parametrize("thinking_format", FORMATS, ids=NAMES[2:])
def test_text_before_a_closing_thinking_mark_is_removed_if_no_opening_mark_exists(
    thinking_format: ThinkingFormat,
) -> None:
    assert split_thinking(f"<answer>3</answer>{thinking_format.closing}5", Thinking([thinking_format])).text == "5"


@pytest.mark.parametrize("thinking_format", FORMATS, ids=NAMES[2:])
def test_unclosed_thinking_gives_no_answer(thinking_format: ThinkingFormat) -> None:
    text = f"{thinking_format.opening} <answer>3</answer>"
    assert extract_answer(text, LIMIT, Thinking([thinking_format])) == Extraction(None, Reason.UNCLOSED_THINKING)


@pytest.mark.parametrize("thinking_format", FORMATS, ids=NAMES[2:])
def test_text_without_thinking_marks_is_unchanged(thinking_format: ThinkingFormat) -> None:
    assert split_thinking(REPLY, Thinking([thinking_format])).text == REPLY


def test_thinking_marks_of_other_formats_are_ignored() -> None:
    both = choose_thinking("auto", [by_name("magistral")])
    assert split_thinking("[THINK] a <think> b </think> c [/THINK]5", both).text == "5"
    assert split_thinking("<think> [/THINK] <answer>3</answer></think>5", both).text == "5"


def test_completion_with_two_final_channels_counts_as_several_answers() -> None:
    twice = f"{FINAL}<answer>1</answer><|end|>{ANALYSIS}so{FINAL}<answer>2</answer>"
    assert extract_answer(twice, LIMIT, CHANNELS).reason is Reason.SEVERAL_ANSWERS
    adjacent = f"{FINAL}<answer>1</answer>{FINAL}<answer>2</answer>"
    assert extract_answer(adjacent, LIMIT, CHANNELS).reason is Reason.SEVERAL_ANSWERS


def test_answers_outside_the_final_channel_are_ignored() -> None:
    text = f"<answer>1</answer>{ANALYSIS}a<|end|><|channel|>commentary<|message|><answer>2</answer>{FINAL}5"
    assert split_thinking(text, CHANNELS).text.endswith("5")
    assert "answer" not in split_thinking(text, CHANNELS).text


def test_completions_stay_unchanged_if_the_thinking_setting_is_none() -> None:
    assert split_thinking(WRITTEN["think"], choose_thinking("none")).text == WRITTEN["think"]


def test_thinking_setting_auto_selects_think_tags_and_the_model_format() -> None:
    assert choose_thinking("auto").names == ("think",)
    assert choose_thinking("auto", [by_name("kimi")]).names == ("think", "kimi")


def test_thinking_setting_that_names_a_format_selects_only_that_format() -> None:
    assert choose_thinking("kimi", FORMATS).names == ("kimi",)


PIECES = [mark for thinking_format in FORMATS for mark in (thinking_format.opening, thinking_format.closing)]
KINDS = ("think", "gpt-oss", "magistral", "apriel")
"""One format of each kind: case-insensitive marks, channels, exactly matched marks, and long marks."""
PARTS = ("<|channel|>fina", "<|", "◁", "[THINK", "a to=self")


@pytest.mark.parametrize(
    ("piece", "thinking"),
    [
        *((mark, Thinking([one])) for one in map(by_name, KINDS) for mark in (one.opening, one.closing)),
        *((part, Thinking(FORMATS)) for part in PARTS),
    ],
)
def test_removing_thinking_takes_linear_time(piece: str, thinking: Thinking) -> None:
    """Quadratic work would exceed the time limit of the tests."""
    text = piece * (1_000_000 // len(piece))
    assert extract_answer(f"<answer>{text}</answer>", LIMIT, thinking).answer is None


@given(st.lists(st.sampled_from([*PIECES, "a", "<answer>", "</answer>"]), max_size=10).map("".join))
def test_removing_thinking_never_creates_new_answer_tags(text: str) -> None:
    count = len(re.findall("</?answer>", text))
    assert len(re.findall("</?answer>", split_thinking(text, Thinking(FORMATS)).text)) <= count


def test_closing_mark_of_another_format_does_not_end_thinking() -> None:
    both = choose_thinking("auto", [by_name("magistral")])
    assert extract_answer("<think>a[/THINK]<answer>3</answer>", LIMIT, both).reason is Reason.UNCLOSED_THINKING
