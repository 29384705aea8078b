"""What the environment's dumps tell of all groups; those without a signal never reach a trainer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from reasoning_env import Verdict

from .tasks import TASKS, confirms


class DumpedGroups:
    """The groups that come to lie in a folder of dumps from now on."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}
        self.news()

    def news(self) -> list[dict[str, Any]]:
        """Return the groups since the last time, up to the last whole line of each file."""
        groups: list[dict[str, Any]] = []
        for path in sorted(self._folder.glob("*.jsonl")):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                news, newline, _ = file.read().rpartition(b"\n")
            self._read[path] = self._read.get(path, 0) + len(news) + len(newline)
            groups += map(json.loads, news.splitlines())
        return groups


def figures_of(groups: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return means over the groups, None where there are none, and a second opinion of the answers.

    `right` is the share of all rollouts that it takes for right, `confirmed` the number of those with full marks.
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
        "full_marks": sum(full for full, _ in opinions),
        "confirmed": sum(full and right for full, right in opinions),
    }


def _mean(values: Sequence[float]) -> float | None:
    return round(sum(values) / len(values), 4) if values else None
