from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from reasoning_env.errors import ConfigError, GenerationError
from reasoning_env.records import ProblemSpec, Split
from reasoning_env.tasks.learning.adaptive import Observation, SignalTracker, SteeredSampler, static_weights
from reasoning_env.tasks.learning.curriculum import Curriculum
from reasoning_env.tasks.sampling import task_params

TASKS = ("chain_sum", "maze", "sudoku", "word_ladder")
SIZE = 8


def _sampler(tasks: tuple[str, ...] = TASKS, **options: Any) -> SteeredSampler:
    settings: dict[str, Any] = {"run_seed": 42, "group_size": SIZE} | options
    return SteeredSampler(tasks, TASKS, **settings)


def _seen(task: str, successes: float, *, level: float | None = None, signal: bool | None = None) -> Observation:
    return Observation(task, level, successes, SIZE, 0 < successes < SIZE if signal is None else signal)


def _serve(
    sampler: SteeredSampler, first: int, count: int, succeed: Callable[[ProblemSpec], float], ahead: int = 0
) -> list[ProblemSpec]:
    """Draw positions, and observe and release each once `ahead` later ones are drawn."""
    specs = [sampler.draw(index, 0) for index in range(first, first + ahead)]
    drawn = list(specs)
    for index in range(first + ahead, first + count):
        specs.append(sampler.draw(index, 0))
        drawn.append(specs[-1])
        spec = specs.pop(0)
        sampler.observe(_seen(spec.task, succeed(spec), level=spec.level))
        sampler.release(spec.index)
    return drawn


def _luck(spec: ProblemSpec) -> int:
    """Successes that depend on the spec alone."""
    return random.Random(spec.seed).randint(0, SIZE)


def test_same_observations_give_the_same_draws() -> None:
    assert _serve(_sampler(), 0, 200, _luck) == _serve(_sampler(), 0, 200, _luck)


@pytest.mark.parametrize("other", [{"run_seed": 43}, {"instance": 1}])
def test_other_runs_and_instances_draw_in_another_order(other: dict[str, Any]) -> None:
    first = [_sampler().draw(index, 0).task for index in range(50)]
    second = [_sampler(**other).draw(index, 0).task for index in range(50)]
    assert first != second


def test_drawn_spec_belongs_to_its_position() -> None:
    sampler = _sampler()
    drawn = [sampler.draw(index, attempt) for index in range(50) for attempt in range(3)]
    assert [(spec.index, spec.attempt) for spec in drawn] == [(index, n) for index in range(50) for n in range(3)]
    assert {spec.split for spec in drawn} == {Split.TRAIN}
    assert len({spec.seed for spec in drawn}) == len(drawn)


def test_position_drawn_ahead_keeps_its_task_and_level_whatever_is_observed() -> None:
    sampler = _sampler(curriculum=Curriculum(), adjustable=TASKS)
    before = [sampler.draw(index, 0) for index in range(20)]
    for task in TASKS:
        for _ in range(10):
            sampler.observe(_seen(task, SIZE, level=0.3))
    assert [sampler.draw(index, 0) for index in range(20)] == before
    assert sampler.draw(20, 0).level > 0.5


@pytest.mark.parametrize("weights", [None, dict(zip(TASKS, (1.0, 2.0, 3.0, 4.0), strict=True))])
def test_restored_sampler_goes_on_as_the_uninterrupted_one(weights: Mapping[str, float] | None) -> None:
    def resume(state: Mapping[str, Any]) -> tuple[SteeredSampler, Curriculum]:
        curriculum = Curriculum(state=state.get("curriculum"))
        options: dict[str, Any] = {"weights": weights, "curriculum": curriculum, "adjustable": TASKS[:3]}
        return _sampler(**options, state=state.get("sampler")), curriculum

    def go_on(sampler: SteeredSampler, owed: range, last: int) -> list[ProblemSpec]:
        """Draw what is owed and then on, 10 ahead of what is observed."""
        return _serve(sampler, owed.start, last - owed.start, _luck, ahead=len(owed))

    sampler, curriculum = resume({})
    go_on(sampler, range(10), 100)
    saved = json.loads(json.dumps({"sampler": sampler.state(), "curriculum": curriculum.state()}))
    uninterrupted = go_on(sampler, range(90, 100), 200)
    resumed, curriculum_again = resume(saved)
    assert go_on(resumed, range(90, 100), 200) == uninterrupted
    assert resumed.state() == sampler.state()
    assert curriculum_again.state() == curriculum.state()


def test_state_holds_what_was_not_released_and_nothing_else() -> None:
    sampler = _sampler()
    for index in range(5):
        sampler.draw(index, 0)
    for index in (0, 1, 3):
        sampler.release(index)
    assert [draw[0] for draw in sampler.state()["draws"]] == [2, 4]


def test_weights_are_kept_to_within_two_draws() -> None:
    weights = static_weights(TASKS, {"maze": 3, "sudoku": 0, "word_ladder": 0.5})
    sampler = _sampler(weights=weights)
    drawn: Counter[str] = Counter()
    for index in range(900):
        drawn[sampler.draw(index, 0).task] += 1
        for task, weight in weights.items():
            assert abs(drawn[task] - (index + 1) * weight / 4.5) <= 2
    assert drawn["sudoku"] == 0


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"mazes": 1.0}, "mazes"),
        ({"maze": -1.0}, "'maze' must be"),
        ({"maze": float("inf")}, "'maze' must be"),
        ({"maze": float("nan")}, "'maze' must be"),
        (dict.fromkeys(TASKS, 0.0), "every selected task has the weight 0"),
    ],
)
def test_weights_that_cannot_work_raise(wanted: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        static_weights(TASKS, wanted)


@pytest.mark.parametrize("weights", [None, dict.fromkeys(TASKS, 1.0)])
def test_quarantined_task_is_drawn_no_more_even_where_it_was_drawn_ahead(weights: dict[str, float] | None) -> None:
    sampler = _sampler(weights=weights)
    before = [sampler.draw(index, 0) for index in range(40)]
    sampler.quarantine("maze")
    after = [sampler.draw(index, 0) for index in range(80)]
    assert {spec.task for spec in after} == set(TASKS) - {"maze"}
    for old, new in zip(before, after, strict=False):
        assert new == old if old.task != "maze" else new.attempt == 1
    assert sampler.report()["maze"].share == 0.0


def test_quarantine_of_every_task_raises() -> None:
    sampler = _sampler(("maze", "sudoku"))
    sampler.quarantine("maze")
    sampler.quarantine("sudoku")
    with pytest.raises(GenerationError, match="every selected task is quarantined"):
        sampler.draw(0, 0)


def test_quarantine_of_every_task_with_a_weight_raises() -> None:
    sampler = _sampler(("maze", "sudoku"), weights={"maze": 1.0, "sudoku": 0.0})
    sampler.quarantine("maze")
    with pytest.raises(GenerationError, match="weight 0"):
        sampler.draw(0, 0)


def test_redraw_stays_with_the_task_the_position_and_the_level() -> None:
    sampler = _sampler(curriculum=Curriculum(), adjustable=TASKS)
    spec = sampler.draw(7, 0)
    again = sampler.redraw(spec)
    assert again == replace(spec, seed=again.seed, attempt=1)
    assert again.seed != spec.seed


def test_task_with_a_signal_is_drawn_more_and_no_other_starves() -> None:
    tasks = tuple(f"task_{number}" for number in range(25))
    sampler = _sampler(tasks)
    drawn = [spec.task for spec in _serve(sampler, 0, 4000, lambda spec: 4 if spec.task == "task_7" else 0, ahead=100)]
    window, uniform = 20 * len(tasks), 20
    for first in range(0, len(drawn) - window, 50):
        counts = Counter(drawn[first : first + window])
        assert min(counts[task] for task in tasks) >= uniform / 4
    assert Counter(drawn[-window:])["task_7"] > 8 * uniform


def test_shares_are_even_at_first_and_always_sum_to_one() -> None:
    sampler = _sampler()
    assert {row.share for row in sampler.report().values()} == {0.25}
    _serve(sampler, 0, 200, lambda spec: 4 if spec.task == "maze" else 0)
    report = sampler.report()
    assert sum(row.share for row in report.values()) == pytest.approx(1.0)
    assert max(report, key=lambda task: report[task].share) == "maze"


def test_task_whose_level_a_curriculum_cannot_set_has_none() -> None:
    curriculum = Curriculum()
    sampler = _sampler(("chain_sum", "maze"), curriculum=curriculum, adjustable=["maze"])
    drawn = _serve(sampler, 0, 100, lambda _: SIZE)
    assert {spec.level for spec in drawn if spec.task == "chain_sum"} == {None}
    assert [spec.level for spec in drawn if spec.task == "maze"][-1] == 1.0
    assert set(curriculum.state()) == {"maze"}
    assert (sampler.report()["chain_sum"].level, sampler.report()["maze"].level) == (None, 1.0)


def test_curriculum_hears_how_many_groups_of_the_task_are_under_way() -> None:
    class Heard(Curriculum):
        def observe(self, task: str, level: float, successes: float, size: int, under_way: int = 0) -> None:
            heard.append(under_way)

    heard: list[int] = []
    sampler = _sampler(("chain_sum", "maze"), curriculum=Heard(), adjustable=["maze"])
    drawn = [sampler.draw(index, 0).task for index in range(30)]
    sampler.observe(_seen("maze", 4, level=0.3))
    sampler.release(drawn.index("maze"))
    sampler.observe(_seen("maze", 4, level=0.3))
    assert heard == [drawn.count("maze"), drawn.count("maze") - 1]


def test_drawn_composite_carries_its_members() -> None:
    sampler = SteeredSampler(("composite",), ("composite", "maze"), run_seed=1, group_size=SIZE)
    assert sampler.draw(0, 0).params == task_params(("composite",), ("composite", "maze"))["composite"]


def test_groups_of_one_are_drawn_evenly() -> None:
    sampler = _sampler(group_size=1)
    assert Counter(sampler.draw(index, 0).task for index in range(400)) == pytest.approx(
        dict.fromkeys(TASKS, 100), abs=2
    )


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("size", [4, 16])
def test_signal_chance_and_pass_rate_come_near_the_true_ones(rate: float, size: int) -> None:
    random_state = random.Random(0)
    tracker = SignalTracker(size)
    chances, rates = [], []
    for _ in range(400):
        successes = sum(random_state.random() < rate for _ in range(size))
        tracker.observe(Observation("task", None, successes, size, 0 < successes < size))
        chances.append(tracker.signal_chance("task"))
        rates.append(tracker.pass_rate("task"))
    true_chance = 1 - rate**size - (1 - rate) ** size
    assert sum(chances) / 400 == pytest.approx(true_chance, abs=0.07)
    assert sum(rates) / 400 == pytest.approx(rate, abs=0.03)


def test_partial_scores_that_differ_count_as_a_signal() -> None:
    tracker = SignalTracker(SIZE)
    for _ in range(20):
        tracker.observe(_seen("partial", 0.1, signal=True))
        tracker.observe(_seen("wrong", 0.0, signal=False))
    assert tracker.signal_chance("partial") > 0.7
    assert tracker.signal_chance("wrong") < 0.1


def test_problems_that_are_all_right_or_all_wrong_count_as_no_signal() -> None:
    tracker = SignalTracker(SIZE)
    for number in range(40):
        tracker.observe(_seen("split", SIZE * (number % 2)))
    assert tracker.pass_rate("split") == pytest.approx(0.5, abs=0.1)
    assert tracker.signal_chance("split") < 0.4


def test_unobserved_task_counts_as_likely_to_give_a_signal() -> None:
    assert SignalTracker(SIZE).signal_chance("new") > 0.7


def test_task_that_becomes_solvable_is_noticed_however_long_it_was_not() -> None:
    tracker = SignalTracker(SIZE)
    for _ in range(1000):
        tracker.observe(_seen("task", 0))
    assert tracker.signal_chance("task") < 0.1
    for _ in range(6):
        tracker.observe(_seen("task", 4))
    assert tracker.signal_chance("task") > 0.5
