"""Read the environment's dumps while they grow: number of groups, scores, and an example."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

QUESTION_CHARS = 200
REPLY_CHARS = 100


@dataclass(frozen=True)
class Example:
    """A group with unequal scores: a few lines that show it, its file, and its line number, counted from 1."""

    text: str
    path: Path
    line: int


@dataclass
class Rollouts:
    """The groups written to a folder of dumps since this object was made, up to the last call of `read_new_groups`.

    Groups with equal scores are not sent to the trainer.
    """

    folder: Path
    sent: int = 0
    all_right: int = 0
    all_wrong: int = 0
    all_equal: int = 0
    score_sum: float = 0.0
    tasks: set[str] = field(default_factory=set)
    example: Example | None = None
    files: dict[Path, int] = field(default_factory=dict)
    """Number of groups in each file."""

    def __post_init__(self) -> None:
        self._earlier = set(self.folder.iterdir())
        self._read_bytes: dict[Path, int] = {}

    @property
    def groups(self) -> int:
        return sum(self.files.values())

    @property
    def unsent(self) -> int:
        """Scored groups that were not sent to the trainer."""
        return self.groups - self.sent

    @property
    def mean_score(self) -> float:
        """Mean of the groups' mean scores."""
        return self.score_sum / max(1, self.groups)

    def read_new_groups(self) -> None:
        """Read the lines written since the last call, up to the last complete line of each file."""
        for path in sorted(set(self.folder.glob("*.jsonl")) - self._earlier):
            with path.open("rb") as file:
                file.seek(self._read_bytes.get(path, 0))
                news, _, _ = file.read().rpartition(b"\n")
            if news:
                self._read_bytes[path] = self._read_bytes.get(path, 0) + len(news) + 1
                for line in news.split(b"\n"):
                    self._take(path, json.loads(line))

    def _take(self, path: Path, group: Mapping[str, Any]) -> None:
        self.files[path] = self.files.get(path, 0) + 1
        rollouts = sorted(group["rollouts"], key=lambda rollout: float(rollout["score"]))
        worst, best = rollouts[0]["score"], rollouts[-1]["score"]
        self.tasks.add(group["item_id"])
        self.score_sum += sum(rollout["score"] for rollout in rollouts) / len(rollouts)
        if worst < best:
            self.sent += 1
            if self.example is None:
                self.example = Example(_show(group["item_id"], rollouts[-1], rollouts[0]), path, self.files[path])
        elif best == 1.0:
            self.all_right += 1
        elif best == 0.0:
            self.all_wrong += 1
        else:
            self.all_equal += 1


def _show(task: str, best: Mapping[str, Any], worst: Mapping[str, Any]) -> str:
    question = next(turn["content"] for turn in best["conversation"] if turn["role"] == "user")
    lines = [f"task   {task}", f"asked  {_shorten(question, QUESTION_CHARS)}"]
    for rollout in (best, worst):
        reply = _shorten(rollout["conversation"][-1]["content"], REPLY_CHARS, keep_end=True)
        lines.append(f"{rollout['score']:.2f}   {reply}")
    return "\n".join(lines)


def _shorten(text: str, most: int, *, keep_end: bool = False) -> str:
    text = " ".join(text.split())
    if len(text) <= most:
        return text
    return f"... {text[-most:]}" if keep_end else f"{text[:most]} ..."
