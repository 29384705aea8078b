"""Mistral's own tokenizers, which format chats without a template. Their package contains real tokenizers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from reasoning_env.prompts.chat_format import ChatFormat
from reasoning_env.prompts.messages import build_messages
from tests.prompts.test_threads import use

mistral_common = pytest.importorskip("mistral_common")
transformers = pytest.importorskip("transformers", minversion="5")

FILES = sorted((Path(mistral_common.__file__).parent / "data").glob("*"))
MESSAGES = build_messages("Answer in the tags, friend.", "How many legs have 3 spiders?")


@pytest.fixture(params=[path for path in FILES if path.is_file()], ids=lambda path: path.name)
def own(request: pytest.FixtureRequest) -> Any:
    return transformers.MistralCommonBackend(str(request.param))


def test_mistral_prompt_contains_system_prompt_and_question(own: Any) -> None:
    text = ChatFormat(own, "mistral").prompt(MESSAGES).text
    assert text.count("Answer in the tags, friend.") == text.count("How many legs have 3 spiders?") == 1


def test_mistral_prompt_tokens_equal_the_tokens_of_the_chat_template(own: Any) -> None:
    written = own.apply_chat_template([dict(message) for message in MESSAGES], tokenize=True, return_dict=False)
    assert ChatFormat(own, "mistral").prompt(MESSAGES).tokens == tuple(written)


def test_mistral_reply_ends_with_eos(own: Any) -> None:
    assert ChatFormat(own, "mistral").completion_tokens("24", finished=True)[-1] == own.eos_token_id


def test_mistral_completion_round_trips_through_tokens(own: Any) -> None:
    chat = ChatFormat(own, "mistral")
    tokens = chat.completion_tokens("It is <answer>24</answer>", finished=True)
    assert chat.completion_text(tokens) == "It is <answer>24</answer>"


def test_mistral_tokenizer_works_from_several_threads(own: Any) -> None:
    chat = ChatFormat(own, "mistral")
    alone = [use(chat, number) for number in range(50)]
    with ThreadPoolExecutor(8) as executor:
        assert list(executor.map(lambda number: use(chat, number), range(50))) == alone
