from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from reasoning_env.atropos.inference.rollouts import rollout_from_node, rollout_from_text
from reasoning_env.atropos.packing import pack
from reasoning_env.prompting import ChatFormat, build_messages
from reasoning_env.records import Prompt, Rollout
from tests.records import SAMPLING, make_group, make_rollout

LIMIT = SAMPLING.token_limit
CHOICE = SimpleNamespace(text="some text", finish_reason="length")


@pytest.fixture(scope="module")
def prompt(chat: ChatFormat) -> Prompt:
    return chat.prompt(build_messages("", "1 + 1?"))


# ---------------------------------------------------------------------------- servers that give tokens


def node(completion: Sequence[int] = (7, 8), **changed: Any) -> SimpleNamespace:
    """A node as the managed server keeps it, for a prompt of two tokens."""
    fields: dict[str, Any] = {
        "tokens": [1, 2, *completion],
        "masked_tokens": [-100, -100, *completion],
        "logprobs": [1.0, 1.0, *(-0.5 for _ in completion)],
    }
    return SimpleNamespace(**{**fields, **changed})


@pytest.mark.parametrize(("completion", "usable"), [(LIMIT - 3, True), (LIMIT - 2, False), (0, False)])
def test_rollout_has_a_completion_and_stays_below_the_limit(completion: int, usable: bool) -> None:
    assert isinstance(rollout_from_node(CHOICE, node([7] * completion), LIMIT), Rollout) is usable


@pytest.mark.parametrize(
    "changed",
    [
        {"masked_tokens": [-100, -100, 7]},
        {"logprobs": [1.0, 1.0]},
        {"tokens": [], "masked_tokens": [], "logprobs": []},
        {"masked_tokens": [-100, -100, 7, 9]},
        {"masked_tokens": [-100, 2, -100, 8]},
        {"logprobs": [1.0, 1.0, float("nan"), -0.5]},
        {"logprobs": [1.0, 1.0, float("-inf"), float("inf")]},
    ],
    ids=str,
)
def test_node_that_contradicts_itself_is_no_rollout(changed: dict[str, Any]) -> None:
    assert isinstance(rollout_from_node(CHOICE, node(**changed), LIMIT), str)


# ---------------------------------------------------------------------------- servers that give text


@pytest.fixture(scope="module")
def convert(chat: ChatFormat, prompt: Prompt) -> Any:
    """Turns a server's text and finish reason into a rollout."""

    def convert(text: str | None, finish_reason: str | None = "stop") -> Any:
        return rollout_from_text(chat, prompt, SAMPLING, SimpleNamespace(text=text, finish_reason=finish_reason))

    return convert


@pytest.mark.parametrize(
    ("text", "finish_reason", "kept"),
    [
        ("It is 2.", "stop", "It is 2."),
        ("It is 2.<|im_end|>", "stop", "It is 2."),
        ("It is", "length", "It is"),
        ("", "stop", ""),
        (None, None, ""),
    ],
)
def test_text_becomes_tokens_with_a_masked_prompt_and_one_end_of_turn_where_it_finished(
    convert: Any, chat: ChatFormat, prompt: Prompt, text: str | None, finish_reason: str | None, kept: str
) -> None:
    finished = finish_reason != "length"
    completion = tuple(chat.completion_tokens(kept, finished=finished))
    masks = (*(-100 for _ in prompt.tokens), *completion)
    tokens, reason = (*prompt.tokens, *completion), "stop" if finished else "length"
    assert convert(text, finish_reason) == Rollout(kept, tokens, masks, None, reason, token_count=len(completion))
    assert completion.count(chat.completion_tokens("", finished=True)[0]) == finished


def test_text_without_a_token_to_train_on_is_no_rollout(convert: Any) -> None:
    assert isinstance(convert("", "length"), str)


@pytest.mark.parametrize(("surplus", "truncated"), [(0, False), (1, True), (LIMIT, True)])
def test_text_is_cut_where_it_reaches_the_limit(
    convert: Any, chat: ChatFormat, prompt: Prompt, surplus: int, truncated: bool
) -> None:
    wanted = LIMIT - 1 - len(prompt.tokens) + surplus
    texts = (("1\n" * LIMIT)[:count] for count in range(4 * LIMIT))
    rollout = convert(next(text for text in texts if len(chat.completion_tokens(text, finished=True)) == wanted))
    assert len(rollout.tokens) == len(rollout.masks) == LIMIT - 1
    assert rollout.truncated is truncated


def test_logprobs_overrides_and_messages_are_left_out_where_there_are_none() -> None:
    group = make_group([make_rollout(1.0), make_rollout(0.0, finish_reason="length")])
    packed = pack(group, mask_truncated=False, include_messages=False)
    assert (packed["inference_logprobs"], packed["overrides"], packed["messages"]) == (None, [{}, {}], None)
