"""Convert statistics of the program's parts to metrics for wandb and Prometheus."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector

from reasoning_env.metrics.metric import Kind, Metric, Reading, for_wandb, read
from reasoning_env.metrics.outcomes import Tally
from reasoning_env.metrics.prometheus import family_of
from reasoning_env.metrics.recorder import RecentAnswers
from reasoning_env.metrics.stats import (
    DELIVERY,
    DUMPS,
    SAMPLER,
    STREAM,
    DeliveryStats,
    DumpStats,
    StreamStats,
    TaskReport,
)
from reasoning_env.metrics.training import ANSWERS


def scraped(*readings: Reading) -> list[str]:
    """Return the lines that Prometheus reads, without HELP and TYPE lines."""

    class Samples(Collector):
        def collect(self):  # type: ignore[no-untyped-def]
            return map(family_of, readings)

    registry = CollectorRegistry()
    registry.register(Samples())
    return [line for line in generate_latest(registry).decode().splitlines() if line[0] != "#"]


def reading(name: str, kind: Kind, value: object) -> Reading:
    metric = Metric[object](name, kind, "words", lambda _: value)  # type: ignore[arg-type, return-value]
    [read_once] = read([metric], None)
    return read_once


def test_count_metric_becomes_a_prometheus_counter() -> None:
    count = reading("problems/failures", Kind.COUNT, 3)
    assert for_wandb([count]) == {"problems/failures": 3}
    assert scraped(count) == ["reasoning_problems_failures_total 3.0"]


def test_labelled_count_metric_also_reports_the_total_over_its_labels() -> None:
    count = reading("problems/flawed/CAUSE", Kind.COUNT, {"easy": 2, "wrong": 0})
    assert for_wandb([count]) == {"problems/flawed": 2, "problems/flawed/easy": 2, "problems/flawed/wrong": 0}
    assert scraped(count) == [
        'reasoning_problems_flawed_total{cause="easy"} 2.0',
        'reasoning_problems_flawed_total{cause="wrong"} 0.0',
    ]


def test_metric_of_a_current_value_becomes_a_prometheus_gauge() -> None:
    outage = reading("inference/outage_s", Kind.NOW, 1.5)
    assert for_wandb([outage]) == {"inference/outage_s": 1.5}
    assert scraped(outage) == ["reasoning_inference_outage_seconds 1.5"]


def test_mean_metric_becomes_a_prometheus_summary() -> None:
    mean = reading("train_tasks/TASK/mean_score", Kind.MEAN, {"gcd": Tally(4, 3.0, 1.0)})
    assert for_wandb([mean]) == {"train_tasks/gcd/mean_score": 0.75}
    assert scraped(mean) == [
        'reasoning_train_tasks_score_count{task="gcd"} 4.0',
        'reasoning_train_tasks_score_sum{task="gcd"} 3.0',
    ]


def test_mean_metric_also_reports_the_maximum() -> None:
    mean = reading("time/mean_scoring_s", Kind.MEAN_MAX, Tally(2, 3.0, 2.0))
    assert for_wandb([mean]) == {"time/mean_scoring_s": 1.5, "time/max_scoring_s": 2.0}
    assert scraped(mean) == ["reasoning_time_scoring_seconds_count 2.0", "reasoning_time_scoring_seconds_sum 3.0"]


def test_share_metric_is_exported_to_prometheus_as_a_counter_of_its_numerator() -> None:
    share = reading("train/share_correct", Kind.SHARE, Tally(4, 1))
    assert for_wandb([share]) == {"train/share_correct": 0.25}
    assert scraped(share) == ["reasoning_train_correct_total 1.0"]


def test_mean_metric_is_not_reported_if_there_are_no_values() -> None:
    mean = reading("train/mean_score", Kind.MEAN, Tally())
    assert for_wandb([mean]) == {}
    assert scraped(mean) == ["reasoning_train_score_count 0.0", "reasoning_train_score_sum 0.0"]


def test_metric_is_not_reported_if_its_current_value_is_unknown() -> None:
    assert list(read([Metric[None]("trainer/step", Kind.NOW, "words", lambda _: None)], None)) == []


def test_special_characters_in_metric_labels_are_escaped() -> None:
    assert scraped(reading("inference/ended/WORD", Kind.COUNT, {'a"\\n': 1})) == [
        'reasoning_inference_ended_total{word="a\\"\\\\n"} 1.0'
    ]


# ---------------------------------------------------------------------------- the parts


def test_problem_stream_statistics_become_metrics() -> None:
    stream = StreamStats(
        ready=5,
        in_flight=1,
        failures=4,
        flawed={"easy": 2, "held_out": 1},
        quarantined=("maze", "sudoku"),
        repeated={"maze": 6},
        clamped=9,
    )
    assert {name: value for name, value in for_wandb(read(STREAM, stream)).items() if value} == {
        "problems/ready": 5,
        "problems/in_flight": 1,
        "problems/failures": 4,
        "problems/flawed": 3,
        "problems/flawed/easy": 2,
        "problems/flawed/held_out": 1,
        "problems/repeated": 6,
        "problems/repeated/maze": 6,
        "problems/clamped": 9,
        "problems/quarantined_tasks": 2,
    }


def test_rejection_metrics_start_at_zero_for_every_cause() -> None:
    causes = ["wrong", "copied", "easy", "frequent", "held_out", "too_long"]
    values = for_wandb(read(STREAM, StreamStats()))
    assert [values[f"problems/flawed/{cause}"] for cause in causes] == [0] * 6


def test_counts_of_dumped_groups_and_of_delivered_groups_become_metrics() -> None:
    dumps = DumpStats(passed_groups=6, failed_groups=3, waiting=2, dropped=4)
    assert for_wandb(read(DUMPS, dumps)) == {"dumps/written": 9, "dumps/waiting": 2, "dumps/dropped": 4}
    delivery = DeliveryStats(delivered=8, waiting=5)
    assert for_wandb(read(DELIVERY, delivery)) == {"delivery/delivered": 8, "delivery/waiting": 5}


def test_task_sampler_statistics_become_metrics() -> None:
    report = {"gcd": TaskReport(0.25, 0.5, 0.75, 0.5), "acre": TaskReport(0.75, 1.0, 0.125, None)}
    of_gcd = {"share": 0.25, "pass_rate": 0.5, "signal_chance": 0.75, "level": 0.5}
    of_acre = {"share": 0.75, "pass_rate": 1.0, "signal_chance": 0.125}
    assert for_wandb(read(SAMPLER, report)) == {
        **{f"sampler_tasks/gcd/{name}": value for name, value in of_gcd.items()},
        **{f"sampler_tasks/acre/{name}": value for name, value in of_acre.items()},
        "sampler/mean_level": 0.5,
    }
    assert for_wandb(read(SAMPLER, {})) == {}


@pytest.mark.parametrize(
    ("answers", "share"),
    [(["0", "0", "0", "right"], 0.75), (["0", None, None], 1.0), (["0", *["1"] * 1_000], 1.0)],
)
def test_share_of_the_most_frequent_answer_becomes_a_metric(answers: list[str | None], share: float) -> None:
    recent = RecentAnswers()
    recent.add("gcd", answers)
    assert for_wandb(read(ANSWERS, recent)) == {"answers/most_frequent_share/gcd": share}


def test_share_of_the_most_frequent_answer_is_omitted_if_there_are_no_answers() -> None:
    recent = RecentAnswers()
    recent.add("gcd", [None])
    assert for_wandb(read(ANSWERS, recent)) == {}
