from __future__ import annotations

import asyncio
from typing import Any

import pytest

from reasoning_env.errors import ConfigError
from reasoning_env.problems.plan import EvaluationPlan, plan_evaluation
from reasoning_env.problems.presets import FIRST_SEED, PRESET_SIZE
from reasoning_env.settings import ReasoningSettings
from tests.fake_workers import FakeWorkers
from tests.records import make_library

TASKS = ("chain_sum", "composite", "gcd", "maze", "survo")
CATEGORIES = {name: "games" if name in ("maze", "survo") else "arithmetic" for name in TASKS}
LIBRARY = make_library(CATEGORIES, version="0.1.25", system_prompt="The library's own.")


TRAINED: dict[str, dict[str, Any]] = {"gcd": {"max_numbers": 3}, "maze": {"max_dist": 6}}


def plan(selected: tuple[str, ...] = TASKS, **settings: Any) -> EvaluationPlan:
    return plan_evaluation(ReasoningSettings(**settings), LIBRARY, selected, TRAINED)


def test_evaluation_tasks_default_to_the_training_tasks() -> None:
    assert plan(("gcd", "maze")).tasks == ("gcd", "maze")


@pytest.mark.parametrize(
    ("settings", "tasks"),
    [
        ({"eval_tasks": "games/*"}, ("maze", "survo")),
        ({"eval_tasks": "survo,all"}, TASKS),
    ],
)
def test_eval_tasks_setting_accepts_patterns(settings: dict[str, Any], tasks: tuple[str, ...]) -> None:
    assert plan(("gcd",), **settings).tasks == tasks


def test_evaluation_tasks_are_sorted() -> None:
    assert plan(("survo", "gcd")).tasks == ("gcd", "survo")


def test_error_names_the_unknown_evaluation_task() -> None:
    with pytest.raises(ConfigError, match=r"^eval_tasks: .*'chainsum'"):
        plan(eval_tasks="chainsum")


def test_number_of_evaluation_problems_comes_from_a_setting_if_there_is_no_preset() -> None:
    assert plan(("gcd",), eval_repeats=4, num_eval_samples_per_task=7) == EvaluationPlan(("gcd",), 7, 4, 123)
    assert plan(("gcd",)) == EvaluationPlan(("gcd",), 5, 1, 123)


def test_preset_overrides_the_eval_seed() -> None:
    assert plan(("gcd",), eval_seed=9).seed == 9
    assert plan(eval_preset="rg-easy", eval_seed=9).seed == FIRST_SEED


def test_evaluation_uses_the_training_parameters_if_eval_level_is_training() -> None:
    assert plan(("gcd", "survo")).params == {}
    assert plan(("gcd", "survo"), eval_level="training").params == {"gcd": {"max_numbers": 3}}


def test_evaluation_of_the_composite_task_uses_the_same_member_tasks_as_training() -> None:
    settings = ReasoningSettings(eval_level="training")
    workers = FakeWorkers()
    evaluation_set = plan(("composite", "gcd"), eval_level="training").make_set(workers, settings, TASKS)
    asyncio.run(evaluation_set.problems())
    params = {spec.task: spec.params for spec in workers.specs}
    assert params == {
        "composite": {"datasets": [{"name": "gcd", "config": {"max_numbers": 3}}]},
        "gcd": {"max_numbers": 3},
    }


def test_plan_raises_if_eval_level_and_eval_preset_are_both_set() -> None:
    with pytest.raises(ValueError, match=r"eval_preset: .*remove eval_preset or eval_level"):
        plan(eval_preset="rg-easy", eval_level="training")


def test_evaluation_plan_follows_the_preset() -> None:
    found = plan(eval_preset="rg-easy")
    assert found.tasks == ("chain_sum", "gcd", "maze")
    assert (found.samples_per_task, found.repeats) == (PRESET_SIZE, 3)
    assert found.system_prompt == "The library's own."
    assert plan(eval_preset="rg-hard").repeats == 1


@pytest.mark.parametrize("asked", [5, 9])
def test_preset_is_limited_to_the_configured_number_of_problems(asked: int) -> None:
    assert plan(eval_preset="rg-easy", num_eval_samples_per_task=asked).samples_per_task == asked


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [("tasks", "gcd,survo", "survo"), ("eval_tasks", "Survo", "survo"), ("num_eval_samples_per_task", 51, "50")],
)
def test_error_names_the_setting_that_does_not_fit_the_preset(field: str, value: Any, named: str) -> None:
    with pytest.raises(ConfigError, match=f"^{field}: .*rg-easy .*{named}"):
        plan(eval_preset="rg-easy", **{field: value})


def test_eval_tasks_setting_selects_among_the_tasks_of_the_preset() -> None:
    assert plan(eval_preset="rg-easy", eval_tasks="games/*").tasks == ("maze",)
    with pytest.raises(ConfigError, match=r"^eval_preset: rg-easy "):
        plan(("survo",), eval_preset="rg-easy")
