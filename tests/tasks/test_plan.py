"""What a run draws from: the settings of tasks, their refusals, and the stream that learns from groups."""

from __future__ import annotations

import importlib
import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import pytest

from reasoning_env.errors import ConfigError
from reasoning_env.records import Group, LibraryInfo, Problem, ProblemSpec, Reason, Rollout, TaskInfo, Verdict
from reasoning_env.settings import ReasoningSettings
from reasoning_env.tasks.plan import TaskPlan, TaskStream, describe_run, plan_tasks
from reasoning_env.workers.difficulty import Difficulty

TASKS = {
    "acre": "induction",
    "chain_sum": "arithmetic",
    "coin_flip": "probability",
    "composite": "other",
    "gcd": "arithmetic",
    "number_sorting": "algorithmic",
    "sudoku": "games",
}
LIBRARY = LibraryInfo(
    version="1",
    path="/",
    tasks=tuple(TaskInfo(name, category) for name, category in TASKS.items()),
    warnings=(),
    sandbox="",
    adjustable=frozenset(TASKS) - {"acre"},
)
GROUP_SIZE = 4


@cache
def _difficulty() -> Difficulty:
    return Difficulty.from_factory(importlib.import_module("reasoning_gym.factory"))


class LibraryChecker:
    """Checks as a worker does, without one, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Mapping[str, Any], float | None]] = []

    async def check(self, wanted: Sequence[tuple[str, Mapping[str, Any], float | None]]) -> list[str]:
        self.asked += wanted
        return [fault for one in wanted if (fault := _difficulty().check(*one))]


async def _plan(**fields: Any) -> TaskPlan:
    return await plan_tasks(ReasoningSettings(**fields), LIBRARY, LibraryChecker())


# ---------------------------------------------------------------------------- what is meant


async def test_nothing_set_means_every_task_alike_and_as_it_is() -> None:
    plan = await _plan()
    assert plan.available == plan.tasks == plan.training_tasks == tuple(sorted(TASKS))
    assert plan.weights == dict.fromkeys(TASKS, 1.0)
    assert (plan.params, plan.adjustable) == ({}, LIBRARY.adjustable)


async def test_patterns_choose_tasks_weights_and_params() -> None:
    plan = await _plan(
        tasks="arithmetic/*, sudoku, number_sorting",
        exclude_tasks="category:games",
        task_sampling="weighted",
        task_weights="arithmetic/*=2, gcd=0.5",
        task_params={"*_sum": {"min_terms": 3}, "gcd": {"min_value": {"low": 2, "high": 9}}},
    )
    assert plan.tasks == ("chain_sum", "gcd", "number_sorting")
    assert plan.weights == {"chain_sum": 2.0, "gcd": 0.5, "number_sorting": 1.0}
    assert plan.params == {"chain_sum": {"min_terms": 3}, "gcd": {"min_value": {"low": 2, "high": 9}}}


@pytest.mark.parametrize("level", [None, 0.25])
async def test_params_are_checked_at_both_ends_of_their_ranges_and_at_the_level_of_the_run(level: float | None) -> None:
    checker = LibraryChecker()
    params = {"gcd": {"min_value": {"low": 2, "high": 9}, "max_numbers": 4}, "chain_sum": {"max_terms": 7}}
    await plan_tasks(ReasoningSettings(task_params=params, complexity_level=level), LIBRARY, checker)
    assert sorted(checker.asked, key=str) == [
        ("chain_sum", {"max_terms": 7}, level),
        ("gcd", {"min_value": 2, "max_numbers": 4}, level),
        ("gcd", {"min_value": 9, "max_numbers": 4}, level),
    ]


async def test_nothing_is_checked_where_no_params_are_set() -> None:
    checker = LibraryChecker()
    await plan_tasks(ReasoningSettings(), LIBRARY, checker)
    assert checker.asked == []


# ---------------------------------------------------------------------------- what is refused


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "unknown task": ({"tasks": "gdc"}, r"tasks: there is no task 'gdc'; did you mean gcd"),
    "pattern of no task": ({"tasks": "gamess/*"}, r"tasks: there is .*'gamess/\*'; did you mean games/\*"),
    "unknown task left out": ({"exclude_tasks": "sudok"}, r"exclude_tasks: there is no task 'sudok'; .*sudoku"),
    "every task left out": ({"tasks": "gcd", "exclude_tasks": "g*"}, r"exclude_tasks: every task .* exclude fewer"),
    "unknown task weighed": ({"task_weights": {"gdc": 2}}, r"task_weights: there is no task 'gdc'; did you mean gcd"),
    "category weighed that is none": (
        {"task_weights": {"category:game": 2}},
        r"task_weights: there is .*'category:game'; did you mean category:games",
    ),
    "weight below zero": ({"task_weights": {"gcd": -1}}, r"task_weights: .*'gcd' must be a number from 0 upwards"),
    "weight without end": ({"task_weights": {"gcd": "inf"}}, r"task_weights: .*'gcd' must be a number from 0"),
    "weight that is no number": ({"task_weights": {"gcd": "nan"}}, r"task_weights: .*'gcd' must be a number from 0"),
    "all weights zero": ({"task_weights": {"*": 0}}, r"task_weights: every selected task .* give at least one"),
    "weight of another task": (
        {"tasks": "gcd", "task_weights": {"sudoku": 2}},
        r"task_weights: 'sudoku' matches none of the selected tasks; select some, or take it out",
    ),
    "unknown task with params": ({"task_params": {"gdc": {}}}, r"task_params: there is no task 'gdc'; .*gcd"),
    "params of another task": (
        {"tasks": "gcd", "task_params": {"games/*": {}}},
        r"task_params: 'games/\*' matches none of the selected tasks; select some, or take it out",
    ),
    "range upside down": (
        {"task_params": {"gcd": {"min_value": {"low": 3, "high": 2}}}},
        r"task_params: gcd\.min_value: low is above high \(3 > 2\); exchange them",
    ),
    "range with one end": ({"task_params": {"gcd": {"min_value": {"low": 3}}}}, r"task_params: gcd\.min_value must"),
    "unknown parameter": (
        {"task_params": {"gcd": {"min_valu": 3}}},
        r"task_params: gcd: there is no parameter 'min_valu'; there is min_value",
    ),
    "seed as a parameter": ({"task_params": {"gcd": {"seed": 3}}}, r"task_params: gcd: seed cannot be set"),
    "value that the library refuses": (
        {"task_params": {"gcd": {"min_value": -3}}},
        r'task_params: gcd: the library refuses \{"min_value": -3\}',
    ),
    "high end that the library refuses": (
        {"task_params": {"gcd": {"min_value": {"low": 3, "high": 5000}}}},
        r'task_params: gcd: the library refuses \{"min_value": 5000\}',
    ),
    "value that no level goes with": (
        {"task_params": {"gcd": {"max_value": 10}}, "complexity_level": 0.5},
        r"task_params: gcd: .*no level works with",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_refusal_names_the_field_the_task_and_the_remedy(case: str) -> None:
    fields, message = REFUSED[case]
    sampling = {"task_sampling": "weighted"} if "task_weights" in fields else {}
    with pytest.raises(ConfigError, match="^" + message):
        await _plan(**fields, **sampling)


async def test_all_faults_of_params_are_told_at_once() -> None:
    with pytest.raises(ConfigError, match=r"gcd: there is no parameter 'a'.*; sudoku: there is no parameter 'b'"):
        await _plan(task_params={"gcd": {"a": 1}, "sudoku": {"b": 1}})


@pytest.mark.parametrize("mode", ["random", "curriculum"])
async def test_params_that_no_level_goes_with_are_refused_where_every_problem_has_a_level(mode: str) -> None:
    with pytest.raises(ConfigError, match=r"task_params: gcd: .*no level works with"):
        await _plan(task_params={"gcd": {"max_value": 10}}, complexity_mode=mode)


async def test_range_beyond_what_a_float_holds_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"task_params: gcd\.max_value"):
        await _plan(task_params={"gcd": {"max_value": {"low": 2000, "high": 10**400}}})


async def test_members_of_a_composite_that_the_user_sets_are_used_or_refused() -> None:
    fields = {"tasks": "composite", "task_params": {"composite": {"datasets": [{"name": "gcd"}]}}}
    try:
        plan = await _plan(**fields)
    except ConfigError:
        return
    drawn = TaskStream(plan, ReasoningSettings(**fields), instance=0, group_size=GROUP_SIZE).sampler.draw(0, 0)
    assert drawn.params == {"datasets": [{"name": "gcd"}]}


# ---------------------------------------------------------------------------- what is told


def _messages(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == level]


@pytest.mark.parametrize("mode", ["random", "curriculum"])
async def test_tasks_without_levels_are_named_where_levels_are_asked_for(
    caplog: pytest.LogCaptureFixture, mode: str
) -> None:
    caplog.set_level(logging.INFO, "reasoning_env")
    await _plan(tasks="acre,gcd", complexity_mode=mode)
    assert _messages(caplog, logging.INFO) == ["complexity_mode leaves these tasks as they are, having no levels: acre"]


@pytest.mark.parametrize("fields", [{}, {"tasks": "gcd", "complexity_mode": "random"}])
async def test_nothing_is_said_where_every_task_does_as_asked(
    caplog: pytest.LogCaptureFixture, fields: dict[str, Any]
) -> None:
    caplog.set_level(logging.INFO, "reasoning_env")
    await _plan(**fields)
    assert caplog.records == []


async def test_gameable_tasks_are_left_out_of_training_with_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    plan = await _plan(strict_rewards=False)
    assert plan.tasks == tuple(sorted(TASKS))
    assert plan.training_tasks == ("acre", "chain_sum", "composite", "gcd", "sudoku")
    assert set(plan.weights) == set(plan.training_tasks)
    [warning] = _messages(caplog, logging.WARNING)
    assert "coin_flip (0 is a prefix of every probability); number_sorting (" in warning
    assert "name a task in `tasks`, or set exclude_gameable to false" in warning


@pytest.mark.parametrize(
    ("fields", "trained"),
    [
        ({"strict_rewards": True}, True),
        ({"strict_rewards": False, "exclude_gameable": False}, True),
        ({"strict_rewards": False, "tasks": "coin_flip"}, True),
        ({"strict_rewards": False, "tasks": "coin_flip,all"}, True),
        ({"strict_rewards": False, "tasks": "all"}, False),
        ({"strict_rewards": False, "tasks": "probability/*,gcd"}, False),
    ],
)
async def test_gameable_task_is_trained_on_where_it_is_named_or_mended(fields: dict[str, Any], trained: bool) -> None:
    assert ("coin_flip" in (await _plan(**fields)).training_tasks) is trained


async def test_leaving_out_gameable_tasks_till_none_is_left_is_refused_for_what_it_is() -> None:
    with pytest.raises(ConfigError) as refusal:
        await _plan(tasks="probability/*", strict_rewards=False)
    assert "weight" not in str(refusal.value)
    assert "gameable" in str(refusal.value)


# ---------------------------------------------------------------------------- the stream of a run


async def _stream(state: Mapping[str, Any] | None = None, **fields: Any) -> TaskStream:
    settings = ReasoningSettings(**{"tasks": "acre,chain_sum,gcd", **fields})
    plan = await plan_tasks(settings, LIBRARY, LibraryChecker())
    return TaskStream(plan, settings, instance=0, group_size=GROUP_SIZE, state=state)


def _group(spec: ProblemSpec, *scores: float, sent: tuple[float, ...] = ()) -> Group:
    problem = Problem(spec, "", "", "{}", b"", level=spec.level)
    rollouts = tuple(
        Rollout("", (), (), None, "stop", Verdict(score, Reason.SCORED), reward)
        for score, reward in zip(scores, sent or scores, strict=True)
    )
    return Group(problem, (), rollouts)


def _serve(stream: TaskStream, first: int, count: int, scores: Mapping[str, tuple[float, ...]]) -> list[ProblemSpec]:
    """Draw, observe and release one position after the other."""
    specs = []
    for index in range(first, first + count):
        specs.append(stream.sampler.draw(index, 0))
        stream.observe(_group(specs[-1], *scores[specs[-1].task]))
        stream.release(index)
    return specs


RIGHT, MIXED, WRONG = (1.0,) * 4, (1.0, 0.0, 1.0, 0.0), (0.0,) * 4
LEARNER = {"acre": MIXED, "chain_sum": RIGHT, "gcd": WRONG}


async def test_weights_set_how_often_a_task_is_drawn() -> None:
    stream = await _stream(task_sampling="weighted", task_weights="acre=0, gcd=3")
    counts = Counter(spec.task for spec in _serve(stream, 0, 400, LEARNER))
    assert counts["acre"] == 0
    assert counts["gcd"] == pytest.approx(300, abs=5)


async def test_uniform_draws_and_levels_stay_as_they_are_whatever_is_observed() -> None:
    stream = await _stream(complexity_mode="random")
    expected = [stream.sampler.draw(index, 0) for index in range(50)]
    assert _serve(stream, 0, 50, LEARNER) == expected
    assert (stream.report(), stream.state()) == ({}, {"sampler": None, "curriculum": None})


async def test_curriculum_moves_each_task_by_its_own_answers() -> None:
    stream = await _stream(complexity_mode="curriculum")
    before = stream.report()
    _serve(stream, 0, 60, LEARNER)
    after = stream.report()
    assert (before["acre"].level, after["acre"].level) == (None, None)
    assert after["chain_sum"].level > before["chain_sum"].level == before["gcd"].level > after["gcd"].level  # type: ignore[operator]


async def test_curriculum_with_uniform_sampling_draws_all_tasks_alike() -> None:
    stream = await _stream(complexity_mode="curriculum")
    counts = Counter(spec.task for spec in _serve(stream, 0, 300, LEARNER))
    assert all(count == pytest.approx(100, abs=3) for count in counts.values())


async def test_higher_target_means_lower_levels() -> None:
    levels = []
    for target in (0.3, 0.9):
        stream = await _stream(complexity_mode="curriculum", curriculum_target_accuracy=target)
        _serve(stream, 0, 90, dict.fromkeys(LEARNER, MIXED))
        levels.append(stream.report()["gcd"].level)
    assert levels[0] > levels[1]  # type: ignore[operator]


async def test_what_length_cost_does_not_count_as_a_wrong_answer() -> None:
    streams = [await _stream(complexity_mode="curriculum", tasks="gcd") for _ in range(2)]
    for stream, sent in zip(streams, (RIGHT, (1.0, 0.2, 0.2, 0.2)), strict=True):
        stream.observe(_group(stream.sampler.draw(0, 0), *RIGHT, sent=sent))
    assert streams[0].report()["gcd"].level == streams[1].report()["gcd"].level
    assert streams[0].report()["gcd"].pass_rate == streams[1].report()["gcd"].pass_rate


async def test_adaptive_draws_follow_the_signal_of_unequal_scores() -> None:
    stream = await _stream(task_sampling="adaptive")
    _serve(stream, 0, 200, LEARNER)
    counts = Counter(spec.task for spec in _serve(stream, 200, 200, LEARNER))
    assert counts["acre"] > 2 * max(counts["chain_sum"], counts["gcd"])


@pytest.mark.parametrize("fields", [{}, {"task_sampling": "adaptive"}, {"complexity_mode": "curriculum"}])
async def test_resumed_stream_goes_on_as_the_uninterrupted_one(fields: dict[str, Any]) -> None:
    whole = await _stream(**fields)
    _serve(whole, 0, 50, LEARNER)
    state = json.loads(json.dumps(whole.state(), allow_nan=False))
    assert _serve(await _stream(state, **fields), 50, 50, LEARNER) == _serve(whole, 50, 50, LEARNER)


async def test_a_run_is_described_as_json_reads_it_back() -> None:
    """It is compared with what a checkpoint holds; a tuple would differ from the list that it became there."""
    settings = ReasoningSettings(tasks="chain_sum", task_params={"chain_sum": {"min_terms": 3}})
    run = describe_run(settings, await plan_tasks(settings, LIBRARY, LibraryChecker()))
    assert run == json.loads(json.dumps(run))
    assert (run["tasks"], run["task_params"]) == (["chain_sum"], {"chain_sum": {"min_terms": 3}})
