"""Figures from dumps that the environment is writing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from learn.figures import DumpedGroups, figures_of

QUESTION = "Spell this word backward (example: sun -> nus): chess"


def group(*pairs: tuple[float, str], level: float | None = None) -> dict[str, Any]:
    conversation = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": "an answer"}]
    rollouts = [
        {"conversation": conversation, "score": score, "verifier_score": score, "answer": answer}
        for score, answer in pairs
    ]
    return {"item_id": "spell_backward", "rollouts": rollouts, "level": level}


def test_new_whole_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    path.write_text('{"a": 1}\n')
    dumped = DumpedGroups(tmp_path)
    with path.open("a") as file:
        file.write('{"a": 2}\n{"a"')
        file.flush()
        assert dumped.read_new() == [{"a": 2}]
        file.write(": 3}\n")
    (tmp_path / "two.jsonl").write_text(json.dumps({"a": 4}) + "\n")
    assert dumped.read_new() == [{"a": 3}, {"a": 4}]
    assert dumped.read_new() == []


def test_figures_are_means() -> None:
    figures = figures_of([group((1.0, "ssehc"), (0.0, "x"), level=0.5), group((1.0, "chess"), (1.0, "ssehc"))])
    means = {"rollouts": 4, "reward": 0.75, "signal": 0.5, "level": 0.5, "right": 0.5}
    assert figures == {**means, "full_marks": 3, "confirmed": 2}
    assert figures_of([])["reward"] is None
