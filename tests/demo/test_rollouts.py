"""Counts of dumped groups, and the example."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from demo.rollouts import Example, Rollouts


def line(task: str, *scores: float) -> str:
    asked = [{"role": "system", "content": "Think."}, {"role": "user", "content": "Is it\nthis?"}]
    replies = [(score, f"{'well, ' * 50}<answer>{score}</answer>") for score in scores]
    rollouts = [
        {"conversation": [*asked, {"role": "assistant", "content": reply}], "score": score} for score, reply in replies
    ]
    return json.dumps({"item_id": task, "rollouts": rollouts}) + "\n"


def test_counts_by_outcome(tmp_path: Path) -> None:
    rollouts = Rollouts(tmp_path)
    (tmp_path / "b.jsonl").write_text(line("gcd", 0.0, 1.0) + line("gcd", 1.0, 1.0))
    (tmp_path / "a.jsonl").write_text(line("maze", 0.0, 0.0) + line("lcm", 0.5, 0.5))
    rollouts.read_news()
    assert (rollouts.sent, rollouts.all_right, rollouts.all_wrong, rollouts.all_equal) == (1, 1, 1, 1)
    assert (rollouts.groups, rollouts.unsent, rollouts.mean_score) == (4, 3, 0.5)
    assert rollouts.tasks == {"gcd", "maze", "lcm"}
    assert rollouts.files == {tmp_path / "a.jsonl": 2, tmp_path / "b.jsonl": 2}


def test_counts_new_whole_lines(tmp_path: Path) -> None:
    (tmp_path / "earlier.jsonl").write_text(line("gcd", 0.0, 1.0))
    rollouts = Rollouts(tmp_path)
    (tmp_path / "notes.txt").write_text("not a dump\n")
    counts = []
    text = line("gcd", 0.0, 1.0) + line("gcd", 1.0, 1.0)
    for length in (0, len(text) // 3, len(text) // 2, len(text) - 1, len(text)):
        (tmp_path / "a.jsonl").write_text(text[:length])
        rollouts.read_news()
        counts.append(rollouts.groups)
    assert counts == [0, 0, 1, 1, 2]


@pytest.fixture
def example(tmp_path: Path) -> Example:
    rollouts = Rollouts(tmp_path)
    (tmp_path / "b.jsonl").write_text(line("lcm", 1.0, 1.0) + line("gcd", 0.5, 1.0, 0.0))
    rollouts.read_news()
    assert rollouts.example is not None
    return rollouts.example


def test_place_of_example(example: Example, tmp_path: Path) -> None:
    assert (example.path, example.line) == (tmp_path / "b.jsonl", 2)


def test_example_is_best_with_worst(example: Example) -> None:
    task, asked, best, worst = example.text.splitlines()
    assert task.split() == ["task", "gcd"]
    assert asked.endswith("Is it this?")
    assert best.startswith("1.00")
    assert best.endswith("<answer>1.0</answer>")
    assert worst.startswith("0.00")
    assert len(worst) < 120
