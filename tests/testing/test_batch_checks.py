"""Take a sound batch, break one thing: the checks must name it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from testing import BatchError, check_batch

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


def check(batch: Any, *, batch_size: int = 4, group_size: int = 2, max_token_len: int = 7) -> None:
    check_batch(batch, batch_size=batch_size, group_size=group_size, max_token_len=max_token_len)


def test_a_sound_batch_passes() -> None:
    check([sound_group(), sound_group()])


def test_logprobs_and_overrides_may_be_missing() -> None:
    batch = [sound_group(), {**sound_group(), "inference_logprobs": None, "overrides": None}]
    del batch[0]["overrides"]
    check(batch)


def test_a_group_of_one_may_have_any_score() -> None:
    check([{field: values[:1] for field, values in sound_group().items()}], batch_size=1, group_size=1)


def breaker(field: str, rollout: int, value: Any) -> Callable[[Batch], None]:
    return lambda batch: batch[1][field].__setitem__(rollout, value)


def replacer(field: str, value: Any) -> Callable[[Batch], None]:
    return lambda batch: batch[1].__setitem__(field, value)


@pytest.mark.parametrize(
    ("damage", "where"),
    [
        (lambda batch: batch.clear(), "batch: expected 4"),
        (lambda batch: batch.pop(), "batch: expected 4"),
        (replacer("tokens", None), "group 1: .*tokens"),
        (replacer("scores", [0.0, 0.5, 1.0]), "group 1: .*scores"),
        (replacer("masks", [[-100, 4]]), "group 1: .*masks"),
        (replacer("inference_logprobs", []), "group 1: .*inference_logprobs"),
        (replacer("overrides", [{}]), "group 1: .*overrides"),
        (breaker("overrides", 1, None), "group 1: .*overrides"),
        (replacer("scores", [0.5, 0.5]), "group 1: expected scores that differ"),
        (breaker("scores", 1, 1.5), "group 1: .*scores.1"),
        (breaker("scores", 0, -0.1), "group 1: .*scores.0"),
        (breaker("scores", 0, math.nan), "group 1: .*scores.0"),
        (breaker("scores", 0, True), "group 1: .*scores.0"),
        (breaker("masks", 0, [-100, -100, -100, 4]), "group 1, rollout 0: .*mask"),
        (breaker("masks", 0, [1, 2, 3, 4, 5]), "group 1, rollout 0: .*mask"),
        (breaker("masks", 0, [-100] * 5), "group 1, rollout 0: .*mask"),
        (breaker("masks", 0, [-100, -100, -100, 4, 9]), "group 1, rollout 0: .*mask"),
        (breaker("masks", 0, [-100, -100, -100, 4, -100]), "group 1, rollout 0: .*mask"),
        (breaker("masks", 1, [-100, -100, 3, 6, 7, 8]), "group 1, rollout 1: expected the prompt"),
        (breaker("tokens", 1, [1, 9, 3, 6, 7, 8]), "group 1, rollout 1: expected the prompt"),
        (breaker("tokens", 1, [1, 2, 3, 6, 7, 8, 9]), "group 1, rollout 1: expected fewer than 7"),
        (breaker("inference_logprobs", 0, [1.0] * 3 + [-1.0]), "group 1, rollout 0: .*logprobs"),
        (breaker("inference_logprobs", 0, [1.0, 0.0, 1.0, -1.0, -1.0]), "group 1, rollout 0: .*over the prompt"),
        (breaker("inference_logprobs", 0, [1.0, 1.0, 1.0, -1.0, 1.0]), "group 1, rollout 0: .*logprobs"),
        (breaker("inference_logprobs", 0, [1.0, 1.0, 1.0, -1.0, -math.inf]), "group 1: .*inference_logprobs"),
    ],
)
def test_each_violation_is_named(damage: Callable[[Batch], None], where: str) -> None:
    batch = [sound_group(), sound_group()]
    damage(batch)
    with pytest.raises(BatchError, match=f"(?s)^{where}"):
        check(batch)
