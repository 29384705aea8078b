"""Test every chat template that TRL contains, with a small tokenizer that has the template's special tokens.

The tests need TRL. CHAT_TEMPLATES names further folders of templates, such as those of axolotl and llama.cpp:
`CHAT_TEMPLATES=axolotl/utils/chat_templates/templates:llama.cpp/models/templates`.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest

from reasoning_env.prompts.chat_format import ChatFormat
from reasoning_env.prompts.messages import build_messages
from reasoning_env.rewards import extract_answer
from tests.chat_templates import family_of, tokenizer_with


def find_templates() -> list[Path]:
    folders = [Path(folder) for folder in os.environ.get("CHAT_TEMPLATES", "").split(os.pathsep) if folder]
    spec = importlib.util.find_spec("trl")
    if spec is not None and spec.origin is not None:
        folders.append(Path(spec.origin).parent / "chat_templates")
    return sorted(path for folder in folders for path in folder.glob("*.jinja"))


TEMPLATES = find_templates()
if not TEMPLATES:
    pytest.skip("TRL is not installed, and CHAT_TEMPLATES names no folder", allow_module_level=True)

SYSTEM, QUESTION = "Answer in the tags, friend.", "How many legs have 3 spiders?"
ASKS_FOR_TOOLS = {"tool_use": {"tools": []}, "firefunction": {"functions": "", "datetime": ""}}
"""Arguments that templates for tool calls need, by a part of the template's name."""


@pytest.fixture(scope="module", params=TEMPLATES, ids=lambda path: path.stem)
def template(request: pytest.FixtureRequest) -> Path:
    return request.param


@pytest.fixture(scope="module")
def format_of(template: Path, tokenizer: Any) -> ChatFormat:
    made = tokenizer_with(tokenizer, template.read_text(encoding="utf-8"), family=template.stem)
    options = next((needed for name, needed in ASKS_FOR_TOOLS.items() if name in template.stem), {})
    return ChatFormat(made, template.stem, template_options=options)


def test_prompt_of_each_chat_template_contains_system_prompt_and_question(format_of: ChatFormat) -> None:
    text = format_of.prompt(build_messages(SYSTEM, QUESTION)).text
    assert text.count(SYSTEM) == 1
    assert text.count(QUESTION) == 1
    assert text.index(SYSTEM) < text.index(QUESTION)


def test_prompt_tokens_decode_to_the_prompt_text(format_of: ChatFormat) -> None:
    prompt = format_of.prompt(build_messages(SYSTEM, QUESTION))
    assert format_of.decode(prompt.tokens) == prompt.text


def test_end_of_turn_token_matches_the_model_family(format_of: ChatFormat, template: Path) -> None:
    assert format_of.end_of_turn == family_of(template.stem).end


def test_answer_inside_thinking_is_ignored(format_of: ChatFormat, template: Path) -> None:
    family = family_of(template.stem)
    thinking = family.thinks.format(draft="I write <answer>3</answer> in <answer> tags.")
    tokens = format_of.completion_tokens(f"{thinking}So: <answer>24</answer>{family.end}", finished=False)
    assert extract_answer(format_of.completion_text(tokens), 100, format_of.thinking).answer == "24"
