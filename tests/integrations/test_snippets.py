"""Run documented code for trainers that have no adapter here, if the trainers' packages are installed."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from reasoning_env import integrations
from reasoning_env.integrations import process_bridge
from reasoning_env.records import Problem

from .shown import shown_block

# The packages' own warnings are not this project's.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

WRONG = "<answer>no</answer>"


@pytest.fixture(scope="module")
def names() -> Iterator[dict[str, Any]]:
    """The names that all documented lines use: `process_bridge` and `score`."""
    found: dict[str, Any] = {}
    exec(shown_block("python", "def score"), found)
    yield found
    found["process_bridge"]().close()
    integrations._bridge_of.cache_clear()


@pytest.fixture(scope="module")
def problem(names: dict[str, Any]) -> Problem:
    drawn: Problem = names["process_bridge"]().next()
    return drawn


def right(problem: Problem) -> str:
    return f"<answer>{problem.answer}</answer>"


def score_of(job: tuple[str, str]) -> float:
    [verdict] = process_bridge().judge(job[0], [job[1]])
    assert verdict is not None
    return verdict.score


def test_documented_reward_function_works_in_a_forked_process(problem: Problem) -> None:
    """The parent process has a bridge, and each forked process creates its own bridge."""
    jobs = [(problem.reference, right(problem)), (problem.reference, WRONG)]
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
        assert list(pool.map(score_of, jobs)) == list(map(score_of, jobs)) == [1.0, 0.0]


def test_documented_reward_function_for_areal_works(names: dict[str, Any], problem: Problem) -> None:
    exec(shown_block("python", "completion_ids"), names)
    rewards = [names["reward"]("", text, [], [], reference=problem.reference) for text in (right(problem), WRONG)]
    assert rewards == [1.0, 0.0]


def test_documented_skyrl_reward_function_works(names: dict[str, Any], problem: Problem) -> None:
    skyrl_gym = pytest.importorskip("skyrl_gym", reason="needs skyrl-gym")
    exec(shown_block("python", "skyrl_gym"), names)
    skyrl_gym.register("reasoning_gym", entry_point=names["ReasoningGym"])
    row = {"reward_model": {"ground_truth": problem.reference}}
    env = skyrl_gym.make("reasoning_gym", env_config=None, extras=row)
    stepped = env.step(WRONG)
    assert (stepped["reward"], stepped["done"]) == (0.0, True)


def test_documented_tunix_reward_function_works(names: dict[str, Any], problem: Problem) -> None:
    manager = pytest.importorskip("tunix.rl.reward_manager", reason="needs google-tunix")
    from tunix.rl.grpo.grpo_learner import GRPOConfig

    exec(shown_block("python", "def reward(prompts"), names)
    rewards = manager.SequenceRewardManager(names["reward"], GRPOConfig())
    found = rewards(["a", "b"], [right(problem), WRONG], reference=[problem.reference] * 2)
    assert list(found["rewards"]) == [1.0, 0.0]


async def test_documented_tinker_reward_function_works(names: dict[str, Any], problem: Problem) -> None:
    pytest.importorskip("tinker_cookbook", reason="needs tinker-cookbook")
    exec(shown_block("python", "tinker_cookbook"), names)
    renderer = SimpleNamespace(
        build_generation_prompt=list,
        get_stop_sequences=lambda: ["stop"],
        parse_response=lambda _: ({"role": "assistant", "content": right(problem)}, None),
    )
    env = names["ReasoningGymEnv"](problem, renderer)
    prompt, _ = await env.initial_observation()
    stepped = await env.step([1, 2])
    assert prompt[-1]["content"] == problem.question
    assert (stepped.reward, stepped.episode_done) == (1.0, True)
