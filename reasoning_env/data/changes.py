"""Scores of stored completions before and after they were judged again."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import astuple, dataclass, field

from ..metrics.outcomes import Tally
from ..runtime.terminal import Table
from .verdict_files import NumberedRow
from .verdicts import RowVerdicts


@dataclass(frozen=True)
class Change:
    """A completion whose score changed."""

    task: str
    seed: int | None
    before: float
    after: float
    reason: str
    answer: str | None


@dataclass
class Rescored:
    """Scores by task before and after rescoring, the completions whose score changed, and the rows without scores."""

    groups: int = 0
    before: defaultdict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    after: defaultdict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    changes: list[Change] = field(default_factory=list)
    left_out: list[RowVerdicts] = field(default_factory=list)
    """Skipped rows, in order."""
    without_score: int = 0
    """Number of groups that could not be judged because of an infrastructure error."""

    def add(self, numbered: NumberedRow, added: RowVerdicts) -> None:
        """Add a row's new verdicts, or the reason why the row is skipped."""
        group = numbered.group
        self.groups += group is not None
        if group is None or "left_out" in added:
            self.left_out.append(added)
            return
        scores, reasons = added["scores"], added["reasons"]
        if scores is None or reasons is None:
            self.without_score += 1
            return
        task = group.item_id
        judged = zip(group.rollouts, scores, reasons, added["answers"], strict=True)
        for rollout, score, reason, answer in judged:
            before = rollout.judged_score
            self.before[task].add(before)
            self.after[task].add(score)
            if not math.isclose(score, before, abs_tol=1e-6):
                self.changes.append(Change(task, group.seed, before, score, reason, answer or rollout.answer))

    def tables(self) -> dict[str, Table]:
        changed = Counter(change.task for change in self.changes)
        rows = [
            (task, before.count, before.mean, self.after[task].mean, changed[task])
            for task, before in sorted(self.before.items())
        ]
        scores = {"BEFORE": ".3f", "AFTER": ".3f"}
        changes = [astuple(change) for change in self.changes]
        return {
            "changes": Table({"TASK": "", "SEED": "d", **scores, "REASON": "", "ANSWER": ""}, changes),
            "tasks": Table({"TASK": "", "ROLLOUTS": "d", **scores, "CHANGED": "d"}, rows),
        }
