from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from reasoning_env import attendance as attendance_module
from reasoning_env import run_api as run_api_module
from reasoning_env.attendance import Attendance, Registration
from reasoning_env.outbox import Outbox
from reasoning_env.run_api import RunApi
from tests.fake_run_api import FakeRunApi

WAIT_S = 30.0
ENTRY = {"desired_name": "reasoning_gym", "weight": 1.0}
REPLY = {
    "status": "success",
    "env_id": 1,
    "wandb_name": "nameless",
    "checkpoint_dir": "",
    "starting_step": 0,
    "checkpoint_interval": -1,
    "num_steps": 100,
}


class Presence:
    """An attendance with its outbox, and the registrations that it told of."""

    def __init__(self, api: FakeRunApi, entry: Mapping[str, Any] = ENTRY) -> None:
        async def ready() -> None:
            pass

        run_api = RunApi(api.url)
        self.outbox = Outbox(run_api, ready=ready, on_loss=lambda: None)
        self.attendance = Attendance(run_api, entry, self.outbox)
        self.told: list[Registration] = []

    async def begin(self) -> None:
        await self.attendance.register()
        self.attendance.deliver()

    async def status(self) -> dict[str, Any]:
        async def registered(registration: Registration) -> None:
            assert not self.outbox.is_open
            self.told.append(registration)

        return await asyncio.wait_for(self.attendance.status(registered), WAIT_S)


@pytest.fixture
async def presence(api: FakeRunApi) -> AsyncIterator[Presence]:
    presence = Presence(api)
    await presence.begin()
    yield presence
    await presence.outbox.close()


async def test_who_is_known_is_not_registered_again(api: FakeRunApi, presence: Presence) -> None:
    for _ in range(3):
        assert (await presence.status())["current_step"] == 0
    assert api.environments[0] == ENTRY
    assert (len(api.environments), presence.told) == (2, [])  # itself and its mark


async def test_who_was_forgotten_is_registered_again_before_anything_is_sent(
    api: FakeRunApi, presence: Presence
) -> None:
    api.forget()
    asking = asyncio.create_task(presence.status())
    await asyncio.sleep(0.2)
    assert not presence.outbox.is_open
    api.trained, api.step = True, 7
    assert (await asking)["current_step"] == 7
    assert [registration.starting_step for registration in presence.told] == [7]
    assert presence.outbox.is_open


async def ride_out(api: FakeRunApi, presence: Presence, environments: list[dict[str, Any]] | None = None) -> None:
    """An absence of run-api, which comes back with these environments, or with those that it had."""
    await api.stop()
    asking = asyncio.create_task(presence.status())
    await asyncio.sleep(0.3)
    api.environments = api.environments if environments is None else environments
    await api.start()
    await asking


async def test_a_number_that_may_be_anothers_by_now_is_given_up(api: FakeRunApi, presence: Presence) -> None:
    await ride_out(api, presence, [ENTRY, ENTRY])  # others have registered since it came back
    assert [registration.env_id for registration in presence.told] == [2]
    assert api.disconnected == [0]


async def test_a_mark_without_weight_is_left_once(api: FakeRunApi) -> None:
    presence = Presence(api, {**ENTRY, "min_batch_allocation": 0.5})
    await presence.begin()
    for _ in range(3):
        assert (await presence.status())["env_weight"] == 1
    (mark,) = api.environments[1:]
    assert (mark["weight"], mark["min_batch_allocation"]) == (0.0, None)
    assert mark["desired_name"] != ENTRY["desired_name"]
    await presence.outbox.close()


async def test_who_finds_its_mark_keeps_its_number(api: FakeRunApi, presence: Presence) -> None:
    api.environments.append(ENTRY)
    await presence.status()
    for _ in range(2):
        await ride_out(api, presence)
    assert presence.told == []
    assert api.disconnected == []
    api.requests.clear()
    await presence.status()
    assert api.requests == ["/status-env"]


async def test_who_does_not_find_its_mark_registers_again_and_finds_it_the_next_time(
    api: FakeRunApi, presence: Presence
) -> None:
    api.environments.append(ENTRY)
    await presence.status()
    await ride_out(api, presence, [ENTRY, ENTRY])
    assert [registration.env_id for registration in presence.told] == [3]
    await ride_out(api, presence)
    assert len(presence.told) == 1


async def test_who_was_forgotten_leaves_a_new_mark(api: FakeRunApi, presence: Presence) -> None:
    api.environments.append(ENTRY)
    await presence.status()
    api.environments.clear()
    await presence.status()
    api.environments.append(ENTRY)
    await presence.status()
    assert len(presence.told) == 1
    await ride_out(api, presence)
    assert len(presence.told) == 1


async def test_a_mark_of_an_unknown_form_is_not_found(api: FakeRunApi, presence: Presence) -> None:
    api.environments.append(ENTRY)
    await presence.status()
    asking = asyncio.create_task(ride_out(api, presence))
    await asyncio.sleep(0.1)
    api.pages = {"/register-env": json.dumps(REPLY)}
    await asking
    assert [registration.env_id for registration in presence.told] == [REPLY["env_id"]]


async def test_marks_whose_replies_were_lost_are_not_taken_for_the_first_one(
    api: FakeRunApi, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_api_module, "RETRY_S", 0.1)
    api.environments.append(ENTRY)
    await presence.status()
    api.faults = {"/register-env": "cut"}
    mending = asyncio.create_task(asyncio.sleep(0.8))
    mending.add_done_callback(lambda _: api.faults.clear())
    await ride_out(api, presence, [ENTRY, ENTRY])
    await mending
    assert len(presence.told) == 1


async def test_a_run_api_that_takes_no_trainer_is_named(
    api: FakeRunApi, presence: Presence, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attendance_module, "POLL_S", 0.01)
    api.environments.clear()
    api.pages = {"/info": '{"batch_size": -1, "max_token_len": -1}'}
    asking = asyncio.create_task(presence.status())
    await asyncio.sleep(0.3)
    assert not presence.outbox.is_open
    assert "/reset_data" in caplog.text
    api.pages = {}
    await asking
    assert presence.outbox.is_open


async def test_goodbye_is_said_once(api: FakeRunApi, presence: Presence) -> None:
    for _ in range(2):
        await presence.attendance.say_goodbye()
    assert api.disconnected == [0]


async def test_goodbye_to_a_run_api_that_is_gone_is_no_error(
    api: FakeRunApi, presence: Presence, caplog: pytest.LogCaptureFixture
) -> None:
    await api.stop()
    with caplog.at_level(logging.INFO):
        await presence.attendance.say_goodbye()
    assert "could not be told" in caplog.text
