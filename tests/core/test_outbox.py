from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from reasoning_env import outbox as outbox_module
from reasoning_env.outbox import Outbox, saved_groups
from reasoning_env.run_api import RunApi
from tests.fake_run_api import FakeRunApi

WAIT_S = 30.0


def group(number: int) -> dict[str, Any]:
    return {"tokens": [[number, 2, 3]], "masks": [[-100, 2, 3]], "scores": [0.5], "messages": None}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "SEND_INTERVAL_S", 0.001)
    monkeypatch.setattr(outbox_module, "RETRY_S", 0.01)
    monkeypatch.setattr(outbox_module, "MAX_RETRY_S", 0.05)


@pytest.fixture
def api(api: FakeRunApi) -> FakeRunApi:
    api.environments = [{}] * 10
    return api


Make = Callable[..., Outbox]


@pytest.fixture
async def make(api: FakeRunApi) -> AsyncIterator[Make]:
    """Makes outboxes, and closes them at the end."""
    made: list[Outbox] = []

    async def ready() -> None:
        pass

    def make_one(**options: Any) -> Outbox:
        outbox = Outbox(RunApi(api.url), **{"ready": ready, "on_loss": lambda: None, **options})
        made.append(outbox)
        return outbox

    yield make_one
    for outbox in made:
        await outbox.close()


def numbers(api: FakeRunApi) -> list[int]:
    return [group["tokens"][0][0] for group in api.groups]


async def until(condition: Callable[[], object]) -> None:
    async def poll() -> None:
        while not condition():  # noqa: ASYNC110 - what is waited for happens in code that knows of no event
            await asyncio.sleep(0.005)

    await asyncio.wait_for(poll(), WAIT_S)


def saved(outbox: Outbox) -> list[dict[str, Any]]:
    return list(json.loads(json.dumps(saved_groups(outbox.state()))))


async def test_groups_arrive_whole_in_order_and_in_the_environments_name(api: FakeRunApi, make: Make) -> None:
    outbox = make()
    outbox.open(7)
    await asyncio.wait([outbox.put(group(number)) for number in range(100)])
    assert api.groups == [{**group(number), "env_id": 7} for number in range(100)]
    assert (outbox.stats.delivered, outbox.stats.waiting, outbox.stats.dropped) == (100, 0, 0)


async def test_nothing_is_sent_before_the_environment_is_registered(api: FakeRunApi, make: Make) -> None:
    outbox = make()
    outbox.put(group(1))
    await asyncio.sleep(0.1)
    assert api.requests == []
    outbox.open(0)
    await outbox.drain(WAIT_S)
    assert numbers(api) == [1]


async def test_nothing_is_sent_before_it_is_ready(api: FakeRunApi, make: Make) -> None:
    gate = asyncio.Event()

    async def ready() -> None:
        await gate.wait()

    outbox = make(ready=ready)
    outbox.open(0)
    outbox.put(group(1))
    await asyncio.sleep(0.1)
    assert api.groups == []
    gate.set()
    await outbox.drain(WAIT_S)
    assert numbers(api) == [1]


async def test_groups_wait_for_a_run_api_that_is_away(
    api: FakeRunApi, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    outbox = make()
    outbox.open(0)
    await api.stop()
    with caplog.at_level(logging.INFO):
        delivered = [outbox.put(group(number)) for number in range(50)]
        await asyncio.sleep(0.3)
        assert outbox.stats.waiting == 50
        await api.start()
        await asyncio.sleep(0.2)
        assert api.groups == []  # it may be another one that came back
        outbox.open(0, interruptions=1)
        await asyncio.wait(delivered)
    assert numbers(api) == list(range(50))
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


async def test_groups_wait_while_run_api_answers_with_errors(api: FakeRunApi, make: Make) -> None:
    api.faults = {"/scored_data": 503, "/scored_data_list": 500, "/status-env": 404}
    outbox = make()
    outbox.open(0)
    delivered = [outbox.put(group(number)) for number in range(20)]
    await asyncio.sleep(0.2)
    del api.faults["/status-env"]
    await asyncio.sleep(0.2)
    assert outbox.stats == outbox_module.DeliveryStats(delivered=0, waiting=20, dropped=0)
    api.faults.clear()
    await asyncio.wait(delivered)
    assert numbers(api) == list(range(20))


async def test_a_group_that_arrived_before_the_connection_broke_is_not_sent_again(api: FakeRunApi, make: Make) -> None:
    api.faults = {"/scored_data": "cut", "/scored_data_list": "cut"}
    outbox = make()
    outbox.open(0)
    delivered = [outbox.put(group(number)) for number in range(20)]
    await asyncio.wait(delivered, timeout=1.0)
    api.faults.clear()
    await asyncio.wait(delivered)
    assert numbers(api) == list(range(20))
    assert outbox.stats.delivered == 20


async def test_groups_that_arrived_are_known_by_their_number_where_others_send_too(api: FakeRunApi, make: Make) -> None:
    outbox = make()
    outbox.open(0)
    await asyncio.wait([outbox.put(group(1))])
    api.faults = {"/scored_data": "cut", "/scored_data_list": "cut", "/latest_example": 503}
    delivered = outbox.put(group(2))
    await until(lambda: len(api.groups) == 2)
    api.groups.append({**group(99), "env_id": 1})
    api.faults.clear()
    await delivered
    assert numbers(api) == [1, 2, 99]


@pytest.mark.parametrize("arrives", [True, False])
async def test_where_it_cannot_be_told_groups_count_as_arrived_and_else_they_are_sent_again(
    api: FakeRunApi, make: Make, arrives: bool
) -> None:
    """Another environment has sent; only where the trainer has taken a batch too, nothing tells what became of it."""
    outbox = make()
    outbox.open(0)
    api.faults = {"/scored_data": "cut" if arrives else "drop", "/latest_example": 503}
    delivered = outbox.put(group(2))
    await until(lambda: "/latest_example" in api.requests)
    taken = [group["tokens"][0][0] for group in api.groups]
    api.groups = [{**group(99), "env_id": 1}]
    api.step += arrives
    api.faults.clear()
    await delivered
    assert [*taken, *numbers(api)] == ([2, 99] if arrives else [99, 2])


async def test_an_older_group_of_its_own_as_the_newest_says_that_nothing_arrived(api: FakeRunApi, make: Make) -> None:
    outbox = make()
    outbox.open(0)
    await asyncio.wait([outbox.put(group(1))])
    api.faults = {"/scored_data": "drop", "/latest_example": 503}
    delivered = outbox.put(group(2))
    await until(lambda: "/latest_example" in api.requests)
    api.step += 1
    api.faults.clear()
    await delivered
    assert numbers(api) == [1, 2]


@pytest.mark.parametrize("remembered", [True, False])
async def test_after_an_absence_groups_count_as_arrived_only_at_the_run_api_that_had_them(
    api: FakeRunApi, make: Make, *, remembered: bool
) -> None:
    """The request broke, run-api was away, and when it is back another environment has sent to it."""
    outbox = make()
    outbox.open(0)
    await asyncio.wait([outbox.put(group(1))])
    api.faults = {"/scored_data": "cut", "/latest_example": "cut"}
    delivered = outbox.put(group(2))
    await until(lambda: len(api.groups) == 2)
    await api.stop()
    await asyncio.sleep(0.2)
    api.faults = {}
    api.step += 1
    api.groups = [{**group(99), "env_id": 1}]
    await api.start()
    if not remembered:
        outbox.hold()
    outbox.open(0, interruptions=1)
    await delivered
    assert numbers(api) == ([99] if remembered else [99, 2])


async def test_without_a_trainer_nothing_is_sent_until_it_is_opened_again(api: FakeRunApi, make: Make) -> None:
    outbox = make()
    outbox.open(0)
    api.forget()
    delivered = outbox.put(group(1))
    await until(lambda: not outbox.is_open)
    api.environments, api.trained = [{}] * 4, True
    await asyncio.sleep(0.2)
    assert api.groups == []
    outbox.open(3)
    await delivered
    assert api.groups == [{**group(1), "env_id": 3}]


@pytest.mark.parametrize("fault", [None, "cut"])
async def test_a_group_that_met_an_emptied_run_api_is_taken_back_and_sent_later(
    api: FakeRunApi, make: Make, fault: str | None
) -> None:
    api.trained = False  # the environment is known a moment before, and the trainer is not a moment later
    if fault is not None:
        api.faults = {"/scored_data": fault}
    outbox = make()
    outbox.open(0)
    delivered = outbox.put(group(1))
    await until(lambda: "/reset_data" in api.requests)
    await until(lambda: not outbox.is_open)
    assert api.groups == []
    api.trained, api.environments, api.faults = True, [{}] * 5, {}
    outbox.open(4)
    await delivered
    assert api.groups == [{**group(1), "env_id": 4}]
    assert outbox.stats.delivered == 1


async def test_a_refused_group_is_lost_alone_and_named(
    api: FakeRunApi, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    api.refused = {3}
    outbox = make()
    delivered = [outbox.put(group(number)) for number in range(6)]
    await asyncio.sleep(0.1)
    outbox.open(0)
    await asyncio.wait(delivered)
    assert numbers(api) == [0, 1, 2, 4, 5]
    assert outbox.stats.dropped == 1
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "status 422" in caplog.text


async def test_a_group_that_is_no_json_is_lost_alone(api: FakeRunApi, make: Make) -> None:
    outbox = make()
    outbox.open(0)
    await asyncio.wait([outbox.put(group(1)), outbox.put({**group(2), "messages": object()}), outbox.put(group(3))])
    assert numbers(api) == [1, 3]
    assert outbox.stats.dropped == 1


async def test_beyond_the_limit_groups_are_lost_and_counted(
    api: FakeRunApi, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    outbox = make(max_bytes=1)
    outbox.put(group(1))
    await until(lambda: outbox._bytes)
    for number in range(5):
        await asyncio.wait_for(outbox.put(group(number)), WAIT_S)
    assert outbox.stats.dropped == 5
    assert len(caplog.records) == 1
    outbox.open(0)
    await outbox.drain(WAIT_S)
    await asyncio.wait_for(outbox.put(group(9)), WAIT_S)
    assert numbers(api) == [1, 9]


async def test_what_waits_outlasts_the_process(api: FakeRunApi, make: Make) -> None:
    first = make()
    for number in range(5):
        first.put(group(number))
    await first.close()
    second = make()
    second.restore(saved(first))
    second.put(group(5))
    second.open(2)
    await second.drain(WAIT_S)
    assert api.groups == [{**group(number), "env_id": 2} for number in range(6)]


async def test_what_may_have_arrived_before_the_end_is_not_sent_again(api: FakeRunApi, make: Make) -> None:
    api.faults = {"/scored_data": "cut", "/latest_example": 500}
    first = make()
    first.open(0)
    first.put(group(1))
    await until(lambda: "/latest_example" in api.requests)
    await first.close()
    api.faults.clear()
    second = make()
    second.restore(saved(first))
    second.open(0)
    await second.drain(WAIT_S)
    assert numbers(api) == [1]


@pytest.mark.parametrize("still_there", [True, False])
async def test_what_was_delivered_after_it_was_saved_is_sent_again_only_where_it_was_lost(
    api: FakeRunApi, make: Make, *, still_there: bool
) -> None:
    noted: list[int] = []
    first = make(on_delivery=noted.append)
    for number in range(1, 6):
        first.put(group(number))
    state = saved(first)
    first.open(0)
    await until(lambda: len(api.groups) >= 1)
    await first.drain(WAIT_S)
    api.groups = [{**group(99), "env_id": 1}]
    second = make(on_delivery=noted.append)
    second.restore(state, delivered=3, still_there=still_there)
    second.put(group(6))
    again = saved(second)
    second.open(0)
    await second.drain(WAIT_S)
    assert numbers(api) == ([99, 4, 5, 6] if still_there else [99, 1, 2, 3, 4, 5, 6])
    # Numbers go on from what was noted, so that the next run cannot take one of these for one of those.
    assert [entry["number"] for entry in again] == list(range(4, 4 + len(again)))
    assert noted[-1] == 3 + len(again)
    assert max(noted[: noted.index(5) + 1]) == 5


async def test_whoever_waits_may_be_cancelled(api: FakeRunApi, make: Make) -> None:
    outbox = make()

    async def send() -> None:
        await asyncio.wait([outbox.put(group(1))])

    sender = asyncio.create_task(send())
    await asyncio.sleep(0)
    sender.cancel()
    await asyncio.gather(sender, return_exceptions=True)
    outbox.open(0)
    await outbox.drain(WAIT_S)
    assert numbers(api) == [1]


async def test_closing_twice_is_allowed(make: Make) -> None:
    outbox = make()
    outbox.open(0)
    await outbox.close()
    await outbox.close()
