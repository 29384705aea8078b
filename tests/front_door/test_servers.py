"""The four kinds of inference server over real HTTP, while they do what they should."""

from __future__ import annotations

import asyncio

import pytest

from testing import InferenceServer, check_batch, free_port

from .conftest import GROUP_SIZE, MakeEnv, MakeFor
from .http_servers import HttpEnv, error_500, next_group, wait_until

BOTH = pytest.mark.parametrize("kind", ["vllm", "openai"])
ALL = pytest.mark.parametrize("kind", ["vllm", "openai", "sglang", "trl"])


@ALL
async def test_a_group_is_sound(make_for: MakeFor, server: InferenceServer) -> None:
    env = await make_for(server)
    groups = [await next_group(env) for _ in range(5)]
    check_batch(groups, batch_size=5 * GROUP_SIZE, group_size=GROUP_SIZE, max_token_len=env.config.max_token_length)


@ALL
async def test_a_group_is_one_request(make_for: MakeFor, server: InferenceServer) -> None:
    env = await make_for(server, group_size=12)
    for _ in range(3):
        await env.collect_trajectories(await env.get_next_item())
    asked = [request.n for request in server.requests]
    assert asked == [12, 12, 12]


@ALL
async def test_only_native_protocols_give_log_probabilities(
    make_for: MakeFor, server: InferenceServer, kind: str
) -> None:
    group = await next_group(await make_for(server))
    assert (group["inference_logprobs"] is not None) == (kind in ("vllm", "sglang"))


@ALL
async def test_truncated_completions_are_recognised(make_for: MakeFor, server: InferenceServer) -> None:
    env = await make_for(server)
    item = await env.get_next_item()
    env.max_token_len = len(item.prompt.tokens) + 15  # as run-api tells it; too few for any thought
    await env.collect_trajectories(item)
    assert (await env.report())["train/truncated_share"] == 1.0


@pytest.mark.parametrize("kind", ["openai"])
@pytest.mark.filterwarnings("ignore:n kwarg is ignored")
async def test_a_server_that_ignores_n_is_asked_n_times(make_for: MakeFor, server: InferenceServer) -> None:
    env = await make_for(server)
    server.policy = lambda request: ["<answer>nonsense</answer>"]
    await env.collect_trajectories(await env.get_next_item())
    metrics = await env.report()
    assert len(server.requests) == GROUP_SIZE
    assert (metrics["train/groups/all_wrong"], metrics["dropped/inference_failed"]) == (1.0, 0)


@BOTH
async def test_a_short_outage_loses_no_group(make_for: MakeFor, server: InferenceServer) -> None:
    env = await make_for(server)
    await next_group(env)
    server.fail(error_500)
    await wait_until(lambda: not env.server.servers[0].server_healthy)
    pending = asyncio.ensure_future(next_group(env))
    await asyncio.sleep(0.2)
    server.recover()
    assert len((await asyncio.wait_for(pending, 60))["scores"]) == GROUP_SIZE
    assert (await env.report())["dropped/inference_failed"] == 0


@BOTH
async def test_a_server_that_is_late_is_waited_for(make_for: MakeFor, server: InferenceServer) -> None:
    server.fail(error_500)
    starting = asyncio.ensure_future(make_for(server, startup_timeout_s=60))
    await asyncio.sleep(0.5)
    server.recover()
    assert await next_group(await asyncio.wait_for(starting, 60))


async def test_one_server_of_two_is_enough_to_start(
    make_env: MakeEnv, server: InferenceServer, caplog: pytest.LogCaptureFixture
) -> None:
    gone = server.config(base_url=f"http://127.0.0.1:{free_port()}/v1")
    await make_env(HttpEnv, servers=[gone, server.config()])
    assert f"{gone.base_url} does not answer yet" in caplog.text
