"""From a completed problem to its end: scored, dropped, cancelled, delivered or refused."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
import pytest_asyncio

from reasoning_env.atropos import Imported, Mode, Process, Serve
from reasoning_env.errors import RefusedError, ScoringError, ServerError, WorkerError
from reasoning_env.records import Rollout
from tests.records import make_group, make_rollout

from .conftest import GROUP_SIZE, WRONG, Collect, MakeEnv


def completions(item: Any) -> list[Rollout]:
    """Two rollouts, the first of them right."""
    texts = [f"<answer>{item.problem.answer}</answer>", WRONG]
    return [Rollout(text, (1, 2), (-100, 2), None, "stop") for text in texts]


async def test_scored_group_is_observed_dumped_and_returned(make_env: MakeEnv, collect: Collect) -> None:
    env: Any = await make_env()
    env._run.steps._dumper = Mock()
    group, item = await collect(env, "right", *[WRONG] * (GROUP_SIZE - 1))
    assert group["scores"] == [1.0, *[0.0] * (GROUP_SIZE - 1)]
    [dumped] = [call.args[0] for call in env._run.steps._dumper.offer.call_args_list]
    assert dumped.problem is item.problem
    assert env._run.session.metrics.total.groups == 1
    env._run.steps._dumper = None


@pytest.mark.parametrize(
    ("completing", "judging", "reason"),
    [
        (ServerError("gone"), None, "inference_failed"),
        (KeyError("a client's"), None, "inference_failed"),
        (TimeoutError("too long"), None, "timed_out"),
        (None, ScoringError("a fault of ours"), "scoring_failed"),
        (None, TimeoutError("of a worker"), "scoring_failed"),
    ],
)
async def test_failed_group_is_dropped_and_counted(
    make_env: MakeEnv, completing: Exception | None, judging: Exception | None, reason: str
) -> None:
    env: Any = await make_env()
    item = await env.get_next_item()
    env._run.steps.complete = AsyncMock(return_value=completions(item), side_effect=completing)
    env._run.steps.judge = AsyncMock(side_effect=judging)
    assert await env.collect_trajectories(item) == (None, [])
    assert env._run.session.metrics.dropped == {reason: 1}
    assert env._run.session.in_flight == 0


async def test_error_of_a_subclass_that_scores_drops_the_group(make_env: MakeEnv) -> None:
    env: Any = await make_env()
    item = await env.get_next_item()
    env._run.steps.complete = AsyncMock(return_value=completions(item))
    env.score = AsyncMock(side_effect=ZeroDivisionError)
    assert await env.collect_trajectories(item) == (None, [])
    assert env._run.session.metrics.dropped == {"scoring_failed": 1}


@pytest.mark.parametrize("where", ["complete", "judge"])
async def test_cancelled_group_stays_in_flight(make_env: MakeEnv, where: str) -> None:
    env: Any = await make_env()
    item, waiting = await env.get_next_item(), asyncio.Event()

    async def wait(_: object) -> None:
        waiting.set()
        await asyncio.Event().wait()

    env._run.steps.complete = AsyncMock(return_value=completions(item))
    setattr(env._run.steps, where, wait)
    collecting = asyncio.create_task(env.collect_trajectories(item))
    await waiting.wait()
    collecting.cancel()
    await asyncio.wait([collecting])
    assert collecting.cancelled()
    assert env._run.session.in_flight == 1
    assert env._run.session.metrics.total.groups == 0


async def test_scored_group_ends_the_failures_in_a_row(make_env: MakeEnv) -> None:
    env: Any = await make_env(max_failed_groups_in_a_row=2, group_size=2)
    env._run.mode = Process()
    for error in (ServerError("gone"), None, ServerError("gone")):
        item = await env.get_next_item()
        env._run.steps.complete = AsyncMock(return_value=completions(item), side_effect=error)
        await env.collect_trajectories(item)
    assert await env.get_next_item()


@pytest.mark.parametrize("error", [RefusedError("too long"), WorkerError("no workers any more")])
async def test_what_no_other_group_escapes_ends_the_run(
    make_env: MakeEnv, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    env: Any = await make_env()
    item = await env.get_next_item()
    env._run.steps.complete = AsyncMock(side_effect=error)
    caplog.clear()
    await env.collect_trajectories(item)
    with pytest.raises(type(error), match=str(error)):
        await env.get_next_item()
    assert caplog.messages == []


# ---------------------------------------------------------------------------- the end of a problem's flight


@pytest_asyncio.fixture(loop_scope="package")
async def sending(make_env: MakeEnv) -> AsyncIterator[Any]:
    """An environment in `serve` whose deliveries a test settles, with a scored group and its item."""
    env: Any = await make_env(group_size=2)
    env._run.mode = Serve()
    queue = env._run.queue = Mock(drain=AsyncMock(), close=AsyncMock())
    queue.stats.waiting = 0
    puts: list[asyncio.Future[None]] = []

    def put(group: object) -> asyncio.Future[None]:
        puts.append(asyncio.get_running_loop().create_future())
        return puts[-1]

    queue.put = put
    item = await env.get_next_item()
    env._run.steps.complete = AsyncMock(return_value=completions(item))
    group, _ = await env.collect_trajectories(item)
    yield env, item, group, puts
    env._run.mode = Imported()


async def test_flight_lasts_until_the_delivery(sending: Any) -> None:
    env, item, group, puts = sending
    env.max_token_len = 1000
    await env.handle_send_to_api(group, item)
    assert env._run.session.in_flight == 1
    puts[0].set_result(None)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert env._run.session.in_flight == 0


async def test_flight_ends_where_base_env_refuses_the_group(sending: Any) -> None:
    env, item, group, puts = sending
    env.max_token_len = 1  # a member reaches the trainer's limit
    await env.handle_send_to_api(group, item)
    assert puts == []
    assert env._run.session.in_flight == 0


async def test_flight_ends_with_a_group_without_signal(make_env: MakeEnv, collect: Collect) -> None:
    env: Any = await make_env(group_size=2)
    env._run.mode = Serve()
    assert (await collect(env, WRONG, WRONG))[0] is None
    assert env._run.session.in_flight == 0
    env._run.mode = Imported()


async def test_flight_ends_at_once_where_nothing_is_delivered(make_env: MakeEnv, collect: Collect) -> None:
    env: Any = await make_env(group_size=2)
    await collect(env, "right", WRONG)
    assert env._run.session.in_flight == 0


# ---------------------------------------------------------------------------- what is sent


@pytest.mark.parametrize("mode", [Serve(), Process()])
async def test_groups_on_their_way_out_share_the_rollouts_arrays(make_env: MakeEnv, mode: Mode) -> None:
    env: Any = await make_env()
    env._run.mode = mode
    arrays = {"tokens": array("i", [1, 2]), "masks": array("i", [-100, 2]), "logprobs": array("d", [1.0, -0.5])}
    rollout = replace(make_rollout(1.0), **arrays)
    packed = await env._run.steps.pack(make_group([rollout]), as_lists=False)
    env._run.mode = Imported()
    assert packed["tokens"][0] is rollout.tokens
    assert packed["masks"][0] is rollout.masks
    assert packed["inference_logprobs"][0] is rollout.logprobs
