from __future__ import annotations

import asyncio
import logging
import math
import re
import socket
from typing import Any

import pytest

from reasoning_env.atropos.run_api import RunApiFault, RunApiSession, request
from reasoning_env.errors import ServerError
from reasoning_gym_testing import slow
from tests.waiting import until

from .conftest import ENTRY, register_others, said, until_asked
from .served import ServedRunApi

# ---------------------------------------------------------------------------- one request


async def fault_of(url: str, **options: float) -> RunApiFault:
    with pytest.raises(RunApiFault) as caught:
        await request(url, "GET", "/info", ("batch_size",), **options)
    return caught.value


async def test_late_reply_is_returned(api: ServedRunApi) -> None:
    api.fail(slow(1.0))
    assert await request(api.url, "GET", "/info", ("batch_size",)) == {"batch_size": 32, "max_token_len": 4096}


@pytest.mark.parametrize(
    ("fault", "status", "maybe_taken"),
    [
        ("cut", None, True),
        (500, 500, True),
        (504, 504, True),
        (400, 400, False),
        (422, 422, False),
        *((page, 200, True) for page in ("<html>back soon</html>", "[]", "{}", '"wait"')),
    ],
)
async def test_fault_tells_whether_the_request_may_have_been_taken(
    api: ServedRunApi, fault: int | str, status: int | None, maybe_taken: bool
) -> None:
    api.faults = {"/info": fault}
    caught = await fault_of(api.url)
    assert (caught.status, caught.maybe_taken) == (status, maybe_taken)


async def test_refused_connection_carried_nothing(api: ServedRunApi) -> None:
    api.stop()
    caught = await fault_of(api.url)
    assert (caught.status, caught.maybe_taken) == (None, False)


async def test_connection_that_never_comes_about_carried_nothing() -> None:
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for waiting in (first, second):  # they fill what the system accepts for a server that does not
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        await asyncio.sleep(0.05)
        caught = await fault_of(f"http://127.0.0.1:{full.getsockname()[1]}", connect_timeout_s=0.05)
    assert (caught.status, caught.maybe_taken) == (None, False)


# ---------------------------------------------------------------------------- waiting


async def test_registering_and_asking_for_the_account_at_wandb_wait_for_a_trainer_which_is_said_once(
    api: ServedRunApi, caplog: pytest.LogCaptureFixture
) -> None:
    await api.reset()
    session = RunApiSession(api.url, ENTRY)
    waiting = asyncio.gather(session.register(), session.wandb_group_and_project())
    await until_asked(api, "/info")
    await until_asked(api, "/wandb_info")
    await api.train(starting_step=7)
    registration, account = await waiting
    assert (registration.env_id, registration.wandb_name, registration.starting_step) == (0, "reasoning_gym_0", 7)
    assert account == ("group", "project")
    assert len(said(caplog, "WARNING")) == 1


@pytest.mark.parametrize("fault", [None, 502, "cut"])
async def test_a_question_waits_for_a_run_api_that_is_away_and_says_so_once(
    api: ServedRunApi, caplog: pytest.LogCaptureFixture, fault: int | str | None
) -> None:
    if fault is None:
        api.stop()
    else:
        api.faults = {"/info": fault}
    with caplog.at_level(logging.INFO):
        asking = asyncio.create_task(RunApiSession(api.url, ENTRY).info())
        await until(lambda: said(caplog, "WARNING"))
        api.start()
        assert (await asking)["batch_size"] == 32
    begin, end = said(caplog, "WARNING", "INFO")
    assert api.url in begin
    assert api.url in end


async def test_a_run_api_that_does_not_reply_is_named(
    api: ServedRunApi, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunApiSession, "slow_reply_s", 0.01)
    api.fail(slow(math.inf))
    asking = asyncio.create_task(RunApiSession(api.url, ENTRY).info())
    await until(lambda: said(caplog, "WARNING"))
    asking.cancel()
    await asyncio.wait([asking])
    assert api.url in said(caplog, "WARNING")[0]


async def test_a_reply_ends_the_waiting_for_it(session: RunApiSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunApiSession, "slow_reply_s", 1000.0)
    await session.info()
    loop: Any = asyncio.get_running_loop()
    assert not [timer for timer in loop._scheduled if timer.when() > loop.time() + 500.0 and not timer.cancelled()]


@pytest.mark.parametrize("fault", ["<html>hello</html>", 404])
async def test_another_server_is_an_error_at_first_and_an_absence_later(api: ServedRunApi, fault: int | str) -> None:
    session = RunApiSession(api.url, ENTRY)
    api.faults = {"/info": fault}
    with pytest.raises(ServerError, match="rollout_server_url"):
        await session.info()
    api.faults = {}
    await session.info()
    api.faults = {"/info": fault}
    asking = asyncio.create_task(session.info())
    await until_asked(api, "/info")
    api.faults = {}
    assert (await asking)["batch_size"] == 32


async def test_waiting_for_run_api_ends_in_time(api: ServedRunApi) -> None:
    await RunApiSession(api.url, ENTRY).wait_until_there(math.inf)
    api.stop()
    with pytest.raises(ServerError, match=r"env\.rollout_server_url"):
        await RunApiSession(api.url, ENTRY).wait_until_there(0.05)


# ---------------------------------------------------------------------------- registering again


async def test_it_registers_again_after_a_reset_when_a_trainer_has(api: ServedRunApi, session: RunApiSession) -> None:
    before = session.registration
    await api.reset()
    asking = asyncio.create_task(session.status())
    await until_asked(api, "/info")
    assert api.environments == []
    await api.train(starting_step=7)
    assert (await asking)["current_step"] == 7
    assert session.registration is not before
    assert session.registration.starting_step == 7


async def test_absence_alone_keeps_the_number(api: ServedRunApi, session: RunApiSession) -> None:
    before = session.registration
    api.stop()
    asking = asyncio.create_task(session.status())
    await asyncio.sleep(0.1)
    api.start()
    await asking
    assert session.registration is before
    assert api.connected == [0]


async def test_two_environments_have_two_numbers_after_a_restart(api: ServedRunApi, session: RunApiSession) -> None:
    other = RunApiSession(api.url, ENTRY)
    await other.register()
    api.forget()
    asking = asyncio.gather(session.status(), other.status())
    await until_asked(api, "/info")
    await api.train()
    await asking
    assert {session.registration.env_id, other.registration.env_id} == {0, 1}
    assert api.connected == [0, 1]


async def test_registration_whose_reply_was_lost_is_made_again(api: ServedRunApi) -> None:
    api.faults = {"/register-env": "cut"}
    session = RunApiSession(api.url, ENTRY)
    registering = asyncio.create_task(session.register())
    await until(lambda: len(api.environments) > 1)
    api.faults = {}
    assert (await registering).env_id == len(api.environments) - 1


async def session_before_a_reset(api: ServedRunApi) -> RunApiSession:
    """A session that has not seen the reset after it, nor that another environment has its number now."""
    await api.reset()
    await api.train(starting_step=5)
    session = RunApiSession(api.url, ENTRY)
    await session.register()
    await api.reset()
    await api.train(starting_step=4)
    await register_others(api, 1)
    return session


async def test_step_that_went_back_shows_a_reset_that_nobody_saw(api: ServedRunApi) -> None:
    session = await session_before_a_reset(api)
    assert (await session.status())["current_step"] == 4
    assert session.registration.env_id == 1


async def test_state_that_is_never_told_is_explained(api: ServedRunApi, caplog: pytest.LogCaptureFixture) -> None:
    session = RunApiSession(api.url, {**ENTRY, "weight": 0.0})
    await session.register()
    asking = asyncio.create_task(session.status())
    await until(lambda: said(caplog, "WARNING"))
    asking.cancel()
    await asyncio.wait([asking])
    assert "inference_weight" in said(caplog, "WARNING")[0]


# ---------------------------------------------------------------------------- sending


@pytest.mark.parametrize("others_register", [False, True])
async def test_sending_is_not_clear_without_a_trainer(
    api: ServedRunApi, session: RunApiSession, others_register: bool
) -> None:
    """A trainer that asks for batches after a reset lets environments register before it has."""
    await api.reset()
    if others_register:
        await api.call("GET", "/batch")
        await register_others(api, 1)
    waiting = asyncio.create_task(session.clear_to_send())
    await until_asked(api, "/info")
    assert not waiting.done()
    await api.train()
    assert await waiting == 0
    assert api.connected == [0]


async def test_sending_is_not_clear_while_a_batch_is_smaller_than_a_group(
    api: ServedRunApi, caplog: pytest.LogCaptureFixture
) -> None:
    session = RunApiSession(api.url, {**ENTRY, "group_size": 33})
    await session.register()
    waiting = asyncio.create_task(session.clear_to_send())
    await until_asked(api, "/info")
    assert not waiting.done()
    assert re.search(r"\b33\b", said(caplog, "WARNING")[0])
    await api.reset()
    await api.train(batch_size=33)
    assert await waiting == 0


async def test_a_trainer_that_takes_nothing_is_named_once(
    session: RunApiSession, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunApiSession, "trainer_patience_s", 0.0)
    with caplog.at_level(logging.INFO):
        for batch_waits in (True, True, False, False):
            session.watch_trainer(batch_waits=batch_waits)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


# ---------------------------------------------------------------------------- leaving


async def test_leaving_disconnects_once(api: ServedRunApi, session: RunApiSession) -> None:
    for _ in range(2):
        await session.leave()
    assert (api.connected, api.count("/disconnect-env")) == ([], 1)


async def test_leaving_asks_first_whether_run_api_was_reset_unseen(api: ServedRunApi) -> None:
    session = await session_before_a_reset(api)
    await session.leave()
    assert api.connected == [0]


async def test_leaving_a_run_api_that_is_gone_is_no_error(
    api: ServedRunApi, session: RunApiSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunApiSession, "leave_timeout_s", 0.1)
    api.stop()
    await session.leave()
    assert api.connected == [0]
