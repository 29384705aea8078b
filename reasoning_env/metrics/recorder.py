"""Count groups, completions and scores: since the last report, since the start, by task, and over the last minute.

Shares and scores are in [0, 1], times in seconds, lengths in tokens.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Self

from ..records import DropReason, Ending, Group
from .metric import Kind, Metric
from .outcomes import OUTCOMES, GroupOutcome, Tally, outcome_of, outcome_of_group, outcome_remarks
from .stats import DeliveryStats, DumpStats, StreamStats

logger = logging.getLogger(__name__)


@dataclass
class Sums:
    """Totals over a set of groups: numbers of groups and completions, and tallies over completions.

    `frames` counts completions by the formatting that was removed. `level` and `generation_s` are tallies over
    problems.
    """

    groups: Counter[str] = field(default_factory=Counter)
    completions: Counter[str] = field(default_factory=Counter)
    frames: Counter[str] = field(default_factory=Counter)
    score: Tally = field(default_factory=Tally)
    correct: Tally = field(default_factory=Tally)
    unanswered: Tally = field(default_factory=Tally)
    truncated: Tally = field(default_factory=Tally)
    level: Tally = field(default_factory=Tally)
    prompt_tokens: Tally = field(default_factory=Tally)
    completion_tokens: Tally = field(default_factory=Tally)
    generation_s: Tally = field(default_factory=Tally)
    scoring_s: Tally = field(default_factory=Tally)

    @classmethod
    def of(cls, group: Group) -> Self:
        """Return the totals of one scored group."""
        problem, rollouts = group.problem, group.rollouts
        verdicts = [rollout.verdict for rollout in rollouts if rollout.verdict is not None]
        assert len(verdicts) == len(rollouts), "only scored rollouts are recorded"
        correct = [verdict.correct for verdict in verdicts]
        unanswered = [verdict.answer is None for verdict in verdicts]
        seconds = [verdict.scoring_s for verdict in verdicts]
        cut = [rollout.ending is Ending.CUT for rollout in rollouts]
        tokens = [rollout.completion_tokens for rollout in rollouts]
        counts = [count for count in tokens if count is not None]
        prompts = [len(each.tokens) - (count or 0) for each, count in zip(rollouts, tokens, strict=True) if each.tokens]
        frames = [frame for verdict in verdicts for frame in set(verdict.frames)]
        scores = group.scores
        sums = cls(Counter([outcome_of_group(group).value]), Counter(map(outcome_of, rollouts)), Counter(frames))
        sums.score.add(*scores)
        sums.correct.add(*correct)
        sums.unanswered.add(*unanswered)
        sums.truncated.add(*cut)
        sums.prompt_tokens.add(*prompts)
        sums.completion_tokens.add(*counts)
        sums.generation_s.add(problem.generation_s)
        sums.scoring_s.add(*seconds)
        if problem.level is not None:
            sums.level.add(problem.level)
        return sums

    @classmethod
    def merged(cls, parts: Iterable[Sums]) -> Self:
        """Return the sum of several totals."""
        total = cls()
        for part in parts:
            total.merge(part)
        return total

    def merge(self, other: Sums) -> None:
        """Add other totals to these."""
        for each in fields(self):
            mine, others = getattr(self, each.name), getattr(other, each.name)
            if isinstance(mine, Tally):
                mine.merge(others)
            else:
                mine.update(others)


TRAIN: Sequence[Metric[Sums]] = (
    Metric("train/mean_score", Kind.MEAN, "reward after the length penalty", lambda sums: sums.score),
    Metric("train/share_correct", Kind.SHARE, "completions with a score of 0.99 or more", lambda sums: sums.correct),
    Metric(
        "train/share_truncated", Kind.SHARE, "completions that reached the token limit", lambda sums: sums.truncated
    ),
    Metric("train/mean_level", Kind.MEAN, "level of problems; absent if no task has levels", lambda sums: sums.level),
    Metric("train/mean_prompt_tokens", Kind.MEAN, "tokens of a prompt", lambda sums: sums.prompt_tokens),
    Metric(
        "train/mean_completion_tokens", Kind.MEAN_MAX, "tokens of a completion", lambda sums: sums.completion_tokens
    ),
    Metric(
        "train_groups/OUTCOME",
        Kind.SHARE,
        "groups whose scores differ (`with_signal`), or are equal (`all_right`, `all_wrong`, `all_equal`)",
        lambda sums: _shares(sums.groups, GroupOutcome, sums.groups.total()),
    ),
    Metric(
        "train_reasons/REASON",
        Kind.SHARE,
        "completions by outcome: `right`, `partial`, `wrong`, `truncated`, or the reason for a score of 0",
        lambda sums: _shares(sums.completions, OUTCOMES, sums.completions.total()),
    ),
    Metric(
        "answers/frame/NAME",
        Kind.SHARE,
        "completions whose answer had formatting that was removed, by kind",
        lambda sums: _shares(sums.frames, sorted(sums.frames), sums.completions.total()),
    ),
    Metric("time/mean_generation_s", Kind.MEAN_MAX, "seconds to generate a problem", lambda sums: sums.generation_s),
    Metric("time/mean_scoring_s", Kind.MEAN_MAX, "seconds to score an answer", lambda sums: sums.scoring_s),
)
TRAIN_TASKS: Sequence[Metric[Mapping[str, Sums]]] = (
    Metric(
        "train_tasks/TASK/mean_score",
        Kind.MEAN,
        "reward, by task",
        lambda tasks: {task: sums.score for task, sums in tasks.items()},
    ),
)


def _shares(counts: Mapping[str, int], words: Iterable[str], total: int) -> dict[str, Tally]:
    """Return the count of each word as a share of `total`."""
    return {str(word): Tally(total, counts.get(word, 0)) for word in words}


class RecentAnswers:
    """The latest answers of each task, to detect a collapsed policy with the same answer to all problems of a task."""

    KEPT = 1_000
    """Number of answers kept per task. The standard error of a share is then at most 0.016."""

    def __init__(self) -> None:
        self._hashes: defaultdict[str, deque[int]] = defaultdict(deque)
        """Hashes of the latest answers, because an answer may have 20,000 characters."""
        self._counts: defaultdict[str, Counter[int]] = defaultdict(Counter)
        """Counts of these hashes. Updating them with each answer is cheap; counting 106,000 at once takes 18 ms."""

    def add(self, task: str, answers: Iterable[str | None]) -> None:
        """Add answers to problems of a task. None stands for a completion without an answer."""
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
        """Return the share of the most frequent answer, for each task with an answer."""
        return {task: max(counts.values()) / counts.total() for task, counts in sorted(self._counts.items()) if counts}


ANSWERS: Sequence[Metric[RecentAnswers]] = (
    Metric(
        "answers/most_frequent_share/TASK",
        Kind.NOW,
        f"share of the most frequent answer among the last {RecentAnswers.KEPT:,} of a task",
        lambda answers: answers.shares_of_most_frequent(),
    ),
)


class RecentRates:
    """Rates of groups and tokens, mean score and mean level over the last minute. `clock` returns monotonic seconds."""

    WINDOW_S = 60

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began_s = clock()
        self._seconds: dict[int, Sums] = {}
        """The totals of each second, the oldest first."""

    def add(self, group: Sums) -> None:
        second = int(self._clock())
        self._forget(second)
        self._seconds.setdefault(second, Sums()).merge(group)

    def _forget(self, second: int) -> None:
        while self._seconds and (oldest := next(iter(self._seconds))) <= second - self.WINDOW_S:
            del self._seconds[oldest]

    def words(self) -> dict[str, str]:
        """Return rates and, if there are recent groups, means, for the progress line."""
        now_s = self._clock()
        self._forget(int(now_s))
        recent = Sums.merged(self._seconds.values())
        span_s = max(min(now_s - self._began_s, self.WINDOW_S), 1e-3)
        words = {
            "groups_per_s": f"{recent.groups.total() / span_s:.2f}",
            "tokens_per_s": f"{recent.completion_tokens.total / span_s:.0f}",
        }
        if recent.score.mean is not None:
            words["recent_score"] = f"{recent.score.mean:.3f}"
        if recent.level.mean is not None:
            words["level"] = f"{recent.level.mean:.2f}"
        return words


class MetricsRecorder:
    """Counts groups and dropped problems. Use it on the event loop only.

    A group is added to two totals: the total of its task since the last report, and the total of the current second.
    All other totals are computed from these when they are read.
    """

    REMARK_INTERVAL = 200
    """Number of completions after which the shares of outcomes are checked."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.last_level: dict[str, float | None] = {}
        """The level of the last problem by task; None for the library's defaults."""
        self.dropped: Counter[str] = Counter()
        self.answers = RecentAnswers()
        self._interval: defaultdict[str, Sums] = defaultdict(Sums)
        """Totals since the last call of `take_interval`, by task."""
        self._before: defaultdict[str, Sums] = defaultdict(Sums)
        """Totals before the last call of `take_interval`, by task."""
        self._recent = RecentRates(clock)
        self._latest: Counter[str] = Counter()
        self._logged: set[str] = set()
        self.token_limit = "max_token_length, or the trainer's own for completions"
        """Name of the token limit in remarks. An adapter that knows its trainer's option sets its name."""

    def record_group(self, group: Group) -> None:
        """Count a scored group, even if the group will not be sent to a trainer."""
        task, sums = group.problem.task, Sums.of(group)
        self._interval[task].merge(sums)
        self._recent.add(sums)
        self.last_level[task] = group.problem.level
        self.answers.add(task, [rollout.verdict.answer for rollout in group.rollouts if rollout.verdict is not None])
        self._latest.update(sums.completions)
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
                logger.warning("of the last %d completions: %s", total, remark)

    def record_dropped(self, reason: DropReason) -> None:
        self.dropped[reason.value] += 1

    @property
    def by_task(self) -> Mapping[str, Sums]:
        """The totals since the start, by task."""
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

    def progress(
        self,
        stream: StreamStats,
        dumps: DumpStats | None = None,
        delivery: DeliveryStats | None = None,
        *,
        step: int | None = None,
    ) -> dict[str, object]:
        """Return totals and recent rates by name. Means and numbers of waiting and lost groups are optional."""
        total = self.total
        means = {"mean_score": total.score.mean, "share_correct": total.correct.mean}
        words: dict[str, object] = {
            "groups": total.groups.total(),
            **{outcome.value: total.groups[outcome] for outcome in GroupOutcome},
            "failed": self.dropped.total(),
            **{name: f"{mean:.3f}" for name, mean in means.items() if mean is not None},
            "tasks": len(self.last_level),
            "quarantined": len(stream.quarantined),
            "ready": stream.ready,
            "in_flight": stream.in_flight,
            **self._recent.words(),
        }
        if step is not None:
            words["step"] = step
        if delivery is not None and delivery.waiting:
            words["waiting"] = delivery.waiting
        if dumps is not None and dumps.dropped:
            words["dump_dropped"] = dumps.dropped
        return words


DROPPED: Sequence[Metric[MetricsRecorder]] = (
    Metric(
        "dropped/CAUSE",
        Kind.COUNT,
        "dropped groups, by cause",
        lambda recorder: {reason.value: recorder.dropped[reason] for reason in DropReason},
    ),
)


def progress_line(progress: Mapping[str, object]) -> str:
    """Format the result of `MetricsRecorder.progress` as `key=value` words."""
    return "progress: " + " ".join(f"{name}={value}" for name, value in progress.items())
