"""Reads what the environment says about itself: the lines `progress: key=value ...` in its log."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LINE = re.compile(r"progress: ((?:\w+=\S+ ?)+)")


@dataclass(frozen=True)
class Progress:
    """Counts since the environment's start.

    Groups whose scores are all 1, all 0, or all equal at something between teach nothing: they were dropped.
    """

    groups: int = 0
    kept: int = 0
    all_right: int = 0
    all_wrong: int = 0
    all_equal: int = 0
    failed: int = 0
    tasks: int = 0
    mean_score: float = 0.0

    @property
    def dropped(self) -> int:
        """Groups that were completed and scored, and not sent to the trainer."""
        return self.all_right + self.all_wrong + self.all_equal


def newest_progress(log: str) -> Progress:
    """Return what the last complete progress line of a log says; all zeros where there is none."""
    complete, _, _ = log.rpartition("\n")
    lines = _LINE.findall(complete)
    if not lines:
        return Progress()
    values = dict(pair.split("=", 1) for pair in lines[-1].split())
    return Progress(
        groups=int(values.get("groups", 0)),
        kept=int(values.get("kept", 0)),
        all_right=int(values.get("all_right", 0)),
        all_wrong=int(values.get("all_wrong", 0)),
        all_equal=int(values.get("all_equal", 0)),
        failed=int(values.get("failed", 0)),
        tasks=int(values.get("tasks", 0)),
        mean_score=float(values.get("mean_score", 0.0)),
    )
