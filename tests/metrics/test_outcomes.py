from __future__ import annotations

import pytest

from reasoning_env.metrics.outcomes import (
    OUTCOMES,
    GroupOutcome,
    Tally,
    outcome,
    outcome_of_group,
)
from reasoning_env.metrics.remarks import outcome_remarks
from reasoning_env.records import Reason, Rollout
from tests.records import make_group, make_rollout

RIGHT = make_rollout(1.0)
WRONG = make_rollout(0.0)
HALF = make_rollout(0.5)
PENALISED = make_rollout(1.0, reward=0.0)


@pytest.mark.parametrize(
    ("score", "reason", "cut", "word"),
    [
        (0.99, "scored", False, "right"),
        (0.98, "scored", True, "partial"),
        (0.0, "scored", False, "wrong"),
        (0.0, "no_answer", False, "no_answer"),
        (0.0, "no_answer", True, "truncated"),
        (0.0, "unclosed_answer", True, "truncated"),
        (0.0, "unclosed_thinking", False, "unclosed_thinking"),
        (0.0, "unclosed_thinking", True, "truncated"),
        (0.0, "several_answers", True, "several_answers"),
        (0.0, "no_text", False, "no_text"),
        (0.0, "no_text", True, "truncated"),
        (0.0, "timeout", False, "timeout"),
        (1.0, None, False, "right"),
    ],
)
def test_rollout_outcome_follows_from_the_verdict_and_truncation(
    score: float, reason: str | None, cut: bool, word: str
) -> None:
    assert outcome(score, reason, cut=cut) == word


def test_answer_found_only_in_the_reasoning_has_its_own_outcome() -> None:
    assert outcome(0.0, "no_text", cut=False, thinking="So <answer>4</answer>") == "held_back"
    assert outcome(0.0, "no_text", cut=False, thinking="So 4") == "no_text"


@pytest.mark.parametrize("word", sorted(set(OUTCOMES) - {"right", "partial", "wrong"}))
def test_every_outcome_has_an_explanation(word: str) -> None:
    [remark] = outcome_remarks({word: 1.0}, "max_token_length").values()
    assert remark.startswith("100% of completions ")


@pytest.mark.parametrize("reason", Reason)
@pytest.mark.parametrize("cut", [False, True])
def test_every_verdict_reason_maps_to_an_outcome(reason: Reason, cut: bool) -> None:
    assert outcome(0.0, reason.value, cut=cut) in OUTCOMES


@pytest.mark.parametrize(
    ("rollouts", "word"),
    [
        ([RIGHT, WRONG], GroupOutcome.WITH_SIGNAL),
        ([RIGHT, HALF], GroupOutcome.WITH_SIGNAL),
        ([RIGHT, PENALISED], GroupOutcome.WITH_SIGNAL),
        ([RIGHT, RIGHT], GroupOutcome.ALL_RIGHT),
        ([PENALISED, PENALISED], GroupOutcome.ALL_RIGHT),
        ([WRONG, WRONG], GroupOutcome.ALL_WRONG),
        ([HALF, HALF], GroupOutcome.ALL_EQUAL),
        ([RIGHT], GroupOutcome.WITH_SIGNAL),
        ([WRONG], GroupOutcome.WITH_SIGNAL),
    ],
)
def test_group_outcome_says_whether_the_rewards_are_equal(rollouts: list[Rollout], word: GroupOutcome) -> None:
    assert outcome_of_group(make_group(rollouts)) is word


def test_tally_has_the_count_sum_and_maximum_of_added_values() -> None:
    tally = Tally()
    tally.add(1.0, 3.0)
    tally.add(2.0)
    assert (tally, tally.mean) == (Tally(3, 6.0, 3.0), 2.0)


def test_outcome_is_all_equal_if_only_the_rewards_are_equal() -> None:
    rollouts = [make_rollout(1.0, reward=0.5), HALF]
    assert outcome_of_group(make_group(rollouts)) is GroupOutcome.ALL_EQUAL
