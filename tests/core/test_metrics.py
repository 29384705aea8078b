from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning_env.metrics import MetricsRecorder, Outcome, classify, is_correct, task_metrics
from reasoning_env.records import (
    DeliveryStats,
    DropReason,
    DumpStats,
    Group,
    PoolStats,
    Reason,
    StreamStats,
    TaskReport,
    Verdict,
)

from .records import make_group, make_rollout

RIGHT = make_rollout(1.0)
WRONG = make_rollout(0.0)
HALF = make_rollout(0.5)
DUMPS = DumpStats(passed_groups=6, failed_groups=3, files_finished=1, waiting=2, dropped=4)
DELIVERY = DeliveryStats(delivered=8, waiting=5, dropped=1)
PENALISED = make_rollout(1.0, reward=0.0)
STREAM = StreamStats(ready=5, served=9, failures=4, flawed=3, quarantined=("maze", "sudoku"))
POOL = PoolStats(workers_replaced=3, timeouts=2, crashes=1, blocked=9, protocol_faults=7)


@pytest.mark.parametrize(
    ("rollouts", "outcome"),
    [
        ([RIGHT, WRONG], Outcome.KEPT),
        ([RIGHT, HALF], Outcome.KEPT),
        ([RIGHT, PENALISED], Outcome.KEPT),
        ([RIGHT, RIGHT], Outcome.ALL_RIGHT),
        ([PENALISED, PENALISED], Outcome.ALL_RIGHT),
        ([WRONG, WRONG], Outcome.ALL_WRONG),
        ([HALF, HALF], Outcome.ALL_EQUAL),
        ([RIGHT], Outcome.KEPT),
        ([WRONG], Outcome.KEPT),
    ],
)
def test_outcome_says_why_a_group_carries_no_signal(rollouts: list[object], outcome: Outcome) -> None:
    group = make_group(rollouts)  # type: ignore[arg-type]
    assert classify(group) is outcome
    assert MetricsRecorder().record_group(group) is outcome


@pytest.mark.parametrize(
    ("verdict", "correct"),
    [
        (None, False),
        (Verdict(1.0, Reason.SCORED), True),
        (Verdict(1.0 - 1e-12, Reason.SCORED), True),
        (Verdict(0.99, Reason.SCORED), False),
    ],
)
def test_correct_is_a_full_score(verdict: Verdict | None, correct: bool) -> None:
    assert is_correct(verdict) is correct


def _report(recorder: MetricsRecorder) -> dict[str, float]:
    return recorder.report(STREAM, POOL, queued_jobs=11)


SCORES = st.sampled_from([0.0, 0.25, 1.0])
GROUPS = st.lists(
    st.lists(st.builds(make_rollout, SCORES, st.sampled_from(Reason)), min_size=1, max_size=4).map(make_group),
    min_size=1,
    max_size=6,
)


@given(GROUPS)
def test_shares_of_reasons_and_outcomes_each_sum_to_one(groups: list[object]) -> None:
    recorder = MetricsRecorder()
    for group in groups:
        recorder.record_group(group)  # type: ignore[arg-type]
    report = _report(recorder)
    for prefix in ("train/reason/", "train/groups/"):
        shares = [value for name, value in report.items() if name.startswith(prefix)]
        assert sum(shares) == pytest.approx(1.0)
        assert all(0.0 <= share <= 1.0 for share in shares)
    assert len([name for name in report if name.startswith("train/reason/")]) == len(Reason)


def test_report_holds_means_and_shares_of_the_rollouts() -> None:
    recorder = MetricsRecorder()
    rollouts = [
        make_rollout(1.0, reward=0.5, prompt_tokens=2, completion_tokens=4, scoring_s=0.1),
        make_rollout(0.0, Reason.NO_ANSWER, prompt_tokens=2, completion_tokens=8, finish_reason="length"),
    ]
    recorder.record_group(make_group(rollouts, "maze", generation_s=0.5))
    recorder.record_group(make_group([make_rollout(1.0)] * 2, "sudoku", generation_s=1.5))
    expected = {
        "train/mean_score": (0.5 + 0.0 + 1.0 + 1.0) / 4,
        "train/share_correct": 3 / 4,
        "train/truncated_share": 1 / 4,
        "train/prompt_tokens_mean": 2.0,
        "train/completion_tokens_mean": (4 + 8 + 3 + 3) / 4,
        "train/completion_tokens_max": 8,
        "perf/generation_s_mean": 1.0,
        "perf/generation_s_max": 1.5,
        "perf/scoring_s_mean": 0.1 / 4,
        "perf/scoring_s_max": 0.1,
        "train/reason/scored": 3 / 4,
        "train/reason/no_answer": 1 / 4,
        "train/groups/kept": 1 / 2,
        "train/groups/all_right": 1 / 2,
        "train/groups/all_wrong": 0.0,
        "train/task_mean_score/maze": 0.25,
        "train/task_mean_score/sudoku": 1.0,
    }
    report = _report(recorder)
    assert {name: report[name] for name in expected} == pytest.approx(expected)


def test_report_ends_its_interval() -> None:
    recorder = MetricsRecorder()
    recorder.record_group(make_group([RIGHT, WRONG]))
    assert "train/mean_score" in _report(recorder)
    assert not [name for name in _report(recorder) if name.startswith("train/")]


def test_mean_level_is_that_of_the_problems_that_have_one() -> None:
    recorder = MetricsRecorder()
    for level in (0.25, None, 0.75):
        group = make_group([RIGHT, WRONG])
        recorder.record_group(replace(group, problem=replace(group.problem, level=level)))
    assert _report(recorder)["train/level_mean"] == 0.5
    recorder.record_group(make_group([RIGHT, WRONG]))
    assert "train/level_mean" not in _report(recorder)


def test_sampler_s_knowledge_becomes_metrics() -> None:
    report = {"gcd": TaskReport(0.25, 0.5, 0.75, 0.5), "acre": TaskReport(0.75, 1.0, 0.125, None)}
    assert task_metrics(report) == {
        "sampling/share/gcd": 0.25,
        "sampling/pass_rate/gcd": 0.5,
        "sampling/signal_chance/gcd": 0.75,
        "curriculum/level/gcd": 0.5,
        "sampling/share/acre": 0.75,
        "sampling/pass_rate/acre": 1.0,
        "sampling/signal_chance/acre": 0.125,
        "curriculum/level_mean": 0.5,
    }
    assert task_metrics({}) == {}


def test_report_tells_of_workers_stream_and_losses() -> None:
    recorder = MetricsRecorder()
    recorder.record_dropped(DropReason.SCORING)
    recorder.record_dropped(DropReason.SCORING)
    recorder.record_dropped(DropReason.PROMPT_TOO_LONG)
    assert _report(recorder) == {
        "dropped/inference_failed": 0,
        "dropped/scoring_failed": 2,
        "dropped/prompt_too_long": 1,
        "dropped/timed_out": 0,
        "dropped/undelivered": 0,
        "perf/queued_jobs": 11,
        "perf/ready_problems": 5,
        "workers/replaced": 3,
        "workers/timeouts": 2,
        "workers/crashes": 1,
        "workers/blocked": 9,
        "workers/protocol_faults": 7,
        "tasks/generation_failures": 4,
        "tasks/flawed_problems": 3,
        "tasks/quarantined": 2,
    }


def test_report_without_a_stream_leaves_its_metrics_out() -> None:
    assert "perf/ready_problems" not in MetricsRecorder().report(None, POOL, 0)


def test_report_tells_of_dumps_and_delivery() -> None:
    report = MetricsRecorder().report(None, POOL, 0, dumps=DUMPS, delivery=DELIVERY)
    assert {name: value for name, value in report.items() if name.startswith(("dumps/", "delivery/"))} == {
        "dumps/written": 9,
        "dumps/waiting": 2,
        "dumps/dropped": 4,
        "delivery/delivered": 8,
        "delivery/waiting": 5,
    }


def test_report_without_dumps_and_delivery_leaves_their_metrics_out() -> None:
    assert not [name for name in _report(MetricsRecorder()) if name.startswith(("dumps/", "delivery/"))]


def test_progress_line_is_words_of_key_and_value() -> None:
    recorder = MetricsRecorder()
    recorder.record_group(make_group([RIGHT, WRONG], "maze"))
    recorder.record_group(make_group([RIGHT, RIGHT], "sudoku"))
    recorder.record_dropped(DropReason.INFERENCE)
    line = recorder.progress_line(STREAM)
    assert re.fullmatch(r"progress:( [a-z_]+=[^ =]+)+", line)
    words = dict(word.split("=") for word in line.removeprefix("progress: ").split())
    assert words == {
        "groups": "2",
        "kept": "1",
        "all_right": "1",
        "all_wrong": "0",
        "all_equal": "0",
        "failed": "1",
        "mean_score": "0.750",
        "share_correct": "0.750",
        "tasks": "2",
        "quarantined": "2",
        "ready": "5",
    }


def test_progress_line_counts_since_the_start_not_since_the_report() -> None:
    recorder = MetricsRecorder()
    recorder.record_group(make_group([RIGHT, WRONG]))
    before = recorder.progress_line(None)
    _report(recorder)
    assert recorder.progress_line(None) == before


def test_progress_line_before_the_first_group_has_every_word() -> None:
    assert MetricsRecorder().progress_line(None) == (
        "progress: groups=0 kept=0 all_right=0 all_wrong=0 all_equal=0 failed=0 mean_score=nan share_correct=nan "
        "tasks=0 quarantined=0 ready=0"
    )


def test_progress_line_tells_of_waiting_and_lost_groups_where_there_are_some() -> None:
    recorder = MetricsRecorder()
    plain = recorder.progress_line(None)
    assert recorder.progress_line(None, dumps=DUMPS, delivery=DELIVERY) == f"{plain} waiting=5 dump_dropped=4"
    nothing = recorder.progress_line(None, dumps=replace(DUMPS, dropped=0), delivery=replace(DELIVERY, waiting=0))
    assert nothing == plain


# ---------------------------------------------------------------------------- saved and restored

NUMBERS = st.floats(0.0, 1e6)
ANY_GROUPS = st.builds(
    lambda rollouts, task, generation_s, level: replace(
        group := make_group(rollouts, task, generation_s=generation_s), problem=replace(group.problem, level=level)
    ),
    st.lists(
        st.builds(
            make_rollout,
            st.floats(0.0, 1.0),
            st.sampled_from(Reason),
            prompt_tokens=st.integers(0, 9),
            completion_tokens=st.integers(0, 9),
            finish_reason=st.sampled_from(["stop", "length"]),
            scoring_s=NUMBERS,
        ),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from(["maze", "sudoku", "gcd"]),
    NUMBERS,
    st.none() | st.floats(0.0, 1.0),
)
EVENTS = st.lists(st.one_of(ANY_GROUPS, st.sampled_from(DropReason), st.just("report")), max_size=12)


def _run(recorder: MetricsRecorder, events: list[object]) -> list[object]:
    """What the recorder tells in its reports and progress lines, one of each after the events too."""
    told: list[object] = []
    for event in [*events, "report"]:
        _feed(recorder, event, told)
    return told


def _feed(recorder: MetricsRecorder, event: object, told: list[object]) -> None:
    if isinstance(event, Group):
        recorder.record_group(event)
    elif isinstance(event, DropReason):
        recorder.record_dropped(event)
    else:
        told += [recorder.progress_line(STREAM), _report(recorder)]


@given(EVENTS, EVENTS)
def test_restored_recorder_tells_what_the_original_would(before: list[object], after: list[object]) -> None:
    original = MetricsRecorder()
    for event in before:
        _feed(original, event, [])
    restored = MetricsRecorder(json.loads(json.dumps(original.state())))
    assert _run(restored, after) == _run(original, after)
    assert restored.state() == original.state()


@given(st.lists(ANY_GROUPS, min_size=1, max_size=8))
def test_means_are_sums_in_the_order_of_arrival(groups: list[Group]) -> None:
    recorder = MetricsRecorder()
    for group in groups:
        recorder.record_group(group)
    total = 0.0
    for group in groups:
        total += group.problem.generation_s
    assert _report(recorder)["perf/generation_s_mean"] == total / len(groups)


def test_state_does_not_grow_with_the_groups() -> None:
    recorder = MetricsRecorder()
    for _ in range(2000):
        recorder.record_group(make_group([RIGHT, WRONG], generation_s=0.5))
    assert len(json.dumps(recorder.state())) < 1000
