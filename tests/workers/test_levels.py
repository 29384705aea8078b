"""Convert levels to task parameters, for made-up curricula and for every task of the library."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning_env.records import LEVEL_STEPS
from reasoning_env.tasks import TASKS as DECLARED
from reasoning_env.workers.levels import Attribute, DifficultyMap, interpolate

LEVELS = [step / LEVEL_STEPS for step in range(LEVEL_STEPS + 1)]
NOT_ADJUSTABLE = ("acre", "gsm_symbolic", "list_functions", "self_reference")
TASKS = sorted(DECLARED.keys() - {"composite"} - set(NOT_ADJUSTABLE))
MEMBERS = {"datasets": [{"name": "chain_sum", "weight": 2.0, "config": {"min_terms": 1}}, {"name": "acre"}]}


@dataclass
class Config:
    """A config that rejects a width of 4 or 5, and a reversed range."""

    seed: int
    size: int
    low: int = 1
    high: int = 5
    width: int = 1
    words: list[str] = field(default_factory=list)

    def validate(self) -> None:
        if self.width in (4, 5):
            raise AssertionError("no such width")
        if self.low > self.high:
            raise AssertionError("low must not be above high")


def scalar(name: str, levels: list[Any]) -> SimpleNamespace:
    return SimpleNamespace(field_name=name, levels=levels)


def spread(levels: list[Any], *, ensure_interval: bool = False) -> SimpleNamespace:
    fields = {"lower_field_name": "low", "upper_field_name": "high"}
    return SimpleNamespace(**fields, levels=levels, ensure_interval=ensure_interval)


def difficulty_of(*attributes: SimpleNamespace) -> DifficultyMap:
    """Return the level table of a library with one task, `made_up`, whose curriculum has these attributes."""
    curriculum = SimpleNamespace(attributes=dict(enumerate(attributes)))
    return DifficultyMap({"made_up": Config}, {"made_up": lambda: curriculum})


number_lists = st.lists(st.integers(-(10**9), 10**9), min_size=2, max_size=12, unique=True).map(sorted)


@given(number_lists)
def test_interpolated_parameter_never_falls_as_the_level_rises(levels: list[int]) -> None:
    values = [interpolate(levels, (len(levels) - 1) * level) for level in LEVELS]
    assert [interpolate(levels, position) for position in range(len(levels))] == levels
    assert values == sorted(values)
    assert all(isinstance(value, int) for value in values)


@pytest.mark.parametrize(
    ("levels", "position", "value"),
    [
        ([1, 2], 0.5, 2),
        ([-10, -20], 0.25, -12),
        ([1, 2.0], 0.5, 1.5),
        ([[1, 0], [0, 1]], 0.25, [0.75, 0.25]),
        ([False, True], 0.5, True),
        ([False, True], 0.4375, False),
        ([["a"], ["a", "b"]], 0.75, ["a", "b"]),
    ],
)
def test_parameter_values_between_levels_are_interpolated(levels: list[Any], position: float, value: Any) -> None:
    assert interpolate(levels, position) == value


@pytest.mark.parametrize(
    ("level", "draw", "value"),
    [(0.0, 0.0, 1), (0.25, 0.49, 2), (0.25, 0.51, 1), (0.5, 0.0, 2), (0.5, 0.99, 2), (0.75, 0.49, 3), (1.0, 0.99, 3)],
)
def test_parameter_gets_one_of_the_two_nearest_values_at_random(level: float, draw: float, value: int) -> None:
    attribute = Attribute(("low", "high"), (1, 2, 3), drawn=True)
    assert attribute.at(level, draw) == {"low": value, "high": value}


@given(number_lists.filter(lambda levels: len(levels) > 2))
def test_lower_bound_of_a_parameter_range_is_below_its_upper_bound_at_every_level(levels: list[int]) -> None:
    windows = [Attribute(("low", "high"), tuple(levels), distinct_bounds=True).at(level) for level in LEVELS]
    assert all(window["low"] < window["high"] for window in windows)
    assert list(windows[0].values()) == levels[:2]
    assert list(windows[-1].values()) == levels[-2:]


@given(number_lists)
def test_bounds_of_a_parameter_range_rise_with_the_level(levels: list[int]) -> None:
    windows = [Attribute(("low", "high"), tuple(levels)).at(level) for level in LEVELS]
    assert list(windows[0].values()) == [levels[0], levels[0]]
    assert list(windows[-1].values()) == levels[-2:]
    for end in ("low", "high"):
        assert [window[end] for window in windows] == sorted(window[end] for window in windows)


def test_lower_bound_of_a_parameter_range_stays_below_the_upper_bound() -> None:
    assert Attribute(("low", "high"), (9, 5, 1)).at(1.0) == {"low": 1, "high": 5}
    attribute = Attribute(("low", "high"), ((1, 4), (1, 8)))
    assert [attribute.at(level) for level in (0.0, 0.5, 1.0)] == [{"low": 1, "high": high} for high in (4, 6, 8)]


@pytest.mark.parametrize(
    ("attribute", "easiest"),
    [
        (spread([5, 9]), {"low": 1, "high": 1}),
        (spread([5, 9], ensure_interval=True), {"low": 1, "high": 5}),
        (spread([4, 9]), {"low": 4, "high": 4}),  # the default range, 1 to 5, is not easier
        (spread([9, 5]), {"low": 9, "high": 9}),
        (scalar("width", [2, 3]), {"width": 1}),
        (scalar("words", [["a"], ["b"]]), {"words": ["a"]}),
    ],
)
def test_parameters_at_level_0_are_not_harder_than_the_library_defaults(
    attribute: SimpleNamespace, easiest: dict[str, Any]
) -> None:
    assert difficulty_of(attribute).parameters("made_up", 0.0).params == easiest


def test_parameters_with_value_lists_of_different_lengths_are_interpolated() -> None:
    difficulty = difficulty_of(scalar("width", [1, 3]), spread([1, 2, 3, 4, 5]))
    assert difficulty.parameters("made_up", 0.5).params == {"width": 2, "low": 2, "high": 3}


@given(st.floats(0.0, 1.0))
def test_level_is_rounded_to_the_nearest_step_of_the_level_scale(level: float) -> None:
    resolved = difficulty_of(scalar("high", [10, 1000])).parameters("made_up", level)
    assert resolved.level is not None
    assert abs(resolved.level - level) <= 0.5 / LEVEL_STEPS
    assert resolved.level in LEVELS


@pytest.mark.parametrize("level", [-0.01, 1.01, float("nan")])
def test_level_out_of_range_raises(level: float) -> None:
    with pytest.raises(ValueError, match=str(level)):
        difficulty_of().parameters("made_up", level)


@pytest.mark.parametrize(("levels", "asked", "width", "step"), [([1, 5], 1.0, 3, 9), ([4, 0], 0.0, 3, 3)])
def test_level_that_the_library_rejects_is_replaced_by_a_valid_level(
    levels: list[int], asked: float, width: int, step: int
) -> None:
    resolved = difficulty_of(scalar("width", levels)).parameters("made_up", asked)
    assert (resolved.params, resolved.level) == ({"width": width}, step / LEVEL_STEPS)


def test_task_params_override_params_of_the_level() -> None:
    resolved = difficulty_of(spread([1, 9])).parameters("made_up", 0.0, {"low": 5})
    assert resolved.params == {"low": 5, "high": 5}
    assert resolved.level == 7 / LEVEL_STEPS


def test_params_rejected_by_the_library_raise() -> None:
    with pytest.raises(ValueError, match=r"^made_up: .*\{\"width\": 4\}.*no such width"):
        difficulty_of(spread([1, 2])).parameters("made_up", 0.5, {"width": 4})


def test_task_without_curriculum_has_no_level() -> None:
    difficulty = DifficultyMap({"made_up": Config}, {})
    assert not difficulty.adjustable("made_up")
    resolved = difficulty.parameters("made_up", 0.5, {"width": 2})
    assert (resolved.params, resolved.level) == ({"width": 2}, None)


def test_changing_returned_parameters_does_not_change_the_library_curriculum() -> None:
    levels = [["a"], ["b"]]
    difficulty = difficulty_of(scalar("words", levels))
    difficulty.parameters("made_up", 0.0).params["words"].append("c")
    assert levels == [["a"], ["b"]]


@pytest.mark.parametrize(
    ("params", "level", "message"),
    [
        ({"widht": 2}, None, "made_up: there is no parameter 'widht'; choose from: width, words"),
        ({"zzz": 2}, 0.5, "made_up: there is no parameter 'zzz'; choose from: low, high, width, words"),
        ({"seed": 2}, None, "made_up: remove seed: it cannot be set, because the environment sets it for each problem"),
        ({"width": 4}, None, 'made_up: the library rejects {"width": 4} (AssertionError: no such width)'),
        ({"low": 6}, None, 'made_up: the library rejects {"low": 6} (AssertionError: low must not be above high)'),
        ({"low": 91}, 0.5, 'made_up: the library rejects {"low": 91} (ValueError: made_up: no level is valid'),
        ({"low": 2}, None, None),
        ({"low": 30}, 0.5, None),
    ],
)
def test_checking_task_params_returns_the_error_or_none(
    params: dict[str, Any], level: float | None, message: str | None
) -> None:
    fault = difficulty_of(spread([10, 90])).check("made_up", params, level)
    assert fault is None if message is None else str(fault).startswith(message)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, "composite: the parameter `datasets` must list at least one task"),
        ({"members": []}, "composite: there is no parameter 'members'; choose from: datasets"),
        ({"datasets": [{"name": "chain_sun"}]}, "composite: there is no task 'chain_sun'; choose from: chain_sum"),
        ({"datasets": [{"name": "ab", "config": {"size": 3}}]}, "composite: ab: remove size: it cannot be set"),
        (MEMBERS, None),
    ],
)
def test_checking_params_of_the_composite_task_returns_the_error_or_none(
    difficulty: DifficultyMap, params: dict[str, Any], message: str | None
) -> None:
    fault = difficulty.check("composite", params, level=0.5)
    assert fault is None if message is None else str(fault).startswith(message)


def test_member_tasks_of_the_composite_task_get_the_level_of_the_composite_task(difficulty: DifficultyMap) -> None:
    resolved = difficulty.parameters("composite", 0.75, MEMBERS)
    first, second = resolved.params["datasets"]
    assert first == {
        "name": "chain_sum",
        "weight": 2.0,
        "config": {**difficulty.parameters("chain_sum", 0.75).params, "min_terms": 1},
    }
    assert second == {"name": "acre", "config": {}}
    assert resolved.level == 0.75


def test_every_task_except_the_listed_exceptions_has_levels(difficulty: DifficultyMap) -> None:
    assert [task for task in sorted(DECLARED) if not difficulty.adjustable(task)] == list(NOT_ADJUSTABLE)


def test_library_accepts_every_level_of_every_task(difficulty: DifficultyMap) -> None:
    """Values that the library rejects are replaced one by one, so every level stays usable."""
    resolved = {(task, level): difficulty.parameters(task, level).level for task in TASKS for level in LEVELS}
    assert resolved == {(task, level): level for task, level in resolved}


def test_parameters_of_library_tasks_differ_between_levels(difficulty: DifficultyMap) -> None:
    draws = [number / 16 for number in range(16)]
    alike = []
    for task in TASKS:
        by_level = [[difficulty.parameters(task, level, draw=draw).params for draw in draws] for level in LEVELS[::4]]
        alike += [task for lower, higher in pairwise(by_level) if lower == higher]
    assert alike == []


def test_each_parameter_of_a_library_task_only_rises_or_only_falls_with_the_level(difficulty: DifficultyMap) -> None:
    turning = []
    for task in TASKS:
        params = [difficulty.parameters(task, level).params for level in LEVELS]
        for name, first in params[0].items():
            if isinstance(first, (int, float)):
                values = [one[name] for one in params]
                if values not in (sorted(values), sorted(values, reverse=True)):
                    turning.append((task, name))
    assert turning == []
