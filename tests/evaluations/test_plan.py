from __future__ import annotations

from typing import Any

import pytest

from reasoning_env.errors import ConfigError
from reasoning_env.evaluations.plan import EvalPlan, plan_evaluation
from reasoning_env.evaluations.presets import SIZE, load_preset
from reasoning_env.settings import ReasoningSettings
from tests.records import make_library

TASKS = ("chain_sum", "composite", "gcd", "maze", "survo")
CATEGORIES = {name: "games" if name in ("maze", "survo") else "arithmetic" for name in TASKS}
LIBRARY = make_library(CATEGORIES, version="0.1.25", system_prompt="The library's own.")


def plan(selected: tuple[str, ...] = TASKS, **settings: Any) -> EvalPlan:
    return plan_evaluation(ReasoningSettings(**settings), LIBRARY, selected)


def test_tasks_are_those_of_the_run_unless_they_are_said() -> None:
    assert plan(("gcd", "maze")).tasks == ("gcd", "maze")
    assert plan(("gcd",), eval_tasks="games/*").tasks == ("maze", "survo")
    assert plan(("gcd",), eval_tasks="games/*", num_eval_tasks=1).tasks == ("maze",)
    assert plan(("gcd",), eval_tasks="survo,all").tasks == TASKS
    assert plan(("survo", "gcd")).tasks == ("gcd", "survo")
    with pytest.raises(ConfigError, match=r"^eval_tasks: .*'chainsum'"):
        plan(eval_tasks="chainsum")


def test_without_a_preset_settings_and_training_decide() -> None:
    assert plan(("gcd",), eval_repeats=4, num_eval_samples_per_task=7) == EvalPlan(("gcd",), 7, 4)
    assert plan(("gcd",)) == EvalPlan(("gcd",), 5, 1)


def test_preset_has_the_protocols_tasks_numbers_and_prompt() -> None:
    found = plan(eval_preset="rg-easy")
    assert found.tasks == ("chain_sum", "gcd", "maze")
    assert (found.samples_per_task, found.repeats) == (SIZE, 3)
    assert found.system_prompt == "The library's own."
    assert plan(eval_preset="rg-hard").repeats == 1
    assert plan(eval_preset="rg-easy", num_eval_samples_per_task=9, eval_repeats=2).samples_per_task == 9


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [("tasks", "gcd,survo", "survo"), ("eval_tasks", "Survo", "survo"), ("num_eval_samples_per_task", 51, "50")],
)
def test_preset_refuses_tasks_that_are_named_and_more_problems_that_are_not_its_own(
    field: str, value: Any, named: str
) -> None:
    with pytest.raises(ConfigError, match=f"^{field}: .*rg-easy .*{named}"):
        plan(eval_preset="rg-easy", **{field: value})


def test_preset_takes_its_own_of_a_pattern_and_refuses_one_without_any() -> None:
    assert plan(eval_preset="rg-easy", eval_tasks="games/*").tasks == ("maze",)
    with pytest.raises(ConfigError, match=r"^eval_preset: rg-easy "):
        plan(("survo",), eval_preset="rg-easy")


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"eval_temperature": 0.0}, "temperature"),
        ({"eval_top_p": 1.0}, "top_p"),
        ({"num_eval_samples_per_task": 3}, "3"),
    ],
)
def test_what_differs_from_the_protocol_is_remarked(settings: dict[str, Any], word: str) -> None:
    usual = plan(eval_preset="rg-easy").remarks
    more = [remark for remark in plan(eval_preset="rg-easy", **settings).remarks if remark not in usual]
    assert len(more) == 1
    assert word in more[0]


@pytest.mark.parametrize(("name", "tasks", "identical", "models"), [("rg-easy", 101, 88, 10), ("rg-hard", 100, 90, 10)])
def test_published_data_are_whole(name: str, tasks: int, identical: int, models: int) -> None:
    preset = load_preset(name)
    assert (len(preset.tasks), len(preset.identical), len(preset.published)) == (tasks, identical, models)
    assert preset.params.keys() <= set(preset.tasks)
    for scores in preset.published.values():
        assert len(scores) >= tasks - 1
        assert all(0.0 <= score <= 1.0 for score in scores.values())
    means = {model: sum(scores.values()) / len(scores) for model, scores in preset.published.items()}
    assert means["openai/o3-mini"] == pytest.approx({"rg-easy": 0.801, "rg-hard": 0.6351}[name], abs=5e-5)
    assert preset.source
