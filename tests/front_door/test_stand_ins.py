"""Use Atropos' test harness and mock servers instead of an inference server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from atroposlib.envs.server_handling.server_harness import create_chat_completion, create_completion

from reasoning_env.errors import ConfigError
from reasoning_env.records import Problem
from reasoning_gym_testing import InferenceServer
from reasoning_gym_testing.protocols import MODEL_NAME
from tests.waiting import PATIENCE_S

from .conftest import GROUP_SIZE, WRONG, Env, MakeEnv, make_env_object

FORMS = ("vllm", "openai", "chat")


@pytest.fixture
def make(make_env: MakeEnv, server: InferenceServer) -> MakeEnv:
    """Makes environments in Atropos' test mode. No server runs at the configured address."""
    server.url = "http://127.0.0.1:9"

    async def make(kind: str = "vllm", **fields: Any) -> Env:
        return await make_env(kind, testing=True, **fields)

    return make


def teach(env: Env, kind: str, problem: Problem, texts: list[str]) -> None:
    """Make Atropos' test harness answer the prompt of a problem with these completions."""
    prompt, harness = env._run.prompt(problem), env.server.servers[0]
    if kind == "chat":
        harness.set_desired_response(list(prompt.messages), create_chat_completion(texts, len(texts)))
    elif kind == "openai":
        harness.set_desired_completion(prompt.text, create_completion(texts, len(texts)))
    else:
        tokens = [env.tokenizer.encode(text) for text in texts]
        logprobs = [[-0.5] * len(ids) for ids in tokens]
        harness.set_tokens_and_logprobs_response(
            prompt.text, list(prompt.tokens), tokens, logprobs, ["stop"] * len(texts)
        )


def answer(problem: Problem) -> str:
    return f"<answer>{problem.answer}</answer>"


@pytest.mark.parametrize(("kind", "given"), [*((kind, GROUP_SIZE) for kind in FORMS), ("vllm", 2), ("chat", 6)])
async def test_group_is_collected_with_the_test_harness_of_atropos(make: MakeEnv, kind: str, given: int) -> None:
    env = await make(kind)
    item = await env.get_next_item()
    teach(env, kind, item.problem, [answer(item.problem), *[WRONG] * (given - 1)])
    group, backlog = await env.collect_trajectories(item)
    expected = [1.0, 0.0, 1.0, 0.0] if given == 2 else [1.0, 0.0, 0.0, 0.0]
    assert (group["scores"], backlog) == (expected, [])
    assert all(map(len, group["tokens"])) is (kind != "chat")


@pytest.mark.parametrize("kind", FORMS)
async def test_evaluation_works_with_the_test_harness_of_atropos(make: MakeEnv, tmp_path: Path, kind: str) -> None:
    env = await make(kind, num_eval_samples_per_task=2, data_dir_to_save_evals=str(tmp_path))
    for problem in await env.session.evaluation_set.problems():
        teach(env, kind, problem, [answer(problem)] * 4)
    await env.evaluate()
    assert env.reported[-1]["eval/mean_score"] == 1.0
    [written] = tmp_path.glob("*/results.json")
    assert json.loads(written.read_text())["model"] == MODEL_NAME


async def wait_for_ever(**_: Any) -> None:
    await asyncio.Event().wait()


FAILURES: dict[str, Callable[[], AsyncMock]] = {
    "raises": lambda: AsyncMock(side_effect=ConnectionError("gone")),
    "hangs": lambda: AsyncMock(side_effect=wait_for_ever),
    "gives none": lambda: AsyncMock(return_value=create_completion([], 0)),
    "gives what nobody set": AsyncMock,
}


@pytest.mark.parametrize("failure", FAILURES)
async def test_environment_drops_a_group_if_the_mock_server_fails(make: MakeEnv, failure: str) -> None:
    env = await make()
    call = FAILURES[failure]()
    env.server = SimpleNamespace(completion=call)
    item = await env.get_next_item()
    assert await asyncio.wait_for(env.collect_trajectories(item), PATIENCE_S) == (None, [])
    assert call.call_count >= 3
    assert env._run.session.metrics.dropped == {"inference_failed": 1}


async def test_mock_server_is_called_again_after_it_failed(make: MakeEnv) -> None:
    env = await make()
    env.server = SimpleNamespace(completion=AsyncMock(side_effect=ConnectionError))
    assert (await env.collect_trajectories(await env.get_next_item()))[0] is None
    item = await env.get_next_item()
    replies = create_completion([answer(item.problem), *[WRONG] * 3], 4)
    env.server = SimpleNamespace(completion=AsyncMock(return_value=replies))
    assert (await env.collect_trajectories(item))[0]["scores"] == [1.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("of_a_server", [False, True])
async def test_mock_that_replaces_a_server_method_is_called(make_env: MakeEnv, of_a_server: bool) -> None:
    env = await make_env("openai")
    item = await env.get_next_item()
    replies = create_completion([answer(item.problem), *[WRONG] * 3], 4)
    replaced = env.server.servers[0] if of_a_server else env.server
    replaced.completion = AsyncMock(return_value=replies)
    assert (await env.collect_trajectories(item))[0]["scores"] == [1.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("kind", FORMS)
async def test_mock_server_that_returns_none_causes_one_warning(
    make: MakeEnv, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    env = await make(kind)
    caplog.clear()
    assert (await env.collect_trajectories(await env.get_next_item()))[0] is None
    [message] = caplog.messages
    assert "returned None for the prompt that begins" in message
    assert "You solve reasoning problems." in message


async def test_one_warning_is_logged_if_a_server_object_has_no_completion_method(
    make: MakeEnv, caplog: pytest.LogCaptureFixture
) -> None:
    env = await make("openai")
    env.server = object()
    caplog.clear()
    assert (await env.collect_trajectories(await env.get_next_item()))[0] is None
    [message] = caplog.messages
    assert "env.server (object) cannot return completions: it needs a method completion" in message


@pytest.mark.parametrize("stand_in", [AsyncMock(), object(), SimpleNamespace(servers=[object()])])
async def test_environment_metrics_are_logged_with_a_mock_server(make: MakeEnv, stand_in: Any) -> None:
    env = await make()
    env.server = stand_in
    assert "train/own" in await report_with(env, {"train/own": 1.0})
    await env.close()


async def report_with(env: Env, metrics: dict[str, float]) -> dict[str, Any]:
    await env.wandb_log(metrics)
    return env.reported[-1]


def test_testing_mode_raises_instead_of_downloading_a_missing_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE")
    with pytest.raises(ConfigError, match="'no-such-owner/no-such-model' is not on this machine"):
        make_env_object(tokenizer_name="no-such-owner/no-such-model", testing=True)
