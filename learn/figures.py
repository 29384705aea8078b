"""Figures of all groups, from the environment's dumps, because groups with equal scores never reach the trainer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from reasoning_env import Verdict

from .tasks import TASKS, confirms


class DumpedGroups:
    """Groups added to a folder of dumps since this object was made."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}
        self.read_new()

    def read_new(self) -> list[dict[str, Any]]:
        """Return the groups since the last call, up to the last complete line of each file."""
        groups: list[dict[str, Any]] = []
        for path in sorted(self._folder.glob("*.jsonl")):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                whole_lines, newline, _ = file.read().rpartition(b"\n")
            self._read[path] = self._read.get(path, 0) + len(whole_lines) + len(newline)
            groups += map(json.loads, whole_lines.splitlines())
        return groups


def figures_of(groups: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return means over the groups (None without groups), and the results of a second check of the answers.

    `right` is the share of rollouts that the second check accepts. `confirmed` is the number of rollouts with full
    marks that the second check accepts.
    """
    groups = list(groups)
    rollouts = [(group, rollout) for group in groups for rollout in group["rollouts"]]
    opinions = [
        (
            rollout["verifier_score"] >= Verdict.CORRECT_SCORE,
            confirms(group["item_id"], rollout["conversation"][-2]["content"], rollout["answer"] or ""),
        )
        for group, rollout in rollouts
        if group["item_id"] in TASKS
    ]
    return {
        "rollouts": len(rollouts),
        "reward": _mean([rollout["score"] for _, rollout in rollouts]),
        "signal": _mean([len({rollout["score"] for rollout in group["rollouts"]}) > 1 for group in groups]),
        "level": _mean([group["level"] for group in groups if group["level"] is not None]),
        "right": _mean([right for _, right in opinions]),
        "full_marks": sum(1 for full, _ in opinions if full),
        "confirmed": sum(1 for full, right in opinions if full and right),
    }


def _mean(values: Sequence[float]) -> float | None:
    return round(sum(values) / len(values), 4) if values else None
