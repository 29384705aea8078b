"""Every chat template that TRL ships, over a small tokenizer that has its special tokens.

Runs where TRL is installed, or where TRL_CHAT_TEMPLATES names the folder of its templates.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest

from reasoning_env.prompting import ChatFormat, build_messages
from reasoning_env.rewards import extract_answer
from tests.chat_templates import tokenizer_with


def find_templates() -> list[Path]:
    folder = os.environ.get("TRL_CHAT_TEMPLATES")
    if not folder:
        spec = importlib.util.find_spec("trl")
        if spec is None or spec.origin is None:
            return []
        folder = str(Path(spec.origin).parent / "chat_templates")
    return sorted(Path(folder).glob("*.jinja"))


TEMPLATES = find_templates()
if not TEMPLATES:
    pytest.skip("neither TRL nor its templates are here", allow_module_level=True)

SYSTEM, QUESTION = "Answer in the tags, friend.", "How many legs have 3 spiders?"
THINKS = {
    "gptoss": (
        "<|channel|>analysis<|message|>{draft}<|end|><|start|>assistant<|channel|>final<|message|>",
        "<|return|>",
    ),
    "gemma4": ("<|channel>thought\n{draft}<channel|>", "<turn|>"),
    "diffusion_gemma": ("<|channel>thought\n{draft}<channel|>", "<turn|>"),
    "gemma": ("<think>{draft}</think>", "<end_of_turn>"),
    "muse": (" to=self<|message|>{draft}<|eom|><|start|>assistant to=user<|message|>", "<|eot|>"),
    "cohere": ("<think>{draft}</think>", "<|END_OF_TURN_TOKEN|>"),
    "deepseek": ("{draft}</think>", "<｜end▁of▁sentence｜>"),
    "llama3": ("<think>{draft}</think>", "<|eot_id|>"),
    "phi3": ("<think>{draft}</think>", "<|end|>"),
    "idefics3": ("<think>{draft}</think>", "<end_of_utterance>"),
    "smolvlm": ("<think>{draft}</think>", "<end_of_utterance>"),
    "llava": ("<think>{draft}</think>", "</s>"),
    "glm4": ("<think>{draft}</think>", "<|user|>"),
    "nemotron": ("{draft}</think>", "<|im_end|>"),
    "qwen3_5_think": ("{draft}</think>", "<|im_end|>"),
    "qwen3_6": ("{draft}</think>", "<|im_end|>"),
    "qwen3_8": ("{draft}</think>", "<|im_end|>"),
}
"""How a family thinks before its reply, and the end of its turn; else `<think>` and `<|im_end|>`."""


@pytest.fixture(params=TEMPLATES, ids=lambda path: path.stem)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param.stem)


@pytest.fixture
def format_of(family: str, tokenizer: Any) -> ChatFormat:
    text = next(path for path in TEMPLATES if path.stem == family).read_text(encoding="utf-8")
    return ChatFormat(tokenizer_with(tokenizer, text, family=family), family)


def habits(family: str) -> tuple[str, str]:
    usual = ("<think>{draft}</think>", "<|im_end|>")
    return next((found for name, found in THINKS.items() if family.startswith(name)), usual)


def test_prompt_is_complete(format_of: ChatFormat) -> None:
    text = format_of.prompt(build_messages(SYSTEM, QUESTION)).text
    assert text.count(SYSTEM) == 1
    assert text.count(QUESTION) == 1
    assert text.index(SYSTEM) < text.index(QUESTION)


def test_prompt_reads_back_from_its_tokens(format_of: ChatFormat) -> None:
    prompt = format_of.prompt(build_messages(SYSTEM, QUESTION))
    assert format_of.decode(prompt.tokens) == prompt.text


def test_reply_ends_as_the_family_ends_its_turn(format_of: ChatFormat, family: str) -> None:
    assert format_of.end_of_turn.endswith(habits(family)[1])


def test_draft_in_the_familys_thinking_costs_nothing(format_of: ChatFormat, family: str) -> None:
    thinking, end = habits(family)
    written = thinking.format(draft="I write <answer>3</answer> in <answer> tags.") + "So: <answer>24</answer>" + end
    tokens = format_of.completion_tokens(written, finished=False)
    assert extract_answer(format_of.completion_text(tokens), 100, format_of.thinking).answer == "24"
