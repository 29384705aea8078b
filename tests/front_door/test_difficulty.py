"""Levels, the curriculum and adaptive sampling, from the settings to dumps and checkpoints."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from reasoning_env.errors import ConfigError
from reasoning_env.records import ProblemSpec
from testing.process_table import descendants, survivors

from .conftest import MakeEnv, make_env_object
from .fakes import TokenEnv

WRONG = "<answer>nonsense</answer>"
GROUP = 4
STEP = 5
END_TIMEOUT_S = 10.0


def right_ones(count: int) -> Callable[[Any], int]:
    """A learner with `count` right answers in each group."""
    return lambda item: count


def lucky(item: Any) -> int:
    """Right answers that depend on the problem alone."""
    return int(item.problem.spec.seed % (GROUP + 1))


async def serve(env: TokenEnv, groups: int, learner: Callable[[Any], int]) -> list[Any]:
    """Have groups made one after the other, and return their items."""
    items = []
    for _ in range(groups):
        item = await env.get_next_item()
        count = learner(item)
        env.log.say(*[f"<answer>{item.problem.answer}</answer>"] * count, *[WRONG] * (GROUP - count))
        await env.collect_trajectories(item)
        items.append(item)
    return items


def specs(items: Sequence[Any]) -> list[ProblemSpec]:
    return [item.problem.spec for item in items]


async def dumped(env: TokenEnv, folder: Path) -> list[dict[str, Any]]:
    await env.close()
    return [json.loads(line) for path in sorted(folder.iterdir()) for line in path.read_text().splitlines()]


# ---------------------------------------------------------------------------- levels of problems


async def test_dumped_lines_hold_the_level_and_params_of_their_problems(make_env: MakeEnv, tmp_path: Path) -> None:
    env = await make_env(complexity_mode="random", dump_rollouts=True, data_dumps_dir=str(tmp_path))
    items = await serve(env, 8, right_ones(2))
    lines = await dumped(env, tmp_path)
    used = {item.problem.spec.seed: (item.problem.level, item.problem.params) for item in items}
    assert {line["seed"]: (line["level"], line["params"]) for line in lines} == used
    for level, params in used.values():
        assert params["max_terms"] == 2 + int(10 * level + 0.5)
    assert len({level for level, _ in used.values()}) > 4


async def test_fixed_level_is_that_of_every_dumped_line(make_env: MakeEnv, tmp_path: Path) -> None:
    env = await make_env(complexity_level=0.52, dump_rollouts=True, data_dumps_dir=str(tmp_path))
    await serve(env, 4, right_ones(2))
    lines = await dumped(env, tmp_path)
    assert {line["level"] for line in lines} == {0.5}
    assert [line["params"] for line in lines] == [
        {"min_terms": 6, "max_terms": 7, "min_digits": 5, "max_digits": 6}
    ] * 4


async def test_without_a_level_dumped_lines_say_so(make_env: MakeEnv, tmp_path: Path) -> None:
    env = await make_env(dump_rollouts=True, data_dumps_dir=str(tmp_path))
    await serve(env, 2, right_ones(2))
    assert [(line["level"], line["params"]) for line in await dumped(env, tmp_path)] == [(None, {})] * 2


async def test_params_of_the_user_are_those_of_the_problems(make_env: MakeEnv) -> None:
    digits = {"low": 2, "high": 6}
    env = await make_env(task_params={"chain_sum": {"min_terms": 3, "max_terms": 3, "max_digits": digits}})
    params = [item.problem.params for item in await serve(env, 30, right_ones(2))]
    assert {one["max_digits"] for one in params} == {2, 3, 4, 5, 6}
    assert all((one["min_terms"], one["max_terms"]) == (3, 3) for one in params)


async def test_evaluation_asks_the_same_at_every_level_of_training(make_env: MakeEnv) -> None:
    asked = []
    for fields in ({}, {"complexity_level": 1.0, "task_params": {"chain_sum": {"max_digits": 9}}}):
        env = await make_env(**fields)
        await env.evaluate()
        asked.append(sorted(request["prompt"] for request in env.log.requests))
    assert len(asked[0]) == 5
    assert asked[0] == asked[1]


# ---------------------------------------------------------------------------- curriculum and adaptive sampling


@pytest.mark.parametrize(("count", "rises"), [(GROUP, True), (0, False)])
async def test_curriculum_follows_the_answers(make_env: MakeEnv, count: int, rises: bool) -> None:
    env = await make_env(complexity_mode="curriculum")
    items = await serve(env, 12, right_ones(count))
    levels = [item.problem.level for item in items]
    first = levels[0]
    assert first == 0.3125
    assert levels == sorted(levels, reverse=not rises)
    assert levels[-1] > first + 0.25 if rises else levels[-1] < first - 0.25


async def test_curriculum_moves_one_task_up_and_another_down(make_env: MakeEnv) -> None:
    env = await make_env(tasks="chain_sum,gcd", complexity_mode="curriculum")
    items = await serve(env, 24, lambda item: GROUP if item.problem.task == "gcd" else 0)
    last = {item.problem.task: item.problem.level for item in items}
    assert last["gcd"] > 0.5
    assert last["chain_sum"] < 0.1


async def test_answers_that_were_never_scored_move_nothing(make_env: MakeEnv) -> None:
    env = await make_env(complexity_mode="curriculum")
    env.log.say_in_turn([])
    items = []
    for _ in range(6):
        items.append(await env.get_next_item())
        await env.collect_trajectories(items[-1])
    assert {item.problem.spec.level for item in items} == {0.3}


async def test_adaptive_sampling_draws_a_task_with_unequal_scores_more_often(make_env: MakeEnv) -> None:
    env = await make_env(tasks="chain_sum,gcd,lcm", task_sampling="adaptive")
    items = await serve(env, 120, lambda item: 2 if item.problem.task == "gcd" else GROUP)
    counts = Counter(item.problem.task for item in items[60:])
    assert counts["gcd"] > 2 * max(counts["chain_sum"], counts["lcm"])
    assert min(counts["chain_sum"], counts["lcm"]) > 0


async def test_tasks_with_weights_are_drawn_by_them(make_env: MakeEnv) -> None:
    env = await make_env(tasks="chain_sum,gcd,lcm", task_sampling="weighted", task_weights="gcd=3,lcm=0")
    counts = Counter(item.problem.task for item in await serve(env, 40, right_ones(2)))
    assert counts["gcd"] == pytest.approx(30, abs=2)
    assert counts["lcm"] == 0


# ---------------------------------------------------------------------------- checkpoints

STEERED = {
    "tasks": "chain_sum,gcd,lcm",
    "complexity_mode": "curriculum",
    "task_sampling": "adaptive",
    "prefetch_problems": 6,
}


async def resume(make_env: MakeEnv, folder: Path, **fields: Any) -> TokenEnv:
    env = await make_env(**{**STEERED, **fields})
    env.checkpoint_dir, env.curr_step = str(folder), STEP
    env.load_checkpoint()
    return env


async def save(env: TokenEnv, folder: Path) -> None:
    env.checkpoint_dir = str(folder)
    env.save_checkpoint(STEP)


async def test_resumed_run_serves_what_the_uninterrupted_one_does(make_env: MakeEnv, tmp_path: Path) -> None:
    whole = await make_env(**STEERED)
    before = await serve(whole, 40, lucky)
    await save(whole, tmp_path)
    rest = specs(await serve(whole, 40, lucky))
    await whole.close()
    resumed = await resume(make_env, tmp_path)
    assert specs(await serve(resumed, 40, lucky)) == rest
    assert len({spec.level for spec in [*specs(before), *rest]}) > 20
    assert {spec.task for spec in rest} == {"chain_sum", "gcd", "lcm"}


async def test_problems_under_way_are_served_again_at_their_old_levels(make_env: MakeEnv, tmp_path: Path) -> None:
    env = await make_env(**STEERED)
    await serve(env, 10, right_ones(GROUP))
    under_way = specs([await env.get_next_item() for _ in range(3)])
    await save(env, tmp_path)
    await env.close()
    resumed = await resume(make_env, tmp_path)
    assert specs([await resumed.get_next_item() for _ in range(3)]) == under_way


async def test_run_resumed_twice_is_still_the_uninterrupted_one(make_env: MakeEnv, tmp_path: Path) -> None:
    whole = specs(await serve(await make_env(**STEERED), 30, lucky))
    env = await make_env(**STEERED)
    served = []
    for _ in range(3):
        served += specs(await serve(env, 10, lucky))
        await save(env, tmp_path)
        await env.close()
        env = await resume(make_env, tmp_path)
    assert served == whole


async def test_checkpoint_is_plain_json_that_stays_small(make_env: MakeEnv, tmp_path: Path) -> None:
    env = await make_env(**STEERED)
    await serve(env, 30, lucky)

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    await save(env, tmp_path)
    await env.close()
    [path] = tmp_path.rglob("step-*.json")
    state = json.loads(path.read_text(), parse_constant=refuse)["state"]
    assert set(state["curriculum"]) == {"chain_sum", "gcd", "lcm"}
    kept = [draw[0] for draw in state["sampler"]["draws"]]
    assert sorted(kept) == sorted(spec["index"] for spec in state["stream"]["owed"])
    assert len(kept) == STEERED["prefetch_problems"]


# ---------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"task_params": {"chain_sum": {"min_term": 3}}}, "chain_sum: there is no parameter 'min_term'; there is min_"),
        ({"task_params": {"chain_sum": {"min_terms": {"low": 3}}}}, r"chain_sum\.min_terms must have low and high"),
        ({"task_sampling": "weighted", "task_weights": {"*": 0}}, "task_weights: every selected task has the weight 0"),
        ({"exclude_tasks": "chain_*"}, "exclude_tasks: every task of `tasks` is excluded"),
        ({"task_params": {"chain_sum": {"min_terms": [{1}]}}}, "task_params: .*chain_sum"),
    ],
)
async def test_settings_that_cannot_be_end_setup_and_leave_no_process(fields: dict[str, Any], message: str) -> None:
    before = descendants(os.getpid())
    env = make_env_object(**fields)
    try:
        with pytest.raises(ConfigError, match=message):
            await env.setup()
        assert survivors(descendants(os.getpid()) - before, END_TIMEOUT_S) == set()
        assert env.worker_pids == ()
    finally:
        await env.close()
