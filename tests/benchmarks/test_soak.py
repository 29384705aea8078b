"""Check how the soak benchmark counts undelivered groups and shared environment ids."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks.soak import put_back, shares_number
from reasoning_gym_testing.recorded_environment import JOURNAL
from reasoning_gym_testing.run_api import Registration
from reasoning_gym_testing.trainer import Delivery


def run(folder: Path, problems: Sequence[int], scored: Sequence[int] = ()) -> Any:
    """Write the journal of a run that sampled problems at these positions.

    The positions in `scored` got scores 0 and 1.
    """
    folder.mkdir()
    events: list[dict[str, Any]] = [
        {"event": "handed_out", "task": "gcd", "seed": 10 + index, "params": {}, "index": index} for index in problems
    ]
    events += [{"event": "scored", "index": index, "scores": [0.0, 1.0]} for index in scored]
    (folder / JOURNAL).write_text("".join(json.dumps(event) + "\n" for event in events))
    return SimpleNamespace(folder=folder)


def test_soak_benchmark_finds_scored_problems_that_are_served_again(tmp_path: Path) -> None:
    runs = [run(tmp_path / "first", [1, 2, 3], scored=[1, 2]), run(tmp_path / "second", [2, 4])]
    assert list(put_back(runs, killed=[])) == [(12, (0.0, 1.0))]


def test_soak_benchmark_accepts_problems_that_only_the_last_run_scored(tmp_path: Path) -> None:
    runs = [run(tmp_path / "first", [1]), run(tmp_path / "second", [1], scored=[1])]
    assert list(put_back(runs, killed=[])) == []


def test_soak_benchmark_allows_problems_of_a_killed_run_to_be_served_again(tmp_path: Path) -> None:
    runs = [run(tmp_path / "first", [1], scored=[1]), run(tmp_path / "second", [1])]
    assert list(put_back(runs, killed=runs[:1])) == []


def test_soak_benchmark_counts_deliveries_with_an_env_id_of_another_environment() -> None:
    def proxy(registered_at: float, delivered_at: Sequence[float]) -> Any:
        delivered = [Delivery("", 0, at, (), 0) for at in delivered_at]
        return SimpleNamespace(registered=[Registration(registered_at, 0, "")], delivered=delivered)

    earlier, later = proxy(1.0, [2.0, 4.0, 5.0]), proxy(3.0, [6.0])
    proxies = [earlier, later]
    assert (shares_number(earlier, proxies), shares_number(later, proxies)) == (2, 0)
