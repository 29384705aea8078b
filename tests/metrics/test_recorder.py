from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning_env.metrics.metric import for_wandb, read
from reasoning_env.metrics.outcomes import OUTCOMES, GroupOutcome, Sums
from reasoning_env.metrics.progress import ProgressReader, progress_line
from reasoning_env.metrics.recorder import MetricsRecorder
from reasoning_env.metrics.stats import DeliveryStats, DumpStats, StreamStats
from reasoning_env.metrics.training import DROPPED, TRAIN, TRAIN_TASKS
from reasoning_env.records import DropReason, Group, Reason
from tests.records import make_group, make_rollout

RIGHT = make_rollout(1.0)
WRONG = make_rollout(0.0)
STREAM = StreamStats(ready=5, in_flight=3, quarantined=("maze", "sudoku"))
DUMPS = DumpStats(passed_groups=6, failed_groups=3, waiting=2, dropped=4)
DELIVERY = DeliveryStats(delivered=8, waiting=5)


def recorded(*groups: Group) -> MetricsRecorder:
    recorder = MetricsRecorder()
    for group in groups:
        recorder.record_group(group)
    return recorder


def reported(recorder: MetricsRecorder) -> dict[str, float]:
    """Return the metrics for wandb about the groups since the last report."""
    return values_of(recorder.take_interval())


def values_of(groups: Mapping[str, Sums]) -> dict[str, float]:
    return for_wandb([*read(TRAIN, Sums.merged(groups.values())), *read(TRAIN_TASKS, groups)])


# ---------------------------------------------------------------------------- reports


def test_training_metrics_are_means_over_all_rollouts() -> None:
    rollouts = [
        make_rollout(1.0, reward=0.5, prompt_tokens=2, completion_tokens=4, scoring_s=0.1),
        make_rollout(0.0, Reason.NO_ANSWER, prompt_tokens=2, completion_tokens=8, finish_reason="length"),
    ]
    easy = make_group([make_rollout(1.0)] * 2, "sudoku", generation_s=1.5, level=0.25)
    report = reported(recorded(make_group(rollouts, "maze", generation_s=0.5), easy))
    assert {name: value for name, value in report.items() if value} == pytest.approx(
        {
            "train/mean_score": (0.5 + 0.0 + 1.0 + 1.0) / 4,
            "train/share_correct": 3 / 4,
            "train/share_truncated": 1 / 4,
            "train/mean_prompt_tokens": 2.0,
            "train/mean_completion_tokens": (4 + 8 + 3 + 3) / 4,
            "train/max_completion_tokens": 8,
            "train/mean_level": 0.25,
            "time/mean_generation_s": 1.0,
            "time/max_generation_s": 1.5,
            "time/mean_scoring_s": 0.1 / 4,
            "time/max_scoring_s": 0.1,
            "train_reasons/right": 3 / 4,
            "train_reasons/truncated": 1 / 4,
            "train_groups/with_signal": 1 / 2,
            "train_groups/all_right": 1 / 2,
            "train_tasks/maze/mean_score": 0.25,
            "train_tasks/sudoku/mean_score": 1.0,
        }
    )


ANY_GROUPS = st.builds(
    make_group,
    st.lists(
        st.builds(
            make_rollout,
            st.floats(0.0, 1.0),
            st.sampled_from(Reason),
            completion_tokens=st.integers(0, 9),
            finish_reason=st.sampled_from(["stop", "length"]),
            scoring_s=st.floats(0.0, 1e6),
        ),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from(["maze", "sudoku", "gcd"]),
    generation_s=st.floats(0.0, 1e6),
    level=st.none() | st.floats(0.0, 1.0),
)


@given(st.lists(ANY_GROUPS, min_size=1, max_size=6))
def test_outcome_shares_sum_to_one(groups: list[Group]) -> None:
    report = reported(recorded(*groups))
    for prefix, words in (("train_reasons/", OUTCOMES), ("train_groups/", GroupOutcome)):
        shares = {name.removeprefix(prefix): value for name, value in report.items() if name.startswith(prefix)}
        assert set(shares) == set(words)
        assert sum(shares.values()) == pytest.approx(1.0)


def test_metrics_include_the_share_of_each_kind_of_answer_formatting() -> None:
    framed = replace(RIGHT, verdict=replace(RIGHT.verdict, frames=("label", "code", "label")))
    report = reported(recorded(make_group([framed, RIGHT, RIGHT, WRONG])))
    frames = {name: share for name, share in report.items() if name.startswith("answers/")}
    assert frames == {"answers/frame/label": 0.25, "answers/frame/code": 0.25}


def test_counts_of_dropped_groups_are_cumulative() -> None:
    recorder = recorded(make_group([RIGHT, WRONG], level=0.5))
    for reason in (DropReason.SCORING, DropReason.SCORING, DropReason.PROMPT_TOO_LONG):
        recorder.record_dropped(reason)
    recorder.take_interval()
    assert reported(recorder) == {}
    assert for_wandb(read(DROPPED, recorder)) == {
        "dropped": 3,
        "dropped/inference_failed": 0,
        "dropped/scoring_failed": 2,
        "dropped/prompt_too_long": 1,
        "dropped/timed_out": 0,
        "dropped/undelivered": 0,
    }


def test_recorder_keeps_the_latest_level_of_each_task() -> None:
    recorder = recorded(
        *[make_group([RIGHT], "maze", level=level) for level in (0.5, 0.25)], make_group([RIGHT], "gcd")
    )
    assert recorder.last_level == {"maze": 0.25, "gcd": None}


def test_totals_of_a_task_include_groups_of_earlier_reports() -> None:
    recorder = recorded(make_group([RIGHT, WRONG]))
    recorder.take_interval()
    recorder.record_group(make_group([RIGHT, RIGHT]))
    assert values_of(recorder.by_task)["train/mean_score"] == 0.75
    assert reported(recorder)["train/mean_score"] == 1.0


# ---------------------------------------------------------------------------- the progress line


def words(line: str) -> dict[str, str]:
    assert line.startswith("progress: ")
    return dict(word.split("=") for word in line.removeprefix("progress: ").split())


def test_progress_line_has_totals_since_the_start() -> None:
    recorder = recorded(make_group([RIGHT, WRONG], "maze"), make_group([RIGHT, RIGHT], "sudoku"))
    recorder.record_dropped(DropReason.INFERENCE)
    recorder.take_interval()
    line, _, rates = progress_line(ProgressReader(recorder).read(STREAM, step=4)).partition(" groups_per_s=")
    assert line == (
        "progress: groups=2 with_signal=1 all_right=1 all_wrong=0 all_equal=0 failed=1 mean_score=0.750 "
        "share_correct=0.750 tasks=2 quarantined=2 ready=5 in_flight=3"
    )
    assert rates.endswith(" step=4")


def test_progress_line_covers_only_the_time_since_the_previous_line() -> None:
    now = [0.0]
    recorder = MetricsRecorder()
    reader = ProgressReader(recorder, lambda: now[0])
    recorder.record_group(make_group([WRONG, WRONG], level=1.0))
    now[0] = 40.0
    reader.read(StreamStats())
    recorder.record_group(make_group([RIGHT, WRONG], level=0.25))
    recorder.record_group(make_group([RIGHT, RIGHT]))
    now[0] = 100.0
    tokens = sum(len(rollout.masks) - rollout.masks.count(-100) for rollout in [RIGHT, WRONG, RIGHT, RIGHT])
    line = words(progress_line(reader.read(StreamStats())))
    assert float(line["groups_per_s"]) == pytest.approx(2 / 60, abs=0.01)
    assert float(line["tokens_per_s"]) == pytest.approx(tokens / 60, abs=0.5)
    assert (line["recent_score"], line["level"]) == ("0.750", "0.25")


def test_progress_line_omits_an_unknown_mean_score_and_empty_queues() -> None:
    plain = read_words()
    assert plain.keys() & {"mean_score", "share_correct"} == set()
    assert {float(value) for value in plain.values()} == {0.0}
    assert read_words(DUMPS, DELIVERY).items() - plain.items() >= {("waiting", "5"), ("dump_dropped", "4")}
    idle = read_words(replace(DUMPS, dropped=0), replace(DELIVERY, waiting=0))
    assert idle.keys() & {"waiting", "dump_dropped"} == set()


def read_words(dumps: DumpStats | None = None, delivery: DeliveryStats | None = None) -> dict[str, str]:
    """Return the words of the progress line before the first group."""
    return words(progress_line(ProgressReader(MetricsRecorder()).read(StreamStats(), dumps, delivery)))


# ---------------------------------------------------------------------------- remarks


def test_note_on_completions_without_answer_tags_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    unanswered = make_group([make_rollout(0.0, Reason.NO_ANSWER)] * 5 + [RIGHT] * 5)
    recorded(*[unanswered] * 60)
    [record] = caplog.records
    assert record.getMessage().startswith("a frequent outcome of the last 200 completions: 50% of completions have no")


def test_frequent_outcome_in_the_latest_200_completions_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The note after completions 201 to 400 does not count the first 200."""
    groups = [make_group([make_rollout(0.0, Reason.NO_ANSWER)] * 4 + [RIGHT] * 6)] * 20
    recorded(*groups, *[make_group([make_rollout(0.0, Reason.NO_ANSWER)] * 6 + [RIGHT] * 4)] * 20)
    assert [record.getMessage()[:51] for record in caplog.records] == [
        "a frequent outcome of the last 200 completions: 60%"
    ]
