"""A group is scored, dropped, cancelled or delivered; check when its problem is no longer in flight."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
import pytest_asyncio

from reasoning_env.atropos import Imported, Process, Serve
from reasoning_env.errors import RefusedError, ScoringError, ServerError, WorkerError
from reasoning_env.records import Rollout

from .conftest import WRONG, Collect, MakeEnv


def completions(item: Any) -> list[Rollout]:
    """Return two rollouts, of which the first is right."""
    texts = [f"<answer>{item.problem.answer}</answer>", WRONG]
    return [Rollout(text, (1, 2), (-100, 2), None, "stop") for text in texts]


@pytest.mark.parametrize(
    ("completing", "judging", "reason"),
    [
        (ServerError("gone"), None, "inference_failed"),
        (KeyError("a client's"), None, "inference_failed"),
        (TimeoutError("too long"), None, "timed_out"),
        (None, ScoringError("a fault of ours"), "scoring_failed"),
        (None, TimeoutError("of a worker"), "scoring_failed"),
        (None, WorkerError("no verifier can be started"), "scoring_failed"),
    ],
)
async def test_failed_request_or_scoring_drops_the_group(
    make_env: MakeEnv, completing: Exception | None, judging: Exception | None, reason: str
) -> None:
    env: Any = await make_env()
    item = await env.get_next_item()
    env._run.complete = AsyncMock(return_value=completions(item), side_effect=completing)
    env._run.judge = AsyncMock(side_effect=judging)
    assert await env.collect_trajectories(item) == (None, [])
    assert env._run.session.metrics.dropped == {reason: 1}
    assert env._run.session.in_flight == 0
    assert await env.get_next_item(), "the run goes on"


async def test_error_in_a_custom_scoring_method_drops_the_group(make_env: MakeEnv) -> None:
    env: Any = await make_env()
    item = await env.get_next_item()
    env._run.complete = AsyncMock(return_value=completions(item))
    env.score = AsyncMock(side_effect=ZeroDivisionError)
    assert await env.collect_trajectories(item) == (None, [])
    assert env._run.session.metrics.dropped == {"scoring_failed": 1}


@pytest.mark.parametrize("where", ["complete", "judge"])
async def test_problem_of_a_cancelled_group_stays_in_flight(make_env: MakeEnv, where: str) -> None:
    env: Any = await make_env()
    item, waiting = await env.get_next_item(), asyncio.Event()

    async def wait(_: object) -> None:
        waiting.set()
        await asyncio.Event().wait()

    env._run.complete = AsyncMock(return_value=completions(item))
    setattr(env._run, where, wait)
    collecting = asyncio.create_task(env.collect_trajectories(item))
    await waiting.wait()
    collecting.cancel()
    await asyncio.wait([collecting])
    assert collecting.cancelled()
    assert env._run.session.in_flight == 1
    assert env._run.session.metrics.total.groups.total() == 0


async def test_scored_group_resets_the_count_of_consecutive_failed_groups(
    make_env: MakeEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reasoning_env.atropos.modes.process.MAX_FAILED_GROUPS", 2)
    env: Any = await make_env(group_size=2)
    env._run.mode = Process()
    for error in (ServerError("gone"), None, ServerError("gone")):
        item = await env.get_next_item()
        env._run.complete = AsyncMock(return_value=completions(item), side_effect=error)
        await env.collect_trajectories(item)
    assert await env.get_next_item()


async def test_requesting_an_item_raises_the_fatal_error_of_an_earlier_completion(
    make_env: MakeEnv, caplog: pytest.LogCaptureFixture
) -> None:
    error = RefusedError("too long")
    env: Any = await make_env()
    item = await env.get_next_item()
    env._run.complete = AsyncMock(side_effect=error)
    caplog.clear()
    await env.collect_trajectories(item)
    with pytest.raises(type(error), match=str(error)):
        await env.get_next_item()
    assert caplog.messages == []


# ---------------------------------------------------------------------------- problems in flight


@pytest_asyncio.fixture(loop_scope="package")
async def sending(make_env: MakeEnv) -> AsyncIterator[Any]:
    """An environment of `serve` with a scored group, its item, and the futures of its deliveries."""
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
    env._run.complete = AsyncMock(return_value=completions(item))
    group, _ = await env.collect_trajectories(item)
    yield env, item, group, puts
    env._run.mode = Imported()


async def test_delivered_group_is_no_longer_in_flight(sending: Any) -> None:
    env, item, group, puts = sending
    env.max_token_len = 1000
    await env.handle_send_to_api(group, item)
    assert env._run.session.in_flight == 1
    puts[0].set_result(None)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert env._run.session.in_flight == 0


async def test_group_sent_by_a_custom_send_method_is_no_longer_in_flight(sending: Any) -> None:
    env, item, group, _ = sending
    env.max_token_len = 1000
    env._send_scored_data_to_api = AsyncMock(return_value=None)
    await env.handle_send_to_api(group, item)
    env._send_scored_data_to_api.assert_awaited_once_with(group)
    assert env._run.session.in_flight == 0


async def test_dropped_group_with_too_many_tokens_is_no_longer_in_flight(sending: Any) -> None:
    env, item, group, puts = sending
    env.max_token_len = 1  # one rollout has as many tokens as the trainer's limit
    await env.handle_send_to_api(group, item)
    assert puts == []
    assert env._run.session.in_flight == 0


async def test_dropped_group_with_equal_scores_is_no_longer_in_flight(make_env: MakeEnv, collect: Collect) -> None:
    env: Any = await make_env(group_size=2)
    env._run.mode = Serve()
    assert (await collect(env, WRONG, WRONG))[0] is None
    assert env._run.session.in_flight == 0
    env._run.mode = Imported()


async def test_group_returned_by_collect_trajectories_is_no_longer_in_flight(
    make_env: MakeEnv, collect: Collect
) -> None:
    env: Any = await make_env(group_size=2)
    await collect(env, "right", WRONG)
    assert env._run.session.in_flight == 0


# ---------------------------------------------------------------------------- sent groups
