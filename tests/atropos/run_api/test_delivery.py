from __future__ import annotations

import asyncio
import gzip
import json
import logging
from array import array
from collections.abc import AsyncIterator, Callable
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reasoning_env.atropos.delivery import DeliveryQueue
from reasoning_env.atropos.run_api import RunApiSession
from reasoning_env.atropos.wire import encode_body, join_bodies
from reasoning_env.metrics.stats import DeliveryStats
from tests.waiting import PATIENCE_S, until

from .conftest import ENTRY, said, until_asked
from .served import ServedRunApi

SEND_PATHS = ("/scored_data", "/scored_data_list")


def group(number: int) -> dict[str, Any]:
    return {"tokens": [[number, 2, 3]], "masks": [[-100, 2, 3]], "scores": [0.5]}


def numbers(api: ServedRunApi) -> list[int]:
    return [group["tokens"][0][0] for group in api.groups]


@pytest.fixture(autouse=True)
def short_intervals(short_pauses: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DeliveryQueue, "send_interval_s", 0.001)


Make = Callable[..., DeliveryQueue]


@pytest.fixture
async def make(api: ServedRunApi) -> AsyncIterator[Make]:
    """Makes delivery queues, starts each unless the test asks for an unstarted one, and closes all at the end."""
    made: list[DeliveryQueue] = []
    await RunApiSession(api.url, ENTRY).register()
    session = RunApiSession(api.url, ENTRY)
    await session.register()

    def make_one(*, started: bool = True, **options: Any) -> DeliveryQueue:
        made.append(DeliveryQueue(session, **{"on_drop": Mock(), **options}))
        if started:
            made[-1].start()
        return made[-1]

    yield make_one
    for queue in made:
        await queue.close()


async def put_all(queue: DeliveryQueue, *groups: dict[str, Any]) -> None:
    """Put groups into the queue, and wait until each is delivered or dropped."""
    await asyncio.wait([asyncio.ensure_future(queue.put(group)) for group in groups], timeout=PATIENCE_S)
    assert not queue.stats.waiting


async def until_encoded(queue: DeliveryQueue) -> None:
    """Wait until the queue has encoded all groups, so that one request can contain all of them."""
    await asyncio.gather(*(asyncio.wrap_future(entry.body) for entry in queue._entries))


async def test_groups_arrive_at_run_api_in_order(api: ServedRunApi, make: Make) -> None:
    queue = make()
    await put_all(queue, *map(group, range(100)))
    assert api.groups == [{**group(number), "env_id": 1} for number in range(100)]
    assert queue.stats == DeliveryStats(delivered=100, waiting=0)


async def test_empty_delivery_queue_sends_no_request(api: ServedRunApi, make: Make) -> None:
    await put_all(make(), group(1))
    asked = len(api.requests)
    await asyncio.sleep(0.1)
    assert len(api.requests) == asked


@pytest.mark.parametrize("fault", [None, 503, 500, 404, "<html>back soon</html>"])
async def test_groups_wait_while_the_run_api_server_fails(
    api: ServedRunApi, make: Make, caplog: pytest.LogCaptureFixture, fault: int | str | None
) -> None:
    api.faults = dict.fromkeys(SEND_PATHS, fault) if fault else {}
    queue = make()
    for number in range(20):
        queue.put(group(number))
    if fault is None:
        api.stop()
    with caplog.at_level(logging.INFO):
        await until(lambda: said(caplog, "WARNING"))
        assert queue.stats.waiting == 20
        api.start()
        await queue.drain(PATIENCE_S)
    assert numbers(api) == list(range(20))
    assert len(said(caplog, "WARNING", "ERROR")) == 1


@pytest.mark.parametrize(("fault", "arrives"), [("cut", True), ("drop", False)])
async def test_group_is_sent_again_after_a_broken_connection(
    api: ServedRunApi, make: Make, fault: str, arrives: bool
) -> None:
    queue = make()
    await put_all(queue, group(1))
    api.faults = {"/scored_data": fault}
    queue.put(group(2))
    await until_asked(api, "/scored_data")
    api.faults = {}
    await queue.drain(PATIENCE_S)
    tries = api.count("/scored_data") - 1
    assert tries >= 2
    assert numbers(api) == [1, *[2] * (tries if arrives else 1)]
    assert queue.stats == DeliveryStats(delivered=2, waiting=0)


async def test_only_the_refused_group_of_a_delivery_is_dropped(
    api: ServedRunApi, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    on_drop = Mock()
    queue = make(started=False, on_drop=on_drop)
    groups = list(map(group, range(6)))
    groups[3]["scores"] = ["high"]
    for one in groups:
        queue.put(one)
    await until_encoded(queue)
    queue.start()
    await queue.drain(PATIENCE_S)
    assert numbers(api) == [0, 1, 2, 4, 5]
    assert on_drop.call_count == 1
    (warning,) = said(caplog, "WARNING", "ERROR")
    assert "422" in warning
    assert [api.count(path) for path in SEND_PATHS] == [6, 1]
    for number in range(6, 26):
        queue.put(group(number))
    await queue.drain(PATIENCE_S)
    assert api.count("/scored_data_list") > 1


async def test_only_the_invalid_group_of_a_delivery_is_dropped(api: ServedRunApi, make: Make) -> None:
    on_drop = Mock()
    queue = make(on_drop=on_drop)
    await put_all(queue, group(1), {**group(2), "messages": object()}, group(3))
    assert numbers(api) == [1, 3]
    assert on_drop.call_count == 1


@pytest.mark.parametrize("limit", ["batch_groups", "batch_bytes"])
async def test_large_delivery_queue_is_sent_in_several_requests(
    api: ServedRunApi, make: Make, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    queue = make(started=False)
    for number in range(5):
        queue.put(group(number))
    await until_encoded(queue)
    largest = max(sum(map(len, entry.body.result())) for entry in queue._entries)
    monkeypatch.setattr(DeliveryQueue, limit, {"batch_groups": 2, "batch_bytes": 2 * largest}[limit])
    queue.start()
    await queue.drain(PATIENCE_S)
    assert [api.count(path) for path in SEND_PATHS] == [1, 2]
    assert numbers(api) == list(range(5))


async def test_token_arrays_are_sent_as_json_lists(api: ServedRunApi, make: Make) -> None:
    tokens = array("i", range(10_000))
    logprobs = array("d", (-number / 7 for number in tokens))
    queue = make()
    queue.put({**group(1), "tokens": [tokens], "masks": [tokens], "inference_logprobs": [logprobs, array("d")]})
    await queue.drain(PATIENCE_S)
    [sent] = api.groups
    assert sent["tokens"] == sent["masks"] == [tokens.tolist()]
    assert sent["inference_logprobs"] == [logprobs.tolist(), []]


async def test_delivery_queue_sends_nothing_before_start(api: ServedRunApi, make: Make) -> None:
    queue = make(started=False)
    queue.put(group(1))
    await queue.drain(0.05)
    assert numbers(api) == []


async def test_future_of_a_group_stays_pending_if_the_group_is_not_delivered(api: ServedRunApi, make: Make) -> None:
    queue = make()
    api.faults = {"/scored_data": 503}
    done = queue.put(group(1))
    await until(lambda: api.count("/scored_data") > 1)
    await queue.drain(0.01)
    await queue.close()
    assert not done.done()
    assert queue.stats.waiting == 1


async def test_group_is_delivered_even_if_the_put_call_is_cancelled(api: ServedRunApi, make: Make) -> None:
    queue = make(started=False)
    waiting = asyncio.ensure_future(queue.put(group(1)))
    waiting.cancel()
    queue.start()
    await queue.drain(PATIENCE_S)
    assert numbers(api) == [1]


async def test_unexpected_error_while_sending_is_logged_and_the_group_is_sent_again(
    api: ServedRunApi, make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(RunApiSession, "clear_to_send", AsyncMock(side_effect=[RuntimeError("a fault of ours"), 1]))
    queue = make()
    await put_all(queue, group(1))
    assert numbers(api) == [1]
    assert len(said(caplog, "ERROR")) == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(), values, max_size=3),
    max_leaves=8,
)


SEQUENCES = st.lists(st.lists(st.integers() | st.floats(allow_nan=False), max_size=3), max_size=2)
GROUPS = st.fixed_dictionaries({"tokens": SEQUENCES, "inference_logprobs": st.none() | SEQUENCES, 'a "name"': JSON})


@settings(max_examples=20)
@given(st.lists(GROUPS, min_size=1, max_size=2))
def test_request_body_sent_to_run_api_contains_the_groups_unchanged(groups: list[dict[str, Any]]) -> None:
    body = join_bodies([encode_body(dict(group)) for group in groups], 7)
    read = json.loads(gzip.decompress(b"".join(body)))
    assert (read if isinstance(read, list) else [read]) == [{**group, "env_id": 7} for group in groups]
