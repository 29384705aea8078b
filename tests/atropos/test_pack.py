from __future__ import annotations

from array import array
from dataclasses import replace
from typing import Any

import pytest

from reasoning_env.atropos.run import pack
from reasoning_env.inference.formats.choices import rollout_from_text
from reasoning_env.inference.formats.reply_format import TextCompletion, TokenCompletion
from reasoning_env.inference.formats.tokens import rollout_from_tokens
from reasoning_env.prompts.chat_format import ChatFormat
from reasoning_env.prompts.messages import build_messages
from reasoning_env.records import Ending, Prompt, Rollout
from tests.records import SAMPLING, make_group, make_rollout

LIMIT = SAMPLING.token_limit


@pytest.fixture(scope="module")
def prompt(chat: ChatFormat) -> Prompt:
    return chat.prompt(build_messages("", "1 + 1?"))


# ---------------------------------------------------------------------------- token servers


@pytest.fixture(scope="module")
def from_tokens(chat: ChatFormat) -> Any:
    """Return a function that converts a server's tokens to a rollout, for a prompt of two tokens."""

    def convert(tokens: list[int], logprobs: list[float]) -> Any:
        return rollout_from_tokens(chat, LIMIT, (1, 2), TokenCompletion(tokens, logprobs, "stop"))

    return convert


def test_prompt_tokens_are_masked_in_a_rollout(from_tokens: Any, tokenizer: Any) -> None:
    completion = tokenizer.encode("It is 2.", add_special_tokens=False)
    rollout = from_tokens([*completion, tokenizer.eos_token_id], [-0.5] * (len(completion) + 1))
    assert rollout.text == "It is 2."
    assert list(rollout.tokens) == [1, 2, *completion, tokenizer.eos_token_id]
    assert list(rollout.masks) == [-100, -100, *completion, tokenizer.eos_token_id]
    assert list(rollout.logprobs) == [1.0, 1.0, *(-0.5 for _ in completion), -0.5]
    assert rollout.token_count == len(completion) + 1


@pytest.mark.parametrize(("completion", "usable"), [(LIMIT - 3, True), (LIMIT - 2, False), (0, False)])
def test_completion_that_exceeds_the_token_limit_is_unusable(from_tokens: Any, completion: int, usable: bool) -> None:
    assert isinstance(from_tokens([7] * completion, [-0.5] * completion), Rollout) is usable


@pytest.mark.parametrize(
    "logprobs",
    [[], [-0.5], [-0.5, -0.5, -0.5], [float("nan"), -0.5], [float("-inf"), -0.5], [float("inf"), -0.5], [-0.5, 0.5]],
    ids=str,
)
def test_completion_with_invalid_logprobs_is_unusable(from_tokens: Any, logprobs: list[float]) -> None:
    assert isinstance(from_tokens([7, 8], logprobs), str)


# ---------------------------------------------------------------------------- text servers


@pytest.fixture(scope="module")
def convert(chat: ChatFormat, prompt: Prompt) -> Any:
    """Return a function that converts a server's text and finish reason to a rollout."""

    def convert(text: str, finish_reason: str = "stop") -> Any:
        return rollout_from_text(chat, prompt, SAMPLING, TextCompletion(text, "", finish_reason))

    return convert


@pytest.mark.parametrize(
    ("text", "finish_reason", "kept"),
    [
        ("It is 2.", "stop", "It is 2."),
        ("It is 2.<|im_end|>", "stop", "It is 2."),
        ("It is", "length", "It is"),
        ("", "stop", ""),
    ],
)
def test_completion_returned_as_text_is_tokenized(
    convert: Any, chat: ChatFormat, prompt: Prompt, text: str, finish_reason: str, kept: str
) -> None:
    finished = finish_reason != "length"
    completion = tuple(chat.completion_tokens(kept, finished=finished))
    masks = array("i", [*(-100 for _ in prompt.tokens), *completion])
    tokens, reason = array("i", [*prompt.tokens, *completion]), "stop" if finished else "length"
    assert convert(text, finish_reason) == Rollout(kept, tokens, masks, None, reason, token_count=len(completion))
    assert completion.count(chat.completion_tokens("", finished=True)[0]) == finished


def test_empty_completion_with_finish_reason_length_is_unusable(convert: Any) -> None:
    assert isinstance(convert("", "length"), str)


@pytest.mark.parametrize(("surplus", "truncated"), [(0, False), (1, True), (LIMIT, True)])
def test_long_completion_returned_as_text_is_cut_at_the_token_limit(
    convert: Any, chat: ChatFormat, prompt: Prompt, surplus: int, truncated: bool
) -> None:
    wanted = LIMIT - 1 - len(prompt.tokens) + surplus
    texts = (("1\n" * LIMIT)[:count] for count in range(4 * LIMIT))
    rollout = convert(next(text for text in texts if len(chat.completion_tokens(text, finished=True)) == wanted))
    assert len(rollout.tokens) == len(rollout.masks) == LIMIT - 1
    assert rollout.ending is (Ending.CUT if truncated else Ending.FINISHED)


def test_missing_logprobs_and_messages_are_none_in_a_packed_group() -> None:
    group = make_group([make_rollout(1.0), make_rollout(0.0, finish_reason="length")])
    packed = pack(group, mask_truncated=False, include_messages=False)
    assert (packed["inference_logprobs"], packed["overrides"], packed["messages"]) == (None, [{}, {}], None)


def test_completion_ended_by_a_stop_string_gets_no_end_of_turn_token(chat: ChatFormat, prompt: Prompt) -> None:
    """The server stopped at the stop string, so the model has not produced an end of turn."""
    completion = TextCompletion("It is <answer>2</answer>", "", "stop")
    stopped = rollout_from_text(chat, prompt, SAMPLING, completion, stop="</answer>")
    assert isinstance(stopped, Rollout)
    assert list(stopped.tokens[len(prompt.tokens) :]) == chat.completion_tokens(completion.text, finished=False)


def test_packed_group_sets_the_advantage_of_a_truncated_rollout_to_zero() -> None:
    group = make_group([make_rollout(1.0), make_rollout(0.0, finish_reason="length")])
    packed = pack(group, mask_truncated=True, include_messages=False)
    assert packed["overrides"] == [{}, {"set_advantage_to_zero": True}]


@pytest.mark.parametrize("known", [0, 1, 2])
def test_group_has_logprobs_only_if_all_its_rollouts_have_logprobs(known: int) -> None:
    rollouts = [replace(make_rollout(1.0), logprobs=[1.0] * 5 if number < known else None) for number in range(2)]
    packed = pack(make_group(rollouts), mask_truncated=True, include_messages=False)
    assert packed["inference_logprobs"] == ([[1.0] * 5] * 2 if known == 2 else None)
