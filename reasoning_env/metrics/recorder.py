"""Count groups: since the last report, since the start, and by task."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping

from ..records import DropReason, Group
from .outcomes import Sums
from .remarks import outcome_remarks

logger = logging.getLogger(__name__)


class RecentAnswers:
    """The latest answers of each task, to detect a policy that gives the same answer to all problems of a task."""

    KEPT = 1_000
    """Number of answers kept per task. The share of one answer among them has a standard error of at most 0.016."""

    def __init__(self) -> None:
        self._hashes: defaultdict[str, deque[int]] = defaultdict(deque)
        """Hashes of each task's latest answers. A hash takes less memory than an answer of up to 20,000 characters."""
        self._counts: defaultdict[str, Counter[int]] = defaultdict(Counter)
        """How often each hash is in `_hashes`, by task. With 106 tasks, counting all hashes anew would take 18 ms."""

    def add(self, task: str, answers: Iterable[str | None]) -> None:
        """Record the answers of completions for a task's problems. None stands for a completion without an answer."""
        hashes, counts = self._hashes[task], self._counts[task]
        for added in [hash(answer) for answer in answers if answer is not None]:
            hashes.append(added)
            counts[added] += 1
            if len(hashes) > self.KEPT:
                oldest = hashes.popleft()
                counts[oldest] -= 1
                if not counts[oldest]:
                    del counts[oldest]

    def shares_of_most_frequent(self) -> dict[str, float]:
        """Return the share of the most frequent answer among the model's latest answers, by task."""
        return {task: max(counts.values()) / counts.total() for task, counts in sorted(self._counts.items()) if counts}


class MetricsRecorder:
    """Counts groups that were scored or dropped. Use a recorder on the event loop only."""

    REMARK_INTERVAL = 200
    """Number of completions between two checks of the shares of outcomes."""

    def __init__(self) -> None:
        self.last_level: dict[str, float | None] = {}
        """By task, the level of the last scored problem; None if the problem has the library's default parameters."""
        self.dropped: Counter[str] = Counter()
        self.answers = RecentAnswers()
        self._interval: defaultdict[str, Sums] = defaultdict(Sums)
        """Totals since the last call of `take_interval`, by task."""
        self._before: defaultdict[str, Sums] = defaultdict(Sums)
        """Totals of all intervals that `take_interval` has returned, by task."""
        self._latest: Counter[str] = Counter()
        self._logged: set[str] = set()
        self.token_limit = "max_token_length, or the trainer's limit for completions"
        """The token limit's name in warnings. An adapter sets the trainer's option."""

    def record_group(self, group: Group) -> None:
        """Count a scored group, even if the group will not be sent to a trainer."""
        task = group.problem.task
        outcomes = self._interval[task].add(group)
        self.last_level[task] = group.problem.level
        self.answers.add(task, [rollout.verdict.answer for rollout in group.rollouts if rollout.verdict is not None])
        self._latest.update(outcomes)
        if self._latest.total() >= self.REMARK_INTERVAL:
            self._log_remarks()

    def _log_remarks(self) -> None:
        total = self._latest.total()
        shares = {word: count / total for word, count in self._latest.items()}
        self._latest.clear()
        remarks = outcome_remarks(shares, self.token_limit)
        for word, remark in remarks.items():
            if word not in self._logged:
                self._logged.add(word)
                logger.warning("a frequent outcome of the last %d completions: %s", total, remark)

    def record_dropped(self, reason: DropReason) -> None:
        self.dropped[reason.value] += 1

    @property
    def by_task(self) -> Mapping[str, Sums]:
        """The totals of each task's groups since the start, by task."""
        tasks = self._before.keys() | self._interval.keys()
        parts = (self._before, self._interval)
        return {task: Sums.merged(part[task] for part in parts if task in part) for task in sorted(tasks)}

    @property
    def total(self) -> Sums:
        """The totals of all groups since the start."""
        return Sums.merged([*self._before.values(), *self._interval.values()])

    def take_interval(self) -> Mapping[str, Sums]:
        """Return the totals since the last call, by task, and start a new interval."""
        taken, self._interval = self._interval, defaultdict(Sums)
        for task, sums in taken.items():
            self._before[task].merge(sums)
        return taken
