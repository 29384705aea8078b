"""What a spec gets beside its task and seed: parameters, fixed or drawn from ranges, and a level."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning_env.errors import ConfigError
from reasoning_env.records import ProblemSpec, Split
from reasoning_env.tasks.parameters import SpecRules, check_ranges, draw_from, extremes
from reasoning_env.tasks.sampling import UniformSampler

JUST_BELOW_1 = math.nextafter(1.0, 0.0)
CHI_SQUARE_999_DF_19 = 43.82
"""The value that chi-square with 19 degrees of freedom exceeds once in 1000 times."""
COMPOSITE_SPEC = ProblemSpec(
    "composite", 7, Split.TRAIN, 3, params={"datasets": [{"name": "gcd", "weight": 2.0}, {"name": "lcm"}]}
)

wholes = st.integers(-(10**6), 10**6)
fractions = st.floats(-1e6, 1e6)
shares = st.floats(0.0, JUST_BELOW_1)


def _spec(index: int, attempt: int = 0, task: str = "gcd", **params: Any) -> ProblemSpec:
    return ProblemSpec(task, 7, Split.TRAIN, index, attempt, params)


def _rules(low: Any = 0, high: Any = 10**9, **options: Any) -> SpecRules:
    """The rules of a stream in which one parameter of gcd is drawn from a range."""
    wanted = {"gcd": {"max_value": {"low": low, "high": high}}}
    return SpecRules(**{"run_seed": 42, "params": wanted, **options})


def _drawn(rules: SpecRules, index: int, attempt: int = 0) -> Any:
    return rules.complete(_spec(index, attempt)).params["max_value"]


def _chi_square(shares_drawn: list[float]) -> float:
    """How far numbers in [0, 1) are from being spread evenly over 20 bins."""
    expected = len(shares_drawn) / 20
    counts = Counter(int(20 * share) for share in shares_drawn)
    assert max(counts) < 20
    return sum((counts[place] - expected) ** 2 / expected for place in range(20))


# ---------------------------------------------------------------------------- one value of a range


@given(wholes, st.integers(0, 10**6), shares)
def test_whole_ends_give_a_whole_number_between_them(low: int, width: int, share: float) -> None:
    value = draw_from({"low": low, "high": low + width}, share)
    assert type(value) is int
    assert low <= value <= low + width


@given(fractions, st.floats(0.0, 1e6), shares)
def test_fractional_ends_give_a_fraction_between_them(low: float, width: float, share: float) -> None:
    value = draw_from({"low": low, "high": low + width}, share)
    assert type(value) is float
    # The last digit may round to either side of an end.
    assert low - 1e-9 <= value <= low + width + 1e-9


@given(wholes, st.integers(0, 10**6))
def test_both_whole_ends_are_within_reach(low: int, width: int) -> None:
    bounds = {"low": low, "high": low + width}
    assert (draw_from(bounds, 0.0), draw_from(bounds, JUST_BELOW_1)) == (low, low + width)


def test_share_that_rounds_up_to_1_stays_within_the_range() -> None:
    assert draw_from({"low": 2, "high": 5}, 1.0) == 5
    assert draw_from({"low": 2.0, "high": 5.0}, 1.0) == 5.0


@pytest.mark.parametrize("bounds", [{"low": 1, "high": 2.5}, {"low": 0.5, "high": 2}])
def test_one_fractional_end_makes_fractions(bounds: dict[str, float]) -> None:
    assert draw_from(bounds, 0.5) == (bounds["low"] + bounds["high"]) / 2


# ---------------------------------------------------------------------------- ranges in specs


def test_every_whole_number_of_a_range_is_drawn_as_often_as_any_other() -> None:
    rules = _rules(3, 6)
    counts = Counter(_drawn(rules, index) for index in range(2000))
    assert sorted(counts) == [3, 4, 5, 6]
    assert all(420 < count < 580 for count in counts.values())


def test_fractions_are_spread_over_their_range() -> None:
    rules = _rules(-1.0, 1.0)
    drawn = [(_drawn(rules, index) + 1.0) / 2.0 for index in range(2000)]
    assert _chi_square(drawn) < CHI_SQUARE_999_DF_19


@given(st.integers(0, 2**63 - 1), st.integers(0, 100), st.integers(0, 2**30), st.integers(0, 10))
def test_drawn_value_is_a_function_of_stream_position_and_attempt(
    run_seed: int, instance: int, index: int, attempt: int
) -> None:
    first, second = (_rules(run_seed=run_seed, instance=instance, random_levels=True) for _ in range(2))
    second.complete(_spec(index + 1))
    assert first.complete(_spec(index, attempt)) == second.complete(_spec(index, attempt))


@pytest.mark.parametrize(
    ("options", "index", "attempt"),
    [({"run_seed": 43}, 5, 0), ({"instance": 1}, 5, 0), ({}, 6, 0), ({}, 5, 1)],
    ids=["another seed", "another instance", "another position", "another attempt"],
)
def test_another_draw_has_another_value_and_level(options: dict[str, int], index: int, attempt: int) -> None:
    spec = _rules(random_levels=True).complete(_spec(5))
    other = _rules(random_levels=True, **options).complete(_spec(index, attempt))
    assert other.params["max_value"] != spec.params["max_value"]
    assert other.level != spec.level


def test_parameters_and_tasks_are_drawn_apart() -> None:
    bounds = {"low": 0.0, "high": 1.0}
    params = {task: {"min_value": bounds, "max_value": bounds} for task in ("gcd", "lcm")}
    rules = SpecRules(42, params=params, random_levels=True)
    specs = [rules.complete(_spec(0, task=task)) for task in params]
    values = [*(value for spec in specs for value in spec.params.values()), specs[0].level]
    assert len(set(values)) == 5


def test_fixed_parameters_are_taken_as_they_are() -> None:
    wanted = {"min_value": 3, "words": ["a"], "weights": {"a": 1}}
    assert SpecRules(42, params={"gcd": wanted}).complete(_spec(0)).params == wanted


def test_user_params_join_those_that_the_spec_has() -> None:
    spec = SpecRules(42, params={"gcd": {"min_value": 3}}).complete(_spec(0, max_value=9, min_value=1))
    assert spec.params == {"min_value": 3, "max_value": 9}


def test_completing_leaves_the_rest_of_a_spec_alone() -> None:
    spec = _spec(4, 2)
    completed = _rules(level=0.5).complete(spec)
    assert replace(completed, params={}, level=None) == spec
    assert spec.params == {}


def test_task_without_params_of_its_own_gets_none_of_anothers() -> None:
    assert _rules().complete(_spec(0, task="lcm")) == _spec(0, task="lcm")


# ---------------------------------------------------------------------------- composites


def test_each_member_of_a_composite_gets_the_params_of_its_own_task() -> None:
    rules = SpecRules(42, params={"gcd": {"min_value": 3}, "lcm": {"max_value": 9}, "maze": {"min_dist": 2}})
    assert rules.complete(COMPOSITE_SPEC).params == {
        "datasets": [
            {"name": "gcd", "weight": 2.0, "config": {"min_value": 3}},
            {"name": "lcm", "config": {"max_value": 9}},
        ]
    }


def test_ranges_of_members_are_drawn_for_each_position() -> None:
    completed = [_rules().complete(replace(COMPOSITE_SPEC, index=index)) for index in range(20)]
    drawn = {spec.params["datasets"][0]["config"]["max_value"] for spec in completed}
    assert len(drawn) == 20


def test_composite_itself_has_the_level() -> None:
    completed = SpecRules(42, level=0.25).complete(COMPOSITE_SPEC)
    assert completed.level == 0.25
    assert completed.params == COMPOSITE_SPEC.params


def test_spec_that_is_completed_keeps_its_members_as_they_were() -> None:
    before = [dict(member) for member in COMPOSITE_SPEC.params["datasets"]]
    _rules().complete(COMPOSITE_SPEC)
    assert COMPOSITE_SPEC.params["datasets"] == before


# ---------------------------------------------------------------------------- levels


def test_without_any_rule_there_is_no_level() -> None:
    assert SpecRules(42).complete(_spec(0)).level is None


@pytest.mark.parametrize("level", [0.0, 0.3, 1.0])
def test_fixed_level_is_that_of_every_spec(level: float) -> None:
    rules = SpecRules(42, level=level)
    assert {rules.complete(_spec(index)).level for index in range(20)} == {level}


def test_random_levels_are_uniform_and_different_at_every_position() -> None:
    rules = SpecRules(42, random_levels=True)
    levels = [rules.complete(_spec(index)).level for index in range(2000)]
    assert len(set(levels)) == 2000
    assert _chi_square([level for level in levels if level is not None]) < CHI_SQUARE_999_DF_19


@pytest.mark.parametrize("options", [{}, {"level": 0.9}, {"random_levels": True}])
@pytest.mark.parametrize("level", [0.0, 0.4])
def test_given_level_wins(options: dict[str, Any], level: float) -> None:
    assert SpecRules(42, **options).complete(_spec(0), level).level == level


def test_sampler_completes_what_it_draws() -> None:
    rules = _rules(random_levels=True)
    sampler = UniformSampler(("gcd",), ("gcd",), run_seed=42, rules=rules)
    specs = [sampler.draw(index, 0) for index in range(5)]
    assert [spec.params for spec in specs] == [{"max_value": _drawn(rules, index)} for index in range(5)]
    assert len({spec.level for spec in specs}) == 5


# ---------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"low": 4, "high": 3}, r"low is above high \(4 > 3\)"),
        ({"low": 0.5, "high": -0.5}, r"low is above high \(0.5 > -0.5\)"),
        ({"low": 4}, "must have low and high, and nothing else"),
        ({"high": 4}, "must have low and high, and nothing else"),
        ({"low": 1, "high": 4, "step": 2}, "must have low and high, and nothing else"),
        ({"low": "1", "high": 4}, "must be finite numbers; got '1' and 4"),
        ({"low": 1, "high": None}, "must be finite numbers; got 1 and None"),
        ({"low": [1], "high": [2]}, "must be finite numbers"),
        ({"low": 1, "high": math.nan}, "must be finite numbers; got 1 and nan"),
        ({"low": -math.inf, "high": 4}, "must be finite numbers; got -inf and 4"),
        ({"low": False, "high": True}, "must be finite numbers; got False and True"),
    ],
)
def test_range_that_cannot_be_is_refused_by_task_and_parameter(bounds: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=r"^task_params: lcm\.max_value.*" + message):
        check_ranges({"gcd": {"max_value": {"low": 1, "high": 2}}, "lcm": {"min_value": 1, "max_value": bounds}})


@pytest.mark.parametrize(
    "params",
    [{}, {"a": 1}, {"a": {"low": 3, "high": 3}}, {"a": {"low": -2, "high": 0.5}}, {"a": {"b": 1}}, {"a": [1, 2]}],
)
def test_ranges_and_fixed_values_that_can_be_are_let_through(params: dict[str, Any]) -> None:
    check_ranges({"gcd": params})


@pytest.mark.parametrize(
    ("params", "ends"),
    [
        ({}, [{}]),
        ({"a": 1, "b": [2]}, [{"a": 1, "b": [2]}]),
        ({"a": {"low": 1, "high": 2}, "b": 3}, [{"a": 1, "b": 3}, {"a": 2, "b": 3}]),
        (
            {"a": {"low": 1, "high": 2}, "b": {"low": 5, "high": 6}},
            [{"a": 1, "b": 5}, {"a": 1, "b": 6}, {"a": 2, "b": 5}, {"a": 2, "b": 6}],
        ),
        (
            {name: {"low": 1, "high": 2} for name in "abcde"},
            [dict.fromkeys("abcde", 1), dict.fromkeys("abcde", 2)],
        ),
        ({"a": {"low": 1, "high": 1}}, [{"a": 1}]),
        ({"a": {"other": 1}}, [{"a": {"other": 1}}]),
    ],
)
def test_extremes_are_the_ends_in_every_combination_of_a_few(
    params: Mapping[str, Any], ends: list[dict[str, Any]]
) -> None:
    assert extremes(params) == ends
