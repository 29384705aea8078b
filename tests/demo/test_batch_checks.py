"""Take a sound batch, break one thing: the checks must name it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from demo.batch_checks import BatchError, check_batch

PROMPT = [1, 2, 3]
Batch = list[dict[str, Any]]


def sound_group() -> dict[str, Any]:
    completions = [[4, 5], [6, 7, 8]]
    return {
        "tokens": [PROMPT + completion for completion in completions],
        "masks": [[-100] * 3 + completion for completion in completions],
        "scores": [0.0, 1.0],
        "inference_logprobs": [[1.0] * 3 + [-0.5] * len(completion) for completion in completions],
        "overrides": [{}, {"set_advantage_to_zero": True}],
    }


def check(batch: Any, *, batch_size: int = 4, group_size: int = 2, max_token_len: int = 20) -> None:
    check_batch(batch, batch_size=batch_size, group_size=group_size, max_token_len=max_token_len)


def test_a_sound_batch_passes() -> None:
    check([sound_group(), sound_group()])


def test_logprobs_and_overrides_may_be_missing() -> None:
    batch = [sound_group(), {**sound_group(), "inference_logprobs": None, "overrides": None}]
    del batch[0]["overrides"]
    check(batch)


def test_a_group_of_one_may_have_any_score() -> None:
    group = {field: values[:1] for field, values in sound_group().items()}
    check([group], batch_size=1, group_size=1)


def breaker(field: str, rollout: int, value: Any) -> Callable[[Batch], None]:
    def damage(batch: Batch) -> None:
        batch[1][field][rollout] = value

    return damage


def replacer(field: str, value: Any) -> Callable[[Batch], None]:
    def damage(batch: Batch) -> None:
        batch[1][field] = value

    return damage


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda batch: batch.clear(), "batch: expected a non-empty list of groups, got []"),
        (lambda batch: batch.pop(), "batch: expected 4 sequences, got 2"),
        (replacer("tokens", None), "group 1: expected a list in 'tokens', got NoneType"),
        (replacer("scores", [0.0, 0.5, 1.0]), "group 1: expected 2 entries in 'scores', got 3"),
        (replacer("masks", [[-100, 4]]), "group 1: expected 2 entries in 'masks', got 1"),
        (replacer("inference_logprobs", []), "group 1: expected 2 entries in 'inference_logprobs', got 0"),
        (replacer("overrides", [{}]), "group 1: expected 2 entries in 'overrides', got 1"),
        (breaker("overrides", 1, None), "group 1, rollout 1: expected an object in 'overrides', got None"),
        (replacer("scores", [0.5, 0.5]), "group 1: all 2 scores are 0.5, which carries no learning signal"),
        (breaker("scores", 1, 1.5), "group 1, rollout 1: expected a score from 0 to 1, got 1.5"),
        (breaker("scores", 0, -0.1), "group 1, rollout 0: expected a score from 0 to 1, got -0.1"),
        (breaker("scores", 0, math.nan), "group 1, rollout 0: expected a finite score, got nan"),
        (breaker("scores", 0, None), "group 1, rollout 0: expected a finite score, got None"),
        (breaker("masks", 0, [-100, -100, -100, 4]), "group 1, rollout 0: 4 mask entries for 5 tokens"),
        (breaker("masks", 0, [1, 2, 3, 4, 5]), "group 1, rollout 0: the mask hides no prompt"),
        (breaker("masks", 0, [-100] * 5), "group 1, rollout 0: the mask leaves no completion"),
        (breaker("masks", 0, [-100, -100, -100, 4, 9]), "rollout 0: at place 4 the mask has 9, the token is 5"),
        (breaker("masks", 0, [-100, -100, -100, 4, -100]), "rollout 0: at place 4 the mask has -100, the token is 5"),
        (breaker("tokens", 1, [1, 9, 3, 6, 7, 8]), "group 1: the prompts of rollouts 0 and 1 differ"),
        (breaker("tokens", 1, [1, 2, 3, 6, 7]), "group 1, rollout 1: 6 mask entries for 5 tokens"),
        (breaker("inference_logprobs", 0, [1.0] * 3 + [-1.0]), "group 1, rollout 0: 4 logprobs for 5 tokens"),
        (
            breaker("inference_logprobs", 0, [1.0, 0.0, 1.0, -1.0, -1.0]),
            "group 1, rollout 0: expected 1.0 over the prompt, got 0.0 at place 1",
        ),
        (
            breaker("inference_logprobs", 0, [1.0, 1.0, 1.0, -1.0, 1.0]),
            "group 1, rollout 0: expected a logprob of at most 0, got 1.0 at place 4",
        ),
        (
            breaker("inference_logprobs", 0, [1.0, 1.0, 1.0, -1.0, -math.inf]),
            "group 1, rollout 0: expected a finite logprob at place 4, got -inf",
        ),
    ],
)
def test_each_violation_is_named(damage: Callable[[Batch], None], message: str) -> None:
    batch = [sound_group(), sound_group()]
    damage(batch)
    with pytest.raises(BatchError) as caught:
        check(batch)
    assert message in str(caught.value)


def test_prompts_of_different_length_differ() -> None:
    group = {**sound_group(), "inference_logprobs": None}
    group["masks"][0] = [-100, -100, 3, 4, 5]
    with pytest.raises(BatchError, match="group 0: the prompts of rollouts 0 and 1 differ"):
        check([group, sound_group()])


def test_a_rollout_must_stay_below_the_bound() -> None:
    check([sound_group(), sound_group()], max_token_len=7)
    with pytest.raises(BatchError, match="group 0, rollout 1: expected fewer than 6 tokens, got 6"):
        check([sound_group(), sound_group()], max_token_len=6)


def test_nothing_but_a_list_is_a_batch() -> None:
    with pytest.raises(BatchError, match="expected a non-empty list of groups"):
        check(None)
