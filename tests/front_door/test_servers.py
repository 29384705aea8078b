"""The four kinds of inference server over real HTTP, while they do what they should."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp.test_utils import unused_port

from demo.batch_checks import check_batch

from .conftest import GROUP_SIZE, MakeEnv, MakeFor
from .http_servers import HttpEnv, Switchboard, error_500, is_small, next_group, one_completion, wait_until

BOTH = pytest.mark.parametrize("kind", ["vllm", "openai"])
ALL = pytest.mark.parametrize("kind", ["vllm", "openai", "sglang", "trl"])


@ALL
async def test_a_group_is_sound(make_for: MakeFor, server: Switchboard) -> None:
    env = await make_for(server)
    groups = [await next_group(env) for _ in range(5)]
    check_batch(groups, batch_size=5 * GROUP_SIZE, group_size=GROUP_SIZE, max_token_len=env.config.max_token_length)


@ALL
async def test_a_group_is_one_request(make_for: MakeFor, server: Switchboard) -> None:
    env = await make_for(server, group_size=12)
    for _ in range(3):
        await env.collect_trajectories(await env.get_next_item())
    asked = [post.get("n", post.get("sampling_params", {}).get("n")) for post in server.posts]
    assert asked == [12, 12, 12]


@ALL
async def test_log_probabilities_come_from_the_servers_that_give_them(make_for: MakeFor, server: Switchboard) -> None:
    group = await next_group(await make_for(server))
    assert (group["inference_logprobs"] is not None) == (server.kind in ("vllm", "sglang"))


@ALL
async def test_truncated_completions_are_recognised(make_for: MakeFor, server: Switchboard) -> None:
    env = await make_for(server)
    item = await env.get_next_item()
    env.max_token_len = len(item.prompt.tokens) + 15  # as run-api tells it; too few for any thought
    await env.collect_trajectories(item)
    assert (await env.report())["train/truncated_share"] == 1.0


@pytest.mark.parametrize("kind", ["openai"])
@pytest.mark.filterwarnings("ignore:n kwarg is ignored")
async def test_a_server_that_ignores_n_is_asked_n_times(make_for: MakeFor, server: Switchboard) -> None:
    env = await make_for(server)
    server.fault, server.spared = one_completion, is_small
    await env.collect_trajectories(await env.get_next_item())
    metrics = await env.report()
    assert len(server.posts) == GROUP_SIZE
    assert (metrics["train/groups/all_wrong"], metrics["dropped/inference_failed"]) == (1.0, 0)


@BOTH
async def test_a_short_outage_loses_no_group(make_for: MakeFor, server: Switchboard) -> None:
    env = await make_for(server)
    await next_group(env)
    server.fault = error_500
    await wait_until(lambda: not env.server.servers[0].server_healthy)
    pending = asyncio.ensure_future(next_group(env))
    await asyncio.sleep(0.2)
    server.fault = None
    assert len((await asyncio.wait_for(pending, 30))["scores"]) == GROUP_SIZE
    assert (await env.report())["dropped/inference_failed"] == 0


@BOTH
async def test_a_server_that_is_late_is_waited_for(make_for: MakeFor, server: Switchboard) -> None:
    server.fault = error_500
    starting = asyncio.ensure_future(make_for(server, startup_timeout_s=60))
    await asyncio.sleep(0.5)
    server.fault = None
    assert await next_group(await asyncio.wait_for(starting, 30))


@pytest.mark.parametrize("kind", ["vllm"])
async def test_one_server_of_two_is_enough_to_start(
    make_env: MakeEnv, server: Switchboard, caplog: pytest.LogCaptureFixture
) -> None:
    gone = server.config.model_copy(update={"base_url": f"http://127.0.0.1:{unused_port()}/v1"})
    await make_env(HttpEnv, servers=[gone, server.config])
    assert f"{gone.base_url} does not answer yet" in caplog.text
