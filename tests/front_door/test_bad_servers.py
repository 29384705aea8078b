"""Inference servers that are not there or answer nonsense, at startup and in the middle of a run, over real HTTP."""

from __future__ import annotations

import asyncio

import pytest

from reasoning_env.atropos import RunMode
from reasoning_env.errors import ServerError
from testing import Completion, InferenceServer, cut, generations, hang, refuse
from testing.http_server import Fault

from .conftest import MakeFor
from .http_servers import (
    a_list,
    a_web_page,
    another_object,
    error_401,
    error_404,
    error_500,
    next_group,
    no_completion,
    no_json,
    odd_values,
    two_completions,
)

BOTH = pytest.mark.parametrize("kind", ["vllm", "openai"])
USELESS = [error_404, error_401, no_json, a_web_page, another_object, a_list, odd_values, no_completion]
ABSENT = [error_500, cut, refuse, hang]


@BOTH
@pytest.mark.parametrize("fault", USELESS)
async def test_a_server_that_will_never_do_is_refused_at_once(
    make_for: MakeFor, server: InferenceServer, fault: Fault
) -> None:
    server.fail(fault)
    with pytest.raises(ServerError, match=server.url):
        await asyncio.wait_for(make_for(server, startup_timeout_s=3600), 60)


@BOTH
@pytest.mark.parametrize("fault", ABSENT)
async def test_a_server_that_is_not_up_is_given_up_after_the_timeout(
    make_for: MakeFor, server: InferenceServer, fault: Fault
) -> None:
    server.fail(fault)
    with pytest.raises(ServerError, match=f"no inference server answered within 0.5 s.*{server.url}"):
        await asyncio.wait_for(make_for(server, startup_timeout_s=0.5), 60)


@pytest.mark.parametrize("kind", ["sglang"])
async def test_a_server_of_another_protocol_is_refused_with_a_word_on_its_type(
    make_for: MakeFor, server: InferenceServer
) -> None:
    server.fail(error_404, only=lambda request, _body: request.path == "/generate")
    with pytest.raises(ServerError, match=r"check openai\.server_type \(now 'sglang'"):
        await asyncio.wait_for(make_for(server, startup_timeout_s=3600), 60)


IN_THE_MIDDLE = [error_500, no_json, a_web_page, another_object, a_list, odd_values, cut, no_completion]


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        *((kind, fault) for kind in ("vllm", "openai") for fault in IN_THE_MIDDLE),
        ("openai", two_completions),  # in place of four, every time it is asked
    ],
)
async def test_a_bad_reply_in_the_middle_costs_one_group_which_is_counted(
    make_for: MakeFor, server: InferenceServer, fault: Fault
) -> None:
    env = await make_for(server)
    await next_group(env)
    await env.report()
    env.config.startup_timeout_s = 0.1  # how long requests are tried again
    server.fail(fault, only=generations)
    group, _ = await asyncio.wait_for(env.collect_trajectories(await env.get_next_item()), 60)
    metrics = await env.report()
    server.recover()
    assert group is None
    assert metrics["dropped/inference_failed"] == 1
    assert "train/mean_score" not in metrics
    assert await next_group(env)


@BOTH
@pytest.mark.slow
async def test_a_reply_that_never_comes_costs_one_group_which_is_counted(
    make_for: MakeFor, server: InferenceServer
) -> None:
    env = await make_for(server, timeout_s=1)
    await next_group(env)
    env.config.startup_timeout_s = 0.1
    server.fail(hang, only=generations)
    group, _ = await asyncio.wait_for(env.collect_trajectories(await env.get_next_item()), 60)
    server.recover()
    assert group is None
    assert (await env.report())["dropped/inference_failed"] == 1
    assert await next_group(env)


@BOTH
async def test_process_does_not_wait_for_ever_for_a_reply(make_for: MakeFor, server: InferenceServer) -> None:
    env = await make_for(server, worker_timeout=0.5)
    env._run.mode = RunMode.PROCESS
    env.config.startup_timeout_s = 0.1
    server.fail(hang, only=generations)
    group, _ = await asyncio.wait_for(env.collect_trajectories(await env.get_next_item()), 60)
    assert group is None
    assert (await env.report())["dropped/inference_failed"] == 1


@pytest.mark.parametrize("kind", ["openai"])
async def test_empty_texts_are_wrong_answers(make_for: MakeFor, server: InferenceServer) -> None:
    env = await make_for(server)
    env.config.startup_timeout_s = 0.1
    server.policy = lambda request: [Completion("", "stop", (), ())] * request.n
    group, _ = await env.collect_trajectories(await env.get_next_item())
    metrics = await env.report()
    assert group is None
    assert metrics["train/reason/no_answer"] == 1.0
    assert metrics["train/groups/all_wrong"] == 1.0


@pytest.mark.parametrize("kind", ["vllm"])
async def test_completions_without_a_token_are_no_rollouts(make_for: MakeFor, server: InferenceServer) -> None:
    env = await make_for(server)
    env.config.startup_timeout_s = 0.1
    server.policy = lambda request: [Completion("", "stop", (), ())] * request.n
    group, _ = await env.collect_trajectories(await env.get_next_item())
    assert group is None
    assert (await env.report())["dropped/inference_failed"] == 1


@pytest.mark.parametrize("kind", ["vllm"])
async def test_a_server_that_gives_one_completion_at_a_time_fills_the_group(
    make_for: MakeFor, server: InferenceServer
) -> None:
    env = await make_for(server, ensure_scores_are_not_same=False)
    server.policy = lambda request: ["<answer>nonsense</answer>"]
    group, _ = await asyncio.wait_for(env.collect_trajectories(await env.get_next_item()), 60)
    assert group is not None
    assert len(group["tokens"]) == env.config.group_size
