"""Break one field of a valid batch, and check that the error names the field."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest

from reasoning_gym_testing import BatchError, check_batch

PROMPT = [1, 2, 3]


def sound_group() -> dict[str, Any]:
    completions = [[4, 5], [6, 7, 8]]
    return {
        "tokens": [PROMPT + completion for completion in completions],
        "masks": [[-100] * 3 + completion for completion in completions],
        "scores": [0.0, 1.0],
        "inference_logprobs": [[1.0] * 3 + [-0.5] * len(completion) for completion in completions],
        "overrides": [{}, {"set_advantage_to_zero": True}],
    }


check = partial(check_batch, batch_size=4, group_size=2, max_token_len=7)


def test_valid_batch_passes_the_checks() -> None:
    check([sound_group(), sound_group()])


def test_batch_without_optional_fields_passes_the_checks() -> None:
    batch = [sound_group(), {**sound_group(), "inference_logprobs": None, "overrides": None}]
    del batch[0]["overrides"]
    check(batch)


def test_batch_with_groups_of_one_completion_passes_the_checks() -> None:
    check([{field: values[:1] for field, values in sound_group().items()}], batch_size=1, group_size=1)


@pytest.mark.parametrize(
    ("field", "rollout", "value", "where"),
    [
        ("tokens", None, None, "group 1: .*tokens"),
        ("scores", None, [0.0, 0.5, 1.0], "group 1: .*scores"),
        ("masks", None, [[-100, 4]], "group 1: .*masks"),
        ("inference_logprobs", None, [], "group 1: .*inference_logprobs"),
        ("overrides", None, [{}], "group 1: .*overrides"),
        ("overrides", 1, None, "group 1: .*overrides"),
        ("scores", None, [0.5, 0.5], "group 1: expected scores that differ"),
        ("scores", 1, 1.5, "group 1: .*scores.1"),
        ("scores", 0, -0.1, "group 1: .*scores.0"),
        ("scores", 0, math.nan, "group 1: .*scores.0"),
        ("scores", 0, True, "group 1: .*scores.0"),
        ("masks", 0, [-100, -100, -100, 4], "group 1, rollout 0: .*mask"),
        ("masks", 0, [1, 2, 3, 4, 5], "group 1, rollout 0: .*mask"),
        ("masks", 0, [-100] * 5, "group 1, rollout 0: .*mask"),
        ("masks", 0, [-100, -100, -100, 4, 9], "group 1, rollout 0: .*mask"),
        ("masks", 0, [-100, -100, -100, 4, -100], "group 1, rollout 0: .*mask"),
        ("masks", 1, [-100, -100, 3, 6, 7, 8], "group 1, rollout 1: .*prompt"),
        ("tokens", 1, [1, 9, 3, 6, 7, 8], "group 1, rollout 1: .*prompt"),
        ("tokens", 1, [1, 2, 3, 6, 7, 8, 9], "group 1, rollout 1: .*7"),
        ("inference_logprobs", 0, [1.0] * 3 + [-1.0], "group 1, rollout 0: .*logprobs"),
        ("inference_logprobs", 0, [1.0, 0.0, 1.0, -1.0, -1.0], "group 1, rollout 0: .*over the prompt"),
        ("inference_logprobs", 0, [1.0, 1.0, 1.0, -1.0, 1.0], "group 1, rollout 0: .*logprobs"),
        ("inference_logprobs", 0, [1.0, 1.0, 1.0, -1.0, -math.inf], "group 1: .*inference_logprobs"),
    ],
)
def test_error_about_an_invalid_batch_names_the_field(field: str, rollout: int | None, value: Any, where: str) -> None:
    batch = [sound_group(), sound_group()]
    if rollout is None:
        batch[1][field] = value
    else:
        batch[1][field][rollout] = value
    with pytest.raises(BatchError, match=f"(?s)^{where}"):
        check(batch)


@pytest.mark.parametrize("groups", [0, 1])
def test_batch_with_too_few_groups_fails_the_checks(groups: int) -> None:
    with pytest.raises(BatchError, match=r"^batch: .*\b4\b"):
        check([sound_group()] * groups)
