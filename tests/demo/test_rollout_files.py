"""Finding and showing what was dumped."""

from __future__ import annotations

import json
from pathlib import Path

from demo.rollout_files import DumpFile, find_dumps, find_example, measure


def dump(path: Path, *groups: list[float]) -> None:
    lines = []
    for scores in groups:
        rollouts = [
            {
                "conversation": [
                    {"role": "system", "content": "Think."},
                    {"role": "user", "content": "Is it\nthis?"},
                    {"role": "assistant", "content": f"{'well, ' * 50}<answer>{score}</answer>"},
                ],
                "score": score,
            }
            for score in scores
        ]
        lines.append(json.dumps({"item_id": "gcd", "rollouts": rollouts}) + "\n")
    path.write_text("".join(lines))


def test_files_are_listed_with_their_groups(tmp_path: Path) -> None:
    dump(tmp_path / "b.jsonl", [0.0, 1.0], [1.0, 1.0])
    dump(tmp_path / "a.jsonl", [0.0, 0.0])
    (tmp_path / "notes.txt").write_text("not a dump\n")
    assert measure(find_dumps(tmp_path)) == [DumpFile(tmp_path / "a.jsonl", 1), DumpFile(tmp_path / "b.jsonl", 2)]


def test_the_example_has_the_best_and_the_worst_rollout(tmp_path: Path) -> None:
    dump(tmp_path / "a.jsonl", [0.0, 0.0])
    dump(tmp_path / "b.jsonl", [1.0, 1.0], [0.5, 1.0, 0.0])
    example = find_example(measure(find_dumps(tmp_path)))
    assert example is not None
    assert (example.path, example.line) == (tmp_path / "b.jsonl", 2)
    task, asked, best, worst = example.text.splitlines()
    assert task.split() == ["task", "gcd"]
    assert asked.endswith("Is it this?")
    assert best.startswith("1.00")
    assert best.endswith("<answer>1.0</answer>")
    assert worst.startswith("0.00")
    assert len(worst) < 120


def test_rollouts_that_do_not_differ_give_no_example(tmp_path: Path) -> None:
    dump(tmp_path / "a.jsonl", [0.0, 0.0], [1.0, 1.0])
    assert find_example(measure(find_dumps(tmp_path))) is None
    assert find_example([]) is None
