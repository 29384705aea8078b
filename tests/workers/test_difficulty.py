"""Levels of difficulty as parameters: the mapping on made-up curricula, and on every task of the library."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning_env.errors import GenerationError
from reasoning_env.library_facts import FACTS, KNOWN_TASKS
from reasoning_env.records import Problem, ProblemSpec, Split, Verdict
from reasoning_env.workers.difficulty import STEPS, Attribute, Difficulty, interpolate
from reasoning_env.workers.pool import PoolSettings, WorkerPool

LEVELS = [step / STEPS for step in range(STEPS + 1)]
TRIED = (0.0, 0.25, 0.5, 0.75, 1.0)
NOT_ADJUSTABLE = ("acre", "gsm_symbolic", "list_functions")
TASKS = sorted(KNOWN_TASKS - {"composite"} - set(NOT_ADJUSTABLE))
MEMBERS = {"datasets": [{"name": "chain_sum", "weight": 2.0, "config": {"min_terms": 1}}, {"name": "acre"}]}


@dataclass
class Config:
    """A config that refuses a width of 4 or 5, and a range that is upside down."""

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
    return SimpleNamespace(
        lower_field_name="low", upper_field_name="high", levels=levels, ensure_interval=ensure_interval
    )


def difficulty_of(*attributes: SimpleNamespace, config: Callable[..., Any] = Config) -> Difficulty:
    """A library of one task, `made_up`, whose curriculum turns the given attributes."""
    curriculum = SimpleNamespace(attributes=dict(enumerate(attributes)))
    return Difficulty({"made_up": config}, {"made_up": lambda: curriculum})


@pytest.fixture(scope="module")
def library() -> Difficulty:
    return Difficulty.from_factory(importlib.import_module("reasoning_gym.factory"))


number_lists = st.lists(st.integers(-(10**9), 10**9), min_size=2, max_size=12, unique=True).map(sorted)


@given(number_lists)
def test_interpolation_goes_through_every_level_and_never_back(levels: list[int]) -> None:
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
def test_between_two_levels(levels: list[Any], position: float, value: Any) -> None:
    assert interpolate(levels, position) == value


@given(number_lists.filter(lambda levels: len(levels) > 2))
def test_distinct_bounds_are_distinct_and_one_step_apart_at_both_ends(levels: list[int]) -> None:
    attribute = Attribute(("low", "high"), tuple(levels), distinct_bounds=True)
    windows = [attribute.at(level) for level in LEVELS]
    assert all(window["low"] < window["high"] for window in windows)
    assert list(windows[0].values()) == levels[:2]
    assert list(windows[-1].values()) == levels[-2:]


@given(number_lists)
def test_window_rises_from_the_first_level_to_the_last_step(levels: list[int]) -> None:
    windows = [Attribute(("low", "high"), tuple(levels)).at(level) for level in LEVELS]
    assert list(windows[0].values()) == [levels[0], levels[0]]
    assert list(windows[-1].values()) == levels[-2:]
    for end in ("low", "high"):
        assert [window[end] for window in windows] == sorted(window[end] for window in windows)


def test_falling_levels_keep_their_bounds_in_order() -> None:
    assert Attribute(("low", "high"), (9, 5, 1)).at(1.0) == {"low": 1, "high": 5}


def test_pairs_of_bounds_are_taken_as_they_are() -> None:
    attribute = Attribute(("low", "high"), ((1, 4), (1, 8)))
    assert [attribute.at(level) for level in (0.0, 0.5, 1.0)] == [{"low": 1, "high": high} for high in (4, 6, 8)]


def test_each_attribute_goes_at_its_own_pace() -> None:
    difficulty = difficulty_of(scalar("width", [1, 3]), spread([1, 2, 3, 4, 5]))
    assert difficulty.parameters("made_up", 0.5).params == {"width": 2, "low": 2, "high": 3}


@given(st.floats(0.0, 1.0))
def test_level_is_the_nearest_step(level: float) -> None:
    resolved = difficulty_of(scalar("high", [10, 1000])).parameters("made_up", level)
    assert resolved.level is not None
    assert abs(resolved.level - level) <= 0.5 / STEPS
    assert resolved.level in LEVELS
    assert not resolved.clamped


@pytest.mark.parametrize("level", [-0.01, 1.01, float("nan")])
def test_level_outside_0_to_1_is_refused(level: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        difficulty_of().parameters("made_up", level)


def test_level_that_the_config_refuses_becomes_the_nearest_that_it_takes() -> None:
    difficulty = difficulty_of(scalar("width", [1, 5]))
    resolved = difficulty.parameters("made_up", 1.0)
    assert resolved.params == {"width": 3}
    assert resolved.level == 9 / STEPS
    assert resolved.clamped


def test_level_above_is_taken_where_none_below_works() -> None:
    resolved = difficulty_of(scalar("width", [4, 8])).parameters("made_up", 0.0)
    assert resolved.params == {"width": 6}
    assert resolved.clamped


def test_overrides_win() -> None:
    difficulty = difficulty_of(scalar("width", [1, 3]))
    assert difficulty.parameters("made_up", 1.0, {"width": 9, "words": ["a"]}).params == {"width": 9, "words": ["a"]}


def test_level_gives_way_to_overrides() -> None:
    resolved = difficulty_of(spread([1, 9])).parameters("made_up", 0.0, {"low": 5})
    assert resolved.params == {"low": 5, "high": 5}
    assert resolved.level == 7 / STEPS
    assert resolved.clamped


def test_overrides_that_no_level_goes_with_are_named() -> None:
    with pytest.raises(ValueError, match=r"made_up: no level works with \{\"width\": 4\}.*no such width"):
        difficulty_of(spread([1, 2])).parameters("made_up", 0.5, {"width": 4})


def test_task_without_curriculum_takes_its_overrides_at_every_level() -> None:
    difficulty = Difficulty({"made_up": Config}, {})
    assert not difficulty.adjustable("made_up")
    resolved = difficulty.parameters("made_up", 0.5, {"width": 2})
    assert (resolved.params, resolved.level, resolved.clamped) == ({"width": 2}, None, False)


def test_changing_a_result_does_not_change_the_curriculum() -> None:
    levels = [["a"], ["b"]]
    difficulty = difficulty_of(scalar("words", levels))
    difficulty.parameters("made_up", 0.0).params["words"].append("c")
    assert levels == [["a"], ["b"]]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"widht": 2}, "made_up: there is no parameter 'widht'; there is width, words"),
        ({"zzz": 2}, "made_up: there is no parameter 'zzz'; there is low, high, width, words"),
        ({"seed": 2}, "made_up: seed cannot be set: every problem gets its own"),
        ({"width": 4}, 'made_up: the library refuses {"width": 4} (AssertionError: no such width)'),
        ({"low": 6}, 'made_up: the library refuses {"low": 6} (AssertionError: low must not be above high)'),
        ({"low": 2}, None),
    ],
)
def test_parameters_are_checked(params: dict[str, Any], message: str | None) -> None:
    assert difficulty_of().check("made_up", params) == message


def test_parameters_are_checked_together_with_a_level() -> None:
    difficulty = difficulty_of(spread([10, 90]))
    assert difficulty.check("made_up", {"low": 30}, level=0.5) is None
    assert "low must not be above high" in str(difficulty.check("made_up", {"low": 91}, level=0.5))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, "composite: datasets must list at least one member"),
        ({"members": []}, "composite: there is no parameter 'members'; there is datasets"),
        ({"datasets": [{"name": "chain_sun"}]}, "composite: there is no task 'chain_sun'; there is chain_sum"),
        ({"datasets": [{"name": "ab", "config": {"size": 3}}]}, "composite: ab: size cannot be set"),
        (MEMBERS, None),
    ],
)
def test_composites_are_checked_member_by_member(
    library: Difficulty, params: dict[str, Any], message: str | None
) -> None:
    fault = library.check("composite", params, level=0.5)
    assert fault is None if message is None else str(fault).startswith(message)


def test_composite_hands_its_level_on(library: Difficulty) -> None:
    resolved = library.parameters("composite", 0.75, MEMBERS)
    first, second = resolved.params["datasets"]
    assert first == {
        "name": "chain_sum",
        "weight": 2.0,
        "config": {**library.parameters("chain_sum", 0.75).params, "min_terms": 1},
    }
    assert second == {"name": "acre", "config": {}}
    assert resolved.level == 0.75


def test_every_task_with_something_to_turn_is_adjustable(library: Difficulty) -> None:
    assert [task for task in sorted(KNOWN_TASKS) if not library.adjustable(task)] == list(NOT_ADJUSTABLE)


def test_easiest_and_hardest_differ(library: Difficulty) -> None:
    assert [t for t in TASKS if library.parameters(t, 0.0).params == library.parameters(t, 1.0).params] == []


def test_no_level_of_the_library_is_clamped(library: Difficulty) -> None:
    """What its configs refuse is corrected attribute by attribute, so that no level is lost."""
    assert [(task, level) for task in TASKS for level in LEVELS if library.parameters(task, level).clamped] == []


def test_numbers_of_the_library_move_in_one_direction(library: Difficulty) -> None:
    turning = []
    for task in TASKS:
        params = [library.parameters(task, level).params for level in LEVELS]
        for name, first in params[0].items():
            if isinstance(first, (int, float)):
                values = [one[name] for one in params]
                if values not in (sorted(values), sorted(values, reverse=True)):
                    turning.append((task, name))
    assert turning == []


def test_parameters_are_plain_json(library: Difficulty) -> None:
    for task in TASKS:
        for level in TRIED:
            params = library.parameters(task, level).params
            assert json.loads(json.dumps(params, allow_nan=False)) == params


def test_parameters_of_all_levels_are_few(library: Difficulty) -> None:
    for task in TASKS:
        fine = {json.dumps(library.parameters(task, number / 1000).params) for number in range(1001)}
        assert len(fine) <= STEPS + 1


def test_corrections_name_tasks_and_fields_that_there_are(library: Difficulty) -> None:
    for task, known in FACTS.items():
        for correction in known.levels:
            assert set(correction.fields) <= set(library.parameters(task, 0.0).params)


def test_mapping_is_the_same_in_every_process(library: Difficulty) -> None:
    script = (
        "import importlib, json; from reasoning_env.workers.difficulty import Difficulty;"
        "difficulty = Difficulty.from_factory(importlib.import_module('reasoning_gym.factory'));"
        f"print(json.dumps([difficulty.parameters(task, 0.5).params for task in {TASKS}]))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(sys.path)}
    printed = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert json.loads(printed) == [library.parameters(task, 0.5).params for task in TASKS]


Outcomes = dict[tuple[str, float], "tuple[Problem, Verdict | None] | GenerationError"]


async def _outcomes(library: Difficulty) -> Outcomes:
    """One item of every task at every tried level, with the verdict on the library's own answer."""
    outcomes: Outcomes = {}
    pool = WorkerPool(PoolSettings(generators=1, verifiers=1, niceness=0, scoring_deadline_s=60.0))

    async def run(task: str, level: float) -> None:
        spec = ProblemSpec(
            task, 20_000 + round(8 * level), Split.TRAIN, 0, params=library.parameters(task, level).params
        )
        try:
            problem = await pool.generate(spec, 30.0)
        except GenerationError as error:
            outcomes[task, level] = error
            return
        asked = problem.answer is not None and problem.flaw is None
        outcomes[task, level] = problem, (await pool.score(problem, [str(problem.answer)]))[0] if asked else None

    try:
        await pool.start()
        await asyncio.gather(*(run(task, level) for task in TASKS for level in TRIED))
    finally:
        await pool.close()
    return outcomes


@pytest.fixture(scope="module")
def outcomes(library: Difficulty) -> Outcomes:
    return asyncio.run(_outcomes(library))


@pytest.mark.slow
def test_every_task_generates_at_every_level(outcomes: Outcomes) -> None:
    assert {key: str(value) for key, value in outcomes.items() if isinstance(value, GenerationError)} == {}
    assert len(outcomes) == len(TASKS) * len(TRIED)


@pytest.mark.slow
def test_oracle_answers_score_full_marks_at_every_level(outcomes: Outcomes) -> None:
    judged = {key: value[1] for key, value in outcomes.items() if not isinstance(value, GenerationError) and value[1]}
    assert {key: verdict for key, verdict in judged.items() if verdict.score < 1.0} == {}
    assert len(judged) > 0.9 * len(outcomes)


@pytest.mark.slow
def test_questions_stay_below_20_000_characters(outcomes: Outcomes) -> None:
    made = {key: value[0] for key, value in outcomes.items() if not isinstance(value, GenerationError)}
    assert {key: len(problem.question) for key, problem in made.items() if len(problem.question) > 20_000} == {}
