from __future__ import annotations

from typing import Any

import pytest

from reasoning_env.dumps.format import DumpedGroup
from reasoning_env.evaluations.summary import MAX_RECORDED_VALUES, record_requests, summarise, tally_by_task
from reasoning_env.inference.formats.reply_format import SentRequest

from .support import make_sample, sampled

CATEGORIES = {"gcd": "arithmetic", "lcm": "arithmetic", "maze": "games"}


def summary_of(*samples: DumpedGroup, **not_made: int) -> dict[str, Any]:
    return summarise(tally_by_task(samples), CATEGORIES, not_made)


def test_summary_of_a_task_has_counts_and_scores() -> None:
    row = summary_of(make_sample("gcd", 1.0, 0.5, index=0), make_sample("gcd", 0.0, 0.0, index=1))["tasks"]["gcd"]
    assert (row["category"], row["problems"], row["completions"], row["failed"]) == ("arithmetic", 2, 4, 0)
    assert (row["mean_score"], row["accuracy"], row["tokens"], row["seconds"]) == (0.375, 0.25, 10.0, 1.5)
    assert row["pass_at"] == {"1": 0.25, "2": 0.5}
    assert row["reasons"] == {"wrong": 0.5, "right": 0.25, "partial": 0.25}
    low, high = row["mean_score_interval"]
    assert 0.0 <= low < 0.375 < high <= 1.0
    assert "library_score" not in row


def test_all_tasks_have_equal_weight_in_the_overall_means() -> None:
    many = [make_sample("gcd", 1.0, index=index) for index in range(8)]
    found = summary_of(*many, make_sample("lcm", 0.0), make_sample("maze", 0.5))
    assert found["overall"]["mean_score"] == pytest.approx(0.5)
    assert found["categories"]["arithmetic"]["mean_score"] == 0.5
    assert found["categories"]["games"]["mean_score_interval"] == found["tasks"]["maze"]["mean_score_interval"]
    assert (found["overall"]["tasks"], found["overall"]["problems"]) == (3, 10)
    assert found["overall"]["reasons"] == pytest.approx({"right": 1 / 3, "partial": 1 / 3, "wrong": 1 / 3})


def test_confidence_interval_over_all_tasks_is_narrower_than_for_a_single_task() -> None:
    right = {"gcd": 4, "lcm": 5, "maze": 6}
    samples = [make_sample(task, float(index < right[task]), index=index) for task in right for index in range(10)]
    found = summary_of(*samples)
    low, high = found["overall"]["mean_score_interval"]
    assert found["tasks"]["gcd"]["mean_score_interval"][0] < low < 0.35
    assert 0.65 < high < found["tasks"]["maze"]["mean_score_interval"][1]


def test_missing_completions_are_not_scored_zero() -> None:
    samples = (make_sample("gcd", 1.0, index=0), make_sample("gcd", index=1, failed=3), make_sample("maze", failed=3))
    found = summary_of(*samples, gcd=1, lcm=2)
    assert found["overall"]["mean_score"] == 1.0
    rows = {"overall": found["overall"], **found["tasks"]}
    counts = {name: (row["problems"], row["failed"], row["not_made"]) for name, row in rows.items()}
    assert counts == {"overall": (1, 6, 3), "gcd": (1, 3, 1), "lcm": (0, 0, 2), "maze": (0, 3, 0)}


def test_evaluation_summary_without_samples_has_no_tasks() -> None:
    counts = {"tasks": 0, "problems": 0, "completions": 0, "failed": 0, "not_made": 0}
    assert summary_of() == {"overall": counts, "categories": {}, "tasks": {}}


def test_evaluation_summary_has_both_library_score_and_strict_score() -> None:
    found = summary_of(make_sample("gcd", 0.0, library_score=1.0), make_sample("lcm", 0.0, library_score=0.5))
    assert (found["overall"]["library_score"], found["overall"]["mean_score"]) == (0.75, 0.0)


def test_unknown_token_counts_are_not_averaged_as_zero() -> None:
    rollouts = tuple(sampled(1.0, tokens=tokens) for tokens in (None, 30))
    assert summary_of(DumpedGroup("gcd", rollouts))["overall"]["tokens"] == 30
    assert summary_of(make_sample("gcd", 1.0, tokens=None))["overall"]["tokens"] is None


# ------------------------------------------------------------------ sent parameters

REQUESTED = {"model": "m", "messages": [], "temperature": 0.6, "max_tokens": 900}


def test_parameter_values_include_null_if_some_requests_lack_the_parameter() -> None:
    refused = SentRequest(REQUESTED, {"model": "m", "messages": [], "max_tokens": 900}, "m")
    record = record_requests([SentRequest(REQUESTED, REQUESTED, "m"), refused])
    assert record["parameters"] == {"temperature": [0.6, None], "max_tokens": [900]}
    assert record["changed"] == {"temperature": {"requested": 0.6, "sent": None}}
    assert (record["requests"], record["models"]) == (2, ["m"])


def test_results_contain_the_largest_token_limit_that_was_sent() -> None:
    sent = [SentRequest(REQUESTED, {**REQUESTED, "max_tokens": limit}, "m") for limit in (500, 700, 600)]
    record = record_requests(sent)
    assert record["parameters"]["max_tokens"] == [700]
    assert record["changed"] == {"max_tokens": {"requested": 900, "sent": 700}}


def test_number_of_recorded_model_names_is_limited() -> None:
    record = record_requests(SentRequest(REQUESTED, REQUESTED, f"m{number}") for number in range(100))
    assert (len(record["models"]), record["requests"]) == (MAX_RECORDED_VALUES, 100)
