"""Compute the figures of a run for the report page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reasoning_env.dumps.reader import stream_groups
from reasoning_env.evaluations.summary import summarise, tally_by_task
from reasoning_env.problems.references import without_release
from tests.reports.lines import RESULTS, group, reference_of, report, rollout, write, write_evaluation

WRONG = rollout(0.0)


def run_of(folder: Path, *groups: dict[str, Any]) -> dict[str, Any]:
    return report(write(folder / "a.jsonl", *groups))["runs"][0]


def test_report_figures_are_computed_from_all_rollouts(tmp_path: Path) -> None:
    run = run_of(tmp_path, group(rollout(1.0), WRONG), group(WRONG, WRONG), group(rollout(0.5), task="maze"))
    assert (run["groups"], run["rollouts"], run["signal"]) == (3, 5, 0.5)
    low, high = run["score"][1:]
    assert run["score"][0] == pytest.approx(1 / 3)
    assert 0 <= low < 1 / 3 < high <= 1
    assert [(row["task"], row["accuracy"][0]) for row in run["by_task"]] == [(0, 0.25), (1, 0.0)]
    assert (sum(run["scores"]), run["scores"][0], run["scores"][10], run["scores"][20]) == (5, 3, 1, 1)


@pytest.mark.parametrize(
    ("facts", "outcome"),
    [
        ({"score": 0.0, "verifier_score": 1.0}, "right"),
        ({"score": 0.99, "correct": True}, "right"),
        ({"score": 0.0, "reason": "<b>of a later version"}, "other"),
        ({"score": 1.0, "reason": None, "verifier_score": None}, "right"),
    ],
)
def test_report_counts_each_rollout_under_one_outcome(tmp_path: Path, facts: dict[str, Any], outcome: str) -> None:
    data = report(write(tmp_path / "a.jsonl", group(rollout(**facts))))
    assert data["outcomes"][data["groups"][0]["rollouts"][0]["outcome"]] == outcome
    assert data["runs"][0]["outcomes"] == [int(name == outcome) for name in data["outcomes"]]


def test_report_shows_the_number_of_groups_in_each_level_range(tmp_path: Path) -> None:
    levels = [0.0, 0.09, 0.95, 1.0, None]
    run = run_of(tmp_path, *(group(rollout(), level=level) for level in levels))
    assert [(cell["bin"], cell["groups"]) for cell in run["cells"]] == [(-1, 1), (0, 2), (9, 2)]


def curve_of(folder: Path, *groups: dict[str, Any]) -> dict[str, Any]:
    curve: dict[str, Any] = run_of(folder, *groups)["time"]["all"]
    return curve


def test_training_curve_averages_600_groups_into_at_most_100_points(tmp_path: Path) -> None:
    curve = curve_of(tmp_path, *(group(rollout(), index=index, level=0.5) for index in range(600)))
    assert 50 <= len(curve["groups"]) <= 100
    assert sum(curve["groups"]) == 600
    assert set(curve["level"]) == {0.5}


@pytest.mark.parametrize("groups", [11, 81, 401])
def test_last_curve_point_never_covers_far_fewer_groups_than_others(tmp_path: Path, groups: int) -> None:
    curve = curve_of(tmp_path, *(group(rollout(), index=index) for index in range(groups)))
    *others, last = curve["groups"]
    assert last >= max(others) / 3


def test_training_curve_includes_a_very_large_problem_index(tmp_path: Path) -> None:
    curve = curve_of(tmp_path, *(group(rollout(), index=index) for index in [*range(300), 10**12]))
    assert sum(curve["groups"]) == 301


def test_each_point_of_the_training_curve_has_step_and_time(tmp_path: Path) -> None:
    lines = [group(rollout(), index=index, step=index // 2, time=1e9 + 60 * index) for index in range(4)]
    curve = curve_of(tmp_path, *lines)
    assert curve["problem"] == [0, 1, 2, 3]
    assert (curve["step"], curve["time"]) == ([0, 0, 1, 1], [0, 60, 120, 180])
    assert curve_of(tmp_path, group(rollout(), step=1, index=0), group(rollout(), index=1))["step"] is None


def test_report_has_a_curve_for_each_task(tmp_path: Path) -> None:
    lost = rollout(0.0, reason="no_answer", finish_reason="length", tokens=30)
    data = report(write(tmp_path / "a.jsonl", group(rollout(tokens=10), lost), group(rollout(), task="maze")))
    gcd, maze = data["runs"][0]["time"]["tasks"]
    assert (gcd["task"], gcd["score"], gcd["tokens"], gcd["truncated"]) == (0, [0.5], [20], [0.5])
    assert {data["outcomes"][int(number)]: counts for number, counts in gcd["outcomes"].items()} == {
        "right": [1],
        "truncated": [1],
    }
    assert (maze["task"], maze["score"], maze["tokens"]) == (1, [1.0], [None])


def test_report_of_an_evaluation_has_no_curve(tmp_path: Path) -> None:
    [run] = report(write_evaluation(tmp_path / "e", group(rollout())))["runs"]
    assert run["time"]["all"]["groups"] == []


def test_report_shows_lengths_in_tokens_if_token_counts_are_known(tmp_path: Path) -> None:
    masks = [[-100, -100, 5, 6, 7, 8]]
    assert run_of(tmp_path, group(rollout()))["lengths"]["unit"] == "characters"
    known = run_of(tmp_path, {**group(rollout()), "masks": masks})
    assert (known["lengths"]["unit"], known["tokens"], known["lengths"]["bins"]) == ("tokens", 4, [[4, 1, 0, 0]])


def test_report_compares_an_evaluation_with_published_models(tmp_path: Path) -> None:
    changed = rollout(0.0, library_score=1.0)
    folder = write_evaluation(tmp_path / "e", group(changed, rollout(library_score=1.0), index=3, failed=2))
    [run] = report(folder)["runs"]
    assert run["by_task"][0]["plain"] == [1.0, 0.5, 1, 2]
    assert (run["failed"], run["problems"]) == (2, [[0, 3, 7, None, 0.5, without_release(reference_of("gcd", 3))]])
    [model] = run["published"]["models"]
    assert (model["name"], model["overall"], model["tasks"]) == ("a model", 0.25, {"gcd": 0.125})
    assert run["published"]["own"] == {"as published": 0.75, "strict": 0.5}
    assert run["facts"] == [
        ["model", "m"],
        ["started", RESULTS["started"]],
        ["eval_temperature", "0.6"],
        ["not as published", "fewer problems"],
    ]


def test_means_in_the_report_equal_the_evaluation_results(tmp_path: Path) -> None:
    scores = {"gcd": (1.0, 0.0, 0.5), "maze": (0.0, 0.0, 1.0), "lcm": (0.99, 0.25, 0.0)}
    lines = [
        group(rollout(score), rollout(0.0), task=task, index=index)
        for task, of_task in scores.items()
        for index, score in enumerate(of_task)
    ]
    folder = write_evaluation(tmp_path / "e", *lines)
    [run] = report(folder)["runs"]
    categories = {"gcd": "arithmetic", "maze": "games", "lcm": "arithmetic"}
    results = summarise(tally_by_task(stream_groups(folder / "samples.jsonl")), categories, {})

    def means(row: dict[str, Any]) -> list[list[float]]:
        return [[row[name], *row[f"{name}_interval"]] for name in ("mean_score", "accuracy")]

    assert [[row["score"], row["accuracy"]] for row in run["by_task"]] == [*map(means, results["tasks"].values())]
    assert [[row["score"], row["accuracy"]] for row in run["categories"]] == [
        *map(means, results["categories"].values())
    ]
    assert [run["of_tasks"]["score"], run["of_tasks"]["accuracy"]] == means(results["overall"])
    assert {str(k): mean for k, mean, *_ in run["pass_at_k"]} == results["overall"]["pass_at"]


def test_report_shows_the_share_of_the_most_frequent_answer(tmp_path: Path) -> None:
    answers = ["0", "0", "7", None, "0"]
    groups = [group(rollout(0.0, answer=answer), index=index) for index, answer in enumerate(answers)]
    (row,) = run_of(tmp_path, *groups)["by_task"]
    assert row["same_answer"] == 0.75
