from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from reasoning_env.errors import ConfigError, GenerationError
from reasoning_env.records import Group, ProblemSpec
from reasoning_env.tasks.learning.adaptive import SignalTracker, SteeredSampler, static_weights
from reasoning_env.tasks.learning.curriculum import Curriculum
from reasoning_env.tasks.parameters import SpecRules
from tests.records import make_group, make_rollout

TASKS = ("chain_sum", "maze", "sudoku", "word_ladder")
SIZE = 8
TARGET = 0.7


def make_sampler(tasks: tuple[str, ...] = TASKS, run_seed: int = 42, instance: int = 0, **options: Any) -> Any:
    return SteeredSampler(tasks, TASKS, SpecRules(run_seed, instance), **{"group_size": SIZE, **options})


def seen(task: str, successes: int, level: float | None = None) -> Group:
    """A group of so many right answers, which length has cost something: that does not count as wrong."""
    scores = [float(number < successes) for number in range(SIZE)]
    return make_group([make_rollout(score, reward=0.9 * score) for score in scores], task, level=level)


def serve(
    sampler: SteeredSampler, positions: range, succeed: Callable[[ProblemSpec], int], ahead: int = 0
) -> list[ProblemSpec]:
    """Draw positions, and observe each once `ahead` later ones are drawn."""
    drawn: list[ProblemSpec] = []
    for place, index in enumerate(positions):
        drawn.append(sampler.draw(index, 0))
        if place >= ahead:
            spec = drawn[place - ahead]
            sampler.observe(seen(spec.task, succeed(spec), spec.level), under_way=ahead)
    return drawn


def luck(spec: ProblemSpec) -> int:
    """Successes that depend on the spec alone."""
    return random.Random(spec.seed).randint(0, SIZE)


# ---------------------------------------------------------------------------- draws


def test_same_observations_give_the_same_draws_to_the_same_stream_alone() -> None:
    drawn = serve(make_sampler(), range(200), luck)
    assert [(spec.index, spec.attempt) for spec in drawn] == [(index, 0) for index in range(200)]
    assert serve(make_sampler(), range(200), luck) == drawn
    for other in ({"run_seed": 43}, {"instance": 1}):
        assert [spec.task for spec in serve(make_sampler(**other), range(200), luck)] != [spec.task for spec in drawn]


@pytest.mark.parametrize("weights", [None, dict(zip(TASKS, (1.0, 2.0, 3.0, 4.0), strict=True))])
def test_restored_sampler_goes_on_as_the_uninterrupted_one(weights: Mapping[str, float] | None) -> None:
    def resume(state: Mapping[str, Any]) -> SteeredSampler:
        curriculum = Curriculum(TARGET, state=state.get("curriculum"))
        options: dict[str, Any] = {"weights": weights, "curriculum": curriculum, "adjustable": TASKS[:3]}
        sampler: SteeredSampler = make_sampler(**options, state=state)
        return sampler

    sampler = resume({})
    serve(sampler, range(100), luck)
    resumed = resume(json.loads(json.dumps(sampler.state())))
    assert serve(resumed, range(100, 200), luck) == serve(sampler, range(100, 200), luck)
    assert resumed.state() == sampler.state()


@pytest.mark.parametrize("weights", [None, dict.fromkeys(TASKS, 1.0) | {"sudoku": 0.0}])
def test_quarantined_task_is_drawn_no_more_until_nothing_is_left_to_draw(weights: dict[str, float] | None) -> None:
    sampler = make_sampler(weights=weights)
    left = {task for task in TASKS if weights is None or weights[task]}
    for task in sorted(left):
        assert {sampler.draw(index, 0).task for index in range(80)} == left
        sampler.quarantine(task)
        left.remove(task)
        assert sampler.report()[task].share == 0.0
    with pytest.raises(GenerationError):
        sampler.draw(0, 0)


# ---------------------------------------------------------------------------- shares


def test_weights_are_kept_to_within_two_draws() -> None:
    weights = static_weights(TASKS, {"maze": 3, "sudoku": 0, "word_ladder": 0.5})
    sampler = make_sampler(weights=weights)
    drawn: Counter[str] = Counter()
    for index in range(900):
        drawn[sampler.draw(index, 0).task] += 1
        for task, weight in weights.items():
            assert abs(drawn[task] - (index + 1) * weight / 4.5) <= 2
    assert drawn["sudoku"] == 0


@pytest.mark.parametrize(
    "wanted", [{"maze": -1.0}, {"maze": float("inf")}, {"maze": float("nan")}, dict.fromkeys(TASKS, 0.0)]
)
def test_weights_that_cannot_work_raise(wanted: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="task_weights: "):
        static_weights(TASKS, wanted)


def test_task_with_a_signal_is_drawn_more_and_no_other_starves() -> None:
    tasks = tuple(f"task_{number}" for number in range(25))
    sampler = make_sampler(tasks)
    positions = range(4000)
    drawn = [spec.task for spec in serve(sampler, positions, lambda spec: 4 * (spec.task == "task_7"), ahead=100)]
    window, uniform = 20 * len(tasks), 20
    for first in range(0, len(drawn) - window, 50):
        counts = Counter(drawn[first : first + window])
        assert min(counts[task] for task in tasks) >= uniform / 4
    assert Counter(drawn[-window:])["task_7"] > 8 * uniform
    report = sampler.report()
    assert sum(row.share for row in report.values()) == pytest.approx(1.0)
    assert max(report, key=lambda task: report[task].share) == "task_7"


def test_groups_of_one_are_drawn_evenly() -> None:
    sampler = make_sampler(group_size=1)
    drawn = Counter(sampler.draw(index, 0).task for index in range(400))
    assert drawn == pytest.approx(dict.fromkeys(TASKS, 100), abs=2)


# ---------------------------------------------------------------------------- with a curriculum


def test_task_whose_level_a_curriculum_cannot_set_has_none() -> None:
    curriculum = Curriculum(TARGET)
    sampler = make_sampler(("chain_sum", "maze"), curriculum=curriculum, adjustable=["maze"])
    drawn = serve(sampler, range(100), lambda _: SIZE)
    assert {spec.level for spec in drawn if spec.task == "chain_sum"} == {None}
    assert [spec.level for spec in drawn if spec.task == "maze"][-1] == 1.0
    assert set(curriculum.state()) == {"maze"}
    assert (sampler.report()["chain_sum"].level, sampler.report()["maze"].level) == (None, 1.0)


def test_levels_are_spread_over_the_band() -> None:
    curriculum = Curriculum(TARGET)
    sampler = make_sampler(("maze",), curriculum=curriculum, adjustable=["maze"])
    levels = sorted(sampler.draw(index, 0).level or 0.0 for index in range(400))
    assert (levels[0], levels[-1]) == pytest.approx(curriculum.band("maze"), abs=0.01)
    assert levels[200] == pytest.approx(sum(curriculum.band("maze")) / 2, abs=0.04)


def test_curriculum_hears_what_was_right_before_length_cost_anything_and_how_many_groups_are_under_way() -> None:
    class Heard(Curriculum):
        def observe(self, task: str, level: float, successes: float, size: int, under_way: int = 0) -> None:
            heard.append((level, successes, size, under_way))

    heard: list[tuple[float, float, int, int]] = []
    sampler = make_sampler(("chain_sum", "maze"), curriculum=Heard(TARGET), adjustable=["maze"])
    sampler.observe(seen("maze", 4, 0.3), under_way=5)
    assert heard == [(0.3, 4, SIZE, 5)]


# ---------------------------------------------------------------------------- the chance of a signal


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("size", [4, 16])
def test_signal_chance_and_pass_rate_come_near_the_true_ones(rate: float, size: int) -> None:
    random_state = random.Random(0)
    tracker = SignalTracker(size)
    chances, rates = [], []
    for _ in range(400):
        successes = sum(random_state.random() < rate for _ in range(size))
        tracker.observe("task", successes, size, signal=0 < successes < size)
        chances.append(tracker.signal_chance("task"))
        rates.append(tracker.pass_rate("task"))
    true_chance = 1 - rate**size - (1 - rate) ** size
    assert sum(chances) / 400 == pytest.approx(true_chance, abs=0.07)
    assert sum(rates) / 400 == pytest.approx(rate, abs=0.03)


@pytest.mark.parametrize(
    ("groups", "low", "high"),
    [
        ([], 0.7, 1.0),
        ([(0.1, True)] * 20, 0.7, 1.0),
        ([(0, False)] * 20, 0.0, 0.1),
        ([(0, False), (SIZE, False)] * 20, 0.0, 0.4),
        ([(0, False)] * 1000, 0.0, 0.1),
        ([(0, False)] * 1000 + [(4, True)] * 6, 0.5, 1.0),
    ],
    ids=["unobserved", "partial", "all wrong", "right or wrong", "wrong for long", "solvable at last"],
)
def test_signal_chance_follows_recent_groups(groups: list[tuple[float, bool]], low: float, high: float) -> None:
    tracker = SignalTracker(SIZE)
    for successes, signal in groups:
        tracker.observe("task", successes, SIZE, signal=signal)
    assert low <= tracker.signal_chance("task") <= high
