"""Plan a run from the task settings, and sample tasks and levels."""

from __future__ import annotations

import importlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from reasoning_env.errors import ConfigError
from reasoning_env.problems.plan import TaskPlan, composite_params, made_with, make_sampler, plan_tasks
from reasoning_env.problems.sampling import TaskSampler
from reasoning_env.records import ProblemSpec, TaskInfo
from reasoning_env.settings import ReasoningSettings
from reasoning_env.tasks import find_task
from reasoning_env.workers.levels import DifficultyMap
from tests.records import make_library

TASKS = {
    "acre": "induction",
    "chain_sum": "arithmetic",
    "coin_flip": "probability",
    "composite": "other",
    "gcd": "arithmetic",
    "number_sorting": "algorithmic",
    "sudoku": "games",
}
LIBRARY = make_library(TASKS, adjustable=frozenset(TASKS) - {"acre"})


@cache
def difficulty() -> DifficultyMap:
    return DifficultyMap.from_factory(importlib.import_module("reasoning_gym.factory"))


class LibraryChecker:
    """Checks parameters in this process as a worker does, and records the requests."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Mapping[str, Any], float | None]] = []

    async def check(self, params: Sequence[tuple[str, Mapping[str, Any], float | None]]) -> list[str]:
        self.asked += params
        return [fault for asked in params if (fault := difficulty().check(*asked))]


async def plan(**fields: Any) -> TaskPlan:
    return await plan_tasks(ReasoningSettings(**fields), LIBRARY, LibraryChecker())


# ---------------------------------------------------------------------------- resolving settings


async def test_plan_ignores_the_order_of_task_names() -> None:
    assert await plan(tasks="Sudoku, GCD, acre") == await plan(tasks=["acre", "gcd", "sudoku"])


async def test_plan_has_all_tasks_if_no_setting_selects_tasks() -> None:
    assert await plan() == TaskPlan(
        available=tuple(TASKS),
        tasks=tuple(TASKS),
        training_tasks=tuple(TASKS),
        adjustable=LIBRARY.adjustable,
        params={},
        weights=dict.fromkeys(TASKS, 1.0),
    )


async def test_settings_accept_patterns_instead_of_task_names() -> None:
    chosen = await plan(
        tasks="arithmetic/*, sudoku, number_sorting",
        exclude_tasks="category:games",
        task_sampling="weighted",
        task_weights="arithmetic/*=2, gcd=0.5",
        task_params={"*_sum": {"min_terms": 3}, "gcd": {"min_value": 2}},
    )
    assert "sudoku" not in chosen.available
    assert chosen.tasks == ("chain_sum", "gcd", "number_sorting")
    assert chosen.weights == {"chain_sum": 2.0, "gcd": 0.5, "number_sorting": 1.0}
    assert chosen.params == {"chain_sum": {"min_terms": 3}, "gcd": {"min_value": 2}}


@pytest.mark.parametrize(
    ("fields", "level"),
    [
        ({}, None),
        ({"complexity_level": 0.25}, 0.25),
        *(({"complexity_mode": mode}, 0.5) for mode in ("random", "curriculum")),
    ],
)
async def test_task_params_are_checked_at_the_difficulty_level_of_training(
    fields: dict[str, Any], level: float | None
) -> None:
    checker = LibraryChecker()
    params = {"gcd": {"min_value": 2, "max_numbers": 4}, "chain_sum": {"max_terms": 7}}
    await plan_tasks(ReasoningSettings(task_params=params, **fields), LIBRARY, checker)
    assert sorted(checker.asked, key=str) == [
        ("chain_sum", {"max_terms": 7}, level),
        ("gcd", {"min_value": 2, "max_numbers": 4}, level),
    ]


async def test_task_params_are_checked_at_the_difficulty_level_of_the_evaluation() -> None:
    checker = LibraryChecker()
    settings = ReasoningSettings(task_params={"gcd": {"min_value": 2}}, eval_level="training", complexity_level=0.75)
    await plan_tasks(settings, LIBRARY, checker)
    assert [level for _, _, level in checker.asked] == [0.75]


# ---------------------------------------------------------------------------- rejected settings

INVALID: dict[str, tuple[dict[str, Any], str]] = {
    "unknown task": ({"tasks": "gdc"}, "tasks: .*'gdc'.* gcd"),
    "unknown task left out": ({"exclude_tasks": "sudok"}, "exclude_tasks: .*'sudok'.* sudoku"),
    "unknown task weighed": ({"task_weights": {"gdc": 2}}, "task_weights: .*'gdc'.* gcd"),
    "every task left out": ({"tasks": "gcd", "exclude_tasks": "g*"}, "exclude_tasks: "),
    "unknown parameter": ({"task_params": {"gcd": {"min_valu": 3}}}, "task_params: gcd: .*'min_valu'.* min_value"),
    "two faults at once": ({"task_params": {"gcd": {"a": 1}, "sudoku": {"b": 1}}}, "task_params: gcd: .*; sudoku: "),
    "range": (
        {"task_params": {"gcd": {"min_value": {"low": 2, "high": 9}}}},
        "task_params: gcd: min_value is .*, which has the wrong type: Expected `int`, got `object`",
    ),
    "value that JSON cannot hold": ({"task_params": {"gcd": {"min_value": {1}}}}, "task_params: gcd.min_value "),
    "members of a composite": (
        {"task_params": {"composite": {"datasets": [{"name": "gcd"}]}}},
        "task_params: composite ",
    ),
    "negative weight": ({"task_weights": {"gcd": -1}}, "task_weights: .*'gcd'"),
    "weight without end": ({"task_weights": {"gcd": float("inf")}}, "task_weights: .*'gcd'"),
    "weight that is no number": ({"task_weights": {"gcd": float("nan")}}, "task_weights: .*'gcd'"),
    "no weight at all": ({"task_weights": {"*": 0}}, "task_weights: every"),
}


@pytest.mark.parametrize("case", INVALID)
async def test_error_names_the_setting_that_makes_a_plan_invalid(case: str) -> None:
    fields, message = INVALID[case]
    sampling = {"task_sampling": "weighted"} if "task_weights" in fields else {}
    with pytest.raises(ConfigError, match="^" + message):
        await plan(**fields, **sampling)


# ---------------------------------------------------------------------------- warnings


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"tasks": "acre,gcd", "complexity_mode": "random"}, [("complexity_mode", "acre")]),
        ({"tasks": "acre,gcd", "complexity_mode": "curriculum"}, [("complexity_mode", "acre")]),
        ({"tasks": "gcd", "complexity_mode": "random"}, []),
        ({"tasks": "acre,gcd"}, []),
        ({"tasks": "acre,gcd", "complexity_level": 0.5}, [("complexity_level", "acre")]),
    ],
)
async def test_log_names_the_tasks_that_ignore_level_settings(
    caplog: pytest.LogCaptureFixture, fields: dict[str, Any], named: list[tuple[str, str]]
) -> None:
    caplog.set_level(logging.INFO, "reasoning_env")
    await plan(**fields)
    assert [record.args for record in caplog.records] == named


async def test_setting_a_level_for_a_task_without_levels_logs_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "reasoning_env")
    await plan(tasks="acre", complexity_level=0.5)
    assert [record.levelname for record in caplog.records] == ["WARNING"]


async def test_default_training_leaves_gameable_tasks_out(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    chosen = await plan(rewards="plain")
    assert chosen.tasks == tuple(TASKS)
    assert chosen.training_tasks == ("acre", "chain_sum", "composite", "gcd", "sudoku")
    assert set(chosen.weights) == set(chosen.training_tasks)
    [(told,)] = [record.args for record in caplog.records]
    assert all(task in told and find_task(task).verifier_flaw in told for task in ("coin_flip", "number_sorting"))


@pytest.mark.parametrize(
    ("fields", "trained"),
    [
        ({"rewards": "strict"}, True),
        ({"rewards": "plain", "tasks": "probability/*"}, True),
        ({"rewards": "plain", "tasks": "coin_flip"}, True),
        ({"rewards": "plain", "tasks": "coin_flip,all"}, True),
        ({"rewards": "plain", "tasks": "all"}, False),
        ({"rewards": "plain", "tasks": "probability/*,gcd"}, False),
    ],
)
async def test_gameable_task_is_used_in_training_if_the_tasks_setting_names_it(
    fields: dict[str, Any], trained: bool
) -> None:
    assert ("coin_flip" in (await plan(**fields)).training_tasks) is trained


@pytest.mark.parametrize(("tasks", "trained"), [("all", False), ("rlve/*,gcd", False), ("rlve/Poor,gcd", True)])
async def test_gameable_user_task_is_used_in_training_only_if_the_tasks_setting_names_it(
    tasks: str, trained: bool
) -> None:
    others = (TaskInfo("rlve/Poor", "rlve", "1 is right in most problems"), TaskInfo("rlve/Rich", "rlve"))
    library = replace(LIBRARY, tasks=(*LIBRARY.tasks, *others))
    chosen = await plan_tasks(ReasoningSettings(tasks=tasks), library, LibraryChecker())
    assert ("rlve/Poor" in chosen.training_tasks) is trained
    assert "rlve/Poor" in chosen.tasks


async def test_flaw_of_a_gameable_task_selected_for_training_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    await plan(rewards="plain", tasks="coin_flip,gcd")
    [(told,)] = [record.args for record in caplog.records]
    assert told == f"coin_flip ({find_task('coin_flip').verifier_flaw})"


# ---------------------------------------------------------------------------- the sampler of a run

RIGHT, MIXED = (1.0,) * 4, (1.0, 0.0, 1.0, 0.0)
LEARNER = {"acre": MIXED, "chain_sum": RIGHT, "gcd": MIXED}


async def make(**fields: Any) -> Any:
    settings = ReasoningSettings(**{"tasks": "acre,chain_sum,gcd", **fields})
    chosen = await plan_tasks(settings, LIBRARY, LibraryChecker())
    return make_sampler(chosen, settings, instance=0, group_size=4)


def serve(sampler: TaskSampler, positions: range, scores: Mapping[str, Sequence[float]]) -> list[ProblemSpec]:
    """Sample problems and observe their groups, in the order of positions."""
    specs = []
    for index in positions:
        spec = sampler.draw(index, 0)
        specs.append(spec)
        sampler.observe(spec.task, spec.level, scores[spec.task])
    return specs


async def test_random_complexity_mode_does_not_learn_from_scores() -> None:
    sampler = await make(complexity_mode="random")
    expected = [sampler.draw(index, 0) for index in range(50)]
    assert serve(sampler, range(50), LEARNER) == expected
    assert (sampler.report(), sampler.state()) == ({}, {})


@pytest.mark.parametrize(("target", "gcd_rises"), [(0.3, True), (0.9, False)])
async def test_curriculum_levels_rise_while_the_accuracy_is_above_the_target(target: float, gcd_rises: bool) -> None:
    sampler = await make(complexity_mode="curriculum", curriculum_target_accuracy=target)
    before = sampler.report()
    serve(sampler, range(300), LEARNER)
    after = sampler.report()
    assert before["acre"].level is after["acre"].level is None
    assert after["chain_sum"].level > before["chain_sum"].level
    assert (after["gcd"].level > before["gcd"].level) is gcd_rises


async def test_adaptive_task_sampling_does_not_change_a_fixed_level() -> None:
    sampler = await make(task_sampling="adaptive", complexity_level=0.25)
    specs = serve(sampler, range(100), LEARNER)
    assert {spec.level for spec in specs} == {0.25}
    assert sampler.report()["gcd"].share > sampler.report()["chain_sum"].share


@pytest.mark.parametrize(
    ("tasks", "members"),
    [
        (("chain_sum", "composite", "maze"), ["chain_sum", "maze"]),
        (("composite",), ["chain_sum", "maze", "sudoku"]),
        (("chain_sum", "maze"), None),
    ],
)
def test_member_tasks_of_the_composite_task_default_to_the_other_selected_tasks(
    tasks: tuple[str, ...], members: list[str] | None
) -> None:
    available = ("sudoku", "composite", "maze", "chain_sum")
    expected = {} if members is None else {"composite": {"datasets": [{"name": name} for name in members]}}
    assert composite_params(tasks, available) == expected


def test_task_params_apply_to_members_of_the_composite_task() -> None:
    params = {"maze": {"min_dist": 2}, "sudoku": {"min_empty": 3}}
    composed = composite_params(("chain_sum", "composite", "maze"), (), params)
    members = [{"name": "chain_sum"}, {"name": "maze", "config": {"min_dist": 2}}]
    assert composed == {"composite": {"datasets": members}}


async def test_description_of_a_run_is_unchanged_after_json_encoding_and_decoding() -> None:
    """A checkpoint contains lists, so the description must not contain tuples."""
    settings = ReasoningSettings(tasks="chain_sum", task_params={"chain_sum": {"min_terms": 3}})
    run = made_with(settings, await plan_tasks(settings, LIBRARY, LibraryChecker()), "problems")
    assert run == json.loads(json.dumps(run))
    assert (run["tasks"], run["task_params"]) == (["chain_sum"], {"chain_sum": {"min_terms": 3}})


async def test_equal_task_selections_have_equal_descriptions() -> None:
    def run(**settings: Any) -> Any:
        return _described(ReasoningSettings(**settings))

    assert await run(tasks="gcd,chain_sum") == await run(tasks="chain_sum,gcd,acre", exclude_tasks="acre")
    assert await run(tasks="gcd") != await run(tasks="gcd", complexity_level=0.5)


async def _described(settings: ReasoningSettings) -> dict[str, Any]:
    return made_with(settings, await plan_tasks(settings, LIBRARY, LibraryChecker()), "problems")


@pytest.mark.parametrize(("params", "is_lower"), [({}, True), ({"coin_flip": {"max_trials": 50}}, False)])
async def test_task_with_few_questions_is_sampled_less(params: Mapping[str, Any], is_lower: bool) -> None:
    """The number of questions of a task is only known for its default parameters."""
    settings = ReasoningSettings(tasks=["coin_flip", "gcd"], task_sampling="adaptive", task_params=params)
    planned = await plan_tasks(settings, LIBRARY, LibraryChecker())
    sampler = make_sampler(planned, settings, instance=0, group_size=2)
    for index in range(400):
        sampler.draw(index, 0)
        for task in ("coin_flip", "gcd"):
            sampler.observe(task, None, [0.0, 1.0])
    report = sampler.report()
    assert (report["coin_flip"].share < report["gcd"].share / 2) is is_lower
