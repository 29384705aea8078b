"""Send only complete groups to run-api that have unequal scores and fit the token limit."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import pytest

from reasoning_env.atropos.sending import completion_length, is_complete, is_short_enough
from tests.front_door.conftest import make_config


def packed(*scores: float, tokens: int = 5) -> dict[str, Any]:
    return {"tokens": [[1] * tokens for _ in scores], "scores": list(scores)}


CONFIG = make_config(group_size=3)


@pytest.mark.parametrize("scores", [(1.0, 0.0), (1.0, 0.0, 0.5, 0.5)], ids=["too small", "too large"])
def test_group_of_wrong_size_is_not_sent(scores: tuple[float, ...]) -> None:
    assert not is_complete(packed(*scores), CONFIG)


def test_group_size_override_of_a_group_replaces_the_configured_group_size() -> None:
    assert is_complete({**packed(1.0, 0.0), "group_overrides": {"group_size": 2}}, CONFIG)


def test_group_with_equal_scores_is_not_sent() -> None:
    assert is_complete(packed(1.0, 0.0, 0.0), CONFIG)
    assert not is_complete(packed(1.0, 1.0, 1.0), CONFIG)


def test_group_with_equal_scores_is_sent_if_the_filter_for_equal_scores_is_off() -> None:
    config = make_config(group_size=3, ensure_scores_are_not_same=False)
    assert is_complete(packed(1.0, 1.0, 1.0), config)


@pytest.mark.parametrize(("limit", "short_enough"), [(4, False), (5, False), (6, True), (0, True)])
def test_group_with_a_rollout_as_long_as_the_token_limit_is_not_sent(limit: int, short_enough: bool) -> None:
    assert is_short_enough(packed(1.0, 0.0, tokens=5), limit) is short_enough


@pytest.mark.parametrize("mask", [array("i", [-100, -100, 7, 0, 8]), [-100, -100, 7, 0, 8], (-100, -100, 7, 0, 8)])
def test_masked_tokens_do_not_count_towards_the_completion_length(mask: Sequence[float]) -> None:
    assert completion_length(mask) == 3
