"""What a spec gets beside its task and seed: parameters, fixed or drawn from ranges, and a level."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning_env.errors import ConfigError
from reasoning_env.records import ProblemSpec
from reasoning_env.tasks.parameters import SpecRules, check_params, draw_from, extremes
from tests.records import make_spec

JUST_BELOW_1 = math.nextafter(1.0, 0.0)
CHI_SQUARE_999_DF_19 = 43.82
"""The value that chi-square with 19 degrees of freedom exceeds once in 1000 times."""
COMPOSITE = make_spec("composite", 3, params={"datasets": [{"name": "gcd", "weight": 2.0}, {"name": "lcm"}]})


def spec(index: int = 0, attempt: int = 0, task: str = "gcd", **params: Any) -> ProblemSpec:
    return make_spec(task, index, attempt=attempt, params=params)


def rules_of(low: Any = 0, high: Any = 10**9, **options: Any) -> SpecRules:
    """The rules of a stream in which one parameter of gcd is drawn from a range."""
    return SpecRules(**{"run_seed": 42, "params": {"gcd": {"max_value": {"low": low, "high": high}}}, **options})


def drawn(rules: SpecRules, index: int, attempt: int = 0) -> Any:
    return rules.complete(spec(index, attempt)).params["max_value"]


def chi_square(shares: list[float]) -> float:
    """How far numbers in [0, 1) are from being spread evenly over 20 bins."""
    expected = len(shares) / 20
    counts = Counter(int(20 * share) for share in shares)
    assert max(counts) < 20
    return sum((counts[place] - expected) ** 2 / expected for place in range(20))


# ---------------------------------------------------------------------------- one value of a range


@given(st.integers(-(10**6), 10**6), st.integers(0, 10**6), st.floats(0.0, 1.0))
def test_whole_ends_give_a_whole_number_between_them(low: int, width: int, share: float) -> None:
    bounds = {"low": low, "high": low + width}
    value = draw_from(bounds, share)
    assert type(value) is int
    assert low <= value <= low + width
    assert (draw_from(bounds, 0.0), draw_from(bounds, JUST_BELOW_1)) == (low, low + width)


@given(st.floats(-1e6, 1e6), st.floats(0.0, 1e6), st.floats(0.0, 1.0))
def test_fractional_ends_give_a_fraction_between_them(low: float, width: float, share: float) -> None:
    value = draw_from({"low": low, "high": low + width}, share)
    assert type(value) is float
    # The last digit may round to either side of an end.
    assert low - 1e-9 <= value <= low + width + 1e-9


@pytest.mark.parametrize("bounds", [{"low": 1, "high": 2.5}, {"low": 0.5, "high": 2}])
def test_one_fractional_end_makes_fractions(bounds: dict[str, float]) -> None:
    assert draw_from(bounds, 0.5) == (bounds["low"] + bounds["high"]) / 2


# ---------------------------------------------------------------------------- parameters of specs


def test_every_whole_number_of_a_range_is_drawn_as_often_as_any_other() -> None:
    rules = rules_of(3, 6)
    counts = Counter(drawn(rules, index) for index in range(2000))
    assert sorted(counts) == [3, 4, 5, 6]
    assert all(420 < count < 580 for count in counts.values())


def test_fractions_and_levels_are_spread_evenly_and_differ_at_every_position() -> None:
    rules = rules_of(-1.0, 1.0, random_levels=True)
    completed = [rules.complete(spec(index)) for index in range(2000)]
    levels = [one.level for one in completed if one.level is not None]
    for shares in ([(one.params["max_value"] + 1.0) / 2.0 for one in completed], levels):
        assert len(set(shares)) == 2000
        assert chi_square(shares) < CHI_SQUARE_999_DF_19


@pytest.mark.parametrize(
    ("options", "index", "attempt"),
    [({"run_seed": 43}, 5, 0), ({"instance": 1}, 5, 0), ({}, 6, 0), ({}, 5, 1)],
    ids=["another seed", "another instance", "another position", "another attempt"],
)
def test_another_draw_has_another_value_and_level(options: dict[str, int], index: int, attempt: int) -> None:
    first = rules_of(random_levels=True).complete(spec(5))
    other = rules_of(random_levels=True, **options).complete(spec(index, attempt))
    assert other.params["max_value"] != first.params["max_value"]
    assert other.level != first.level


def test_parameters_and_tasks_are_drawn_apart() -> None:
    bounds = {"low": 0.0, "high": 1.0}
    params = {task: {"min_value": bounds, "max_value": bounds} for task in ("gcd", "lcm")}
    rules = SpecRules(42, params=params, random_levels=True)
    specs = [rules.complete(spec(task=task)) for task in params]
    assert len({*(value for one in specs for value in one.params.values()), specs[0].level}) == 5


def test_fixed_parameters_join_those_of_the_spec_and_win_over_them() -> None:
    wanted = {"min_value": 3, "words": ["a"], "weights": {"a": 1}}
    before = spec(4, 2, max_value=9, min_value=1)
    completed = SpecRules(42, params={"gcd": wanted, "lcm": {"min_value": 8}}, level=0.5).complete(before)
    assert completed == replace(before, params={**wanted, "max_value": 9}, level=0.5)


def test_each_member_of_a_composite_gets_the_params_of_its_own_task() -> None:
    params = {"gcd": {"min_value": {"low": 0, "high": 10**9}}, "lcm": {"max_value": 9}, "maze": {"min_dist": 2}}
    rules, before = SpecRules(42, params=params, level=0.25), deepcopy(COMPOSITE)
    completed = [rules.complete(replace(COMPOSITE, index=index)) for index in range(20)]
    gcd, lcm = completed[0].params["datasets"]
    assert gcd == {"name": "gcd", "weight": 2.0, "config": {"min_value": gcd["config"]["min_value"]}}
    assert lcm == {"name": "lcm", "config": {"max_value": 9}}
    assert len({one.params["datasets"][0]["config"]["min_value"] for one in completed}) == 20
    assert {one.level for one in completed} == {0.25}
    assert before == COMPOSITE


# ---------------------------------------------------------------------------- levels


@pytest.mark.parametrize(
    ("options", "given", "level"),
    [
        *(({"level": level}, None, level) for level in (None, 0.0, 0.3)),
        *((options, 0.0, 0.0) for options in ({}, {"level": 0.9}, {"random_levels": True})),
    ],
)
def test_level_is_the_fixed_one_unless_one_is_given(
    options: dict[str, Any], given: float | None, level: float | None
) -> None:
    rules = SpecRules(42, **options)
    assert {rules.complete(spec(index), given).level for index in range(20)} == {level}


# ---------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    "value",
    [
        {"low": 4, "high": 3},
        {"low": 4},
        {"low": 1, "high": 4, "step": 2},
        {"low": "1", "high": 4},
        {"low": 1, "high": math.nan},
        {"low": -math.inf, "high": 4},
        {"low": False, "high": True},
        {"low": 1, "high": 10**400},
        [{1}],
    ],
    ids=str,
)
def test_value_that_cannot_be_is_refused_by_task_and_parameter(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"^task_params: lcm\.max_value"):
        check_params({"gcd": {"max_value": {"low": 1, "high": 2}}, "lcm": {"min_value": 1, "max_value": value}})


def test_members_of_a_composite_are_not_to_be_set() -> None:
    with pytest.raises(ConfigError, match=r"^task_params: composite "):
        check_params({"composite": {"datasets": [{"name": "gcd"}]}})


@pytest.mark.parametrize(
    "params",
    [{}, {"a": 1}, {"a": {"low": 3, "high": 3}}, {"a": {"low": -2, "high": 0.5}}, {"a": {"b": 1}}, {"a": [1, 2]}],
)
def test_ranges_and_fixed_values_that_can_be_are_let_through(params: dict[str, Any]) -> None:
    check_params({"gcd": params})


RANGE = {"low": 1, "high": 2}


@pytest.mark.parametrize(
    ("params", "ends"),
    [
        ({"a": 1, "b": [2]}, [{"a": 1, "b": [2]}]),
        ({"a": RANGE, "b": 3}, [{"a": 1, "b": 3}, {"a": 2, "b": 3}]),
        (dict.fromkeys("ab", RANGE), [{"a": a, "b": b} for a in (1, 2) for b in (1, 2)]),
        (dict.fromkeys("abcde", RANGE), [dict.fromkeys("abcde", 1), dict.fromkeys("abcde", 2)]),
        ({"a": {"low": 1, "high": 1}}, [{"a": 1}]),
        ({"a": {"other": 1}}, [{"a": {"other": 1}}]),
    ],
)
def test_extremes_are_the_ends_in_every_combination_of_a_few(
    params: Mapping[str, Any], ends: list[dict[str, Any]]
) -> None:
    assert extremes(params) == ends
