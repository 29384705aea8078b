"""Select the sample of rollouts that the page contains."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from tests.reports.lines import group, report, rollout, write, write_evaluation


def test_sample_of_groups_in_a_report_page_includes_rare_outcomes(tmp_path: Path) -> None:
    def line(number: int) -> dict[str, Any]:
        rare = {"reason": "crash", "score": 0.0} if number == 250 else {}
        return group(rollout(text="x" * 1000, **rare), task="gcd" if number % 2 else "maze", index=number)

    path = write(tmp_path / "a.jsonl", *map(line, range(501)), group(rollout(), task="lcm"))
    data = report(path, characters=20_000)
    assert {held["task"] for held in data["groups"]} == {"gcd", "maze", "lcm"}
    assert 250 in {held["index"] for held in data["groups"]}
    assert 5_000 < len(json.dumps(data["groups"])) < 20_000
    assert data["groups"] == report(path, characters=20_000)["groups"]


def test_report_page_contains_all_groups_if_they_fit_the_size_limit(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", *(group(rollout(), index=index) for index in range(200)))
    assert len(report(path)["groups"]) == 200


def test_report_page_contains_all_groups_of_a_task_with_few_groups(tmp_path: Path) -> None:
    def lines(task: str, count: int, start: int = 0) -> list[dict[str, Any]]:
        return [group(rollout(text="x" * 500), task=task, index=index) for index in range(start, start + count)]

    path = write(tmp_path / "a.jsonl", *lines("gcd", 100), *lines("lcm", 5), *lines("maze", 100))
    tasks = Counter(held["task"] for held in report(path, characters=60_000)["groups"])
    assert tasks["lcm"] == 5
    assert abs(tasks["gcd"] - tasks["maze"]) <= 1
    assert tasks["gcd"] > 10


def test_shortened_report_page_shows_the_same_problems_of_both_runs(tmp_path: Path) -> None:
    def lines(text: str) -> list[dict[str, Any]]:
        return [group(rollout(text=text * 500), seed=seed, index=seed) for seed in range(60)]

    folders = [write_evaluation(tmp_path / name, *lines(name)) for name in ("a", "b")]
    held = report(*folders, characters=20_000)["groups"]
    first, second = ({each["seed"] for each in held if each["run"] == run} for run in (0, 1))
    assert len(first & second) >= min(len(first), len(second)) - 1 > 2


def test_report_page_omits_the_middle_of_long_texts(tmp_path: Path) -> None:
    text, shown = "a" * 30_000 + "b" * 30_000, "a" * 20_000 + "b" * 20_000
    data = report(write(tmp_path / "a.jsonl", group(rollout(text=text, thinking=text))))
    [held] = data["groups"][0]["rollouts"]
    assert (held["text"], held["cut"]) == (shown, [20_000, 20_000])
    assert (held["thinking"], held["characters"]) == ([shown, [20_000, 20_000]], 120_000)
