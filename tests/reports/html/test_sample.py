"""The sample of rollouts in the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.reports.lines import group, report, rollout, write


def test_sample_keeps_rare_outcomes(tmp_path: Path) -> None:
    def line(number: int) -> dict[str, Any]:
        rare = {"reason": "crash", "score": 0.0} if number == 250 else {}
        return group(rollout(text="x" * 1000, **rare), task="gcd" if number % 2 else "maze", index=number)

    path = write(tmp_path / "a.jsonl", *map(line, range(501)), group(rollout(), task="lcm"))
    data = report(path, characters=20_000)
    assert {held["task"] for held in data["groups"]} == {"gcd", "maze", "lcm"}
    assert 250 in {held["index"] for held in data["groups"]}
    assert 5_000 < len(json.dumps(data["groups"])) < 20_000
    assert data["groups"] == report(path, characters=20_000)["groups"]


def test_long_texts_have_a_gap(tmp_path: Path) -> None:
    text, shown = "a" * 30_000 + "b" * 30_000, "a" * 20_000 + "b" * 20_000
    data = report(write(tmp_path / "a.jsonl", group(rollout(text=text, thinking=text))))
    [held] = data["groups"][0]["rollouts"]
    assert (held["text"], held["cut"]) == (shown, [20_000, 20_000])
    assert (held["thinking"], held["characters"]) == ([shown, [20_000, 20_000]], 120_000)
