"""The metrics of training: sums over groups, the most frequent answers, and dropped groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..records import DropReason
from .metric import Kind, Metric
from .outcomes import OUTCOMES, GroupOutcome, Sums, Tally
from .recorder import MetricsRecorder, RecentAnswers

TRAIN: Sequence[Metric[Sums]] = (
    Metric("train/mean_score", Kind.MEAN, "reward after the length penalty", lambda sums: sums.score),
    Metric("train/share_correct", Kind.SHARE, "completions with a score of 0.99 or more", lambda sums: sums.correct),
    Metric(
        "train/share_truncated", Kind.SHARE, "completions that reached the token limit", lambda sums: sums.truncated
    ),
    Metric(
        "train/mean_level", Kind.MEAN, "level of scored problems; absent if no task has levels", lambda sums: sums.level
    ),
    Metric("train/mean_prompt_tokens", Kind.MEAN, "tokens per prompt", lambda sums: sums.prompt_tokens),
    Metric("train/mean_completion_tokens", Kind.MEAN_MAX, "tokens per completion", lambda sums: sums.completion_tokens),
    Metric(
        "train_groups/OUTCOME",
        Kind.SHARE,
        "groups whose scores differ (`with_signal`) or are equal (`all_right`, `all_wrong`, otherwise `all_equal`)",
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
        "completions from whose answer NAME (formatting such as `quotes`) was removed",
        lambda sums: _shares(sums.frames, sorted(sums.frames), sums.completions.total()),
    ),
    Metric("time/mean_generation_s", Kind.MEAN_MAX, "seconds to generate a problem", lambda sums: sums.generation_s),
    Metric("time/mean_scoring_s", Kind.MEAN_MAX, "seconds to score an answer", lambda sums: sums.scoring_s),
)
TRAIN_TASKS: Sequence[Metric[Mapping[str, Sums]]] = (
    Metric(
        "train_tasks/TASK/mean_score",
        Kind.MEAN,
        "reward after the length penalty, by task",
        lambda tasks: {task: sums.score for task, sums in tasks.items()},
    ),
)
ANSWERS: Sequence[Metric[RecentAnswers]] = (
    Metric(
        "answers/most_frequent_share/TASK",
        Kind.NOW,
        f"share of the most frequent answer among a task's last {RecentAnswers.KEPT:,} answers",
        lambda answers: answers.shares_of_most_frequent(),
    ),
)
DROPPED: Sequence[Metric[MetricsRecorder]] = (
    Metric(
        "dropped/CAUSE",
        Kind.COUNT,
        "dropped groups, by cause",
        lambda recorder: {reason.value: recorder.dropped[reason] for reason in DropReason},
    ),
)


def _shares(counts: Mapping[str, int], names: Iterable[str], total: int) -> dict[str, Tally]:
    """Return a tally for each name, with the name's share of `total` as its mean."""
    return {str(name): Tally(total, counts.get(name, 0)) for name in names}
