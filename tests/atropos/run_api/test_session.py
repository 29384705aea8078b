from __future__ import annotations

import asyncio
import logging
import math
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, patch

import pytest

from reasoning_env.atropos.run_api import RunApiFault, RunApiSession, State
from reasoning_env.atropos.run_api import session as session_module
from reasoning_env.errors import ServerError
from testing import slow
from tests.waiting import until

from .conftest import ENTRY, register_others, said, until_asked
from .served import ServedRunApi


@asynccontextmanager
async def absence(api: ServedRunApi, session: RunApiSession) -> AsyncIterator[None]:
    """Let a session miss run-api, and find it again at the end."""
    api.stop()
    asking = asyncio.create_task(session.status())
    await until(lambda: session.state is State.UNCERTAIN)
    yield
    api.start()
    await asking


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
    monkeypatch.setattr(session_module, "SLOW_S", 0.01)
    api.fail(slow(math.inf))
    asking = asyncio.create_task(RunApiSession(api.url, ENTRY).info())
    await until(lambda: said(caplog, "WARNING"))
    asking.cancel()
    await asyncio.wait([asking])
    assert api.url in said(caplog, "WARNING")[0]


async def test_a_reply_ends_the_waiting_for_it(session: RunApiSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "SLOW_S", 1000.0)
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


# ---------------------------------------------------------------------------- whose number it is


async def test_the_entry_is_registered_with_almost_its_weight(api: ServedRunApi, session: RunApiSession) -> None:
    (entry,) = [body for path, body in api.requests if path == "/register-env"]
    assert entry == {**ENTRY, "weight": pytest.approx(1.0, rel=2.5e-4)}


async def test_after_a_reset_it_registers_again_when_a_trainer_has(api: ServedRunApi, session: RunApiSession) -> None:
    before = session.registration
    await api.reset()
    asking = asyncio.create_task(session.status())
    await until_asked(api, "/info")
    assert (session.state, api.environments) == (State.UNCERTAIN, [])
    await api.train(starting_step=7)
    assert (await asking)["current_step"] == 7
    assert session.registration is not before
    assert (session.registration.starting_step, session.state) == (7, State.REGISTERED)


async def test_after_an_absence_the_number_is_kept_where_run_api_lives_on(
    api: ServedRunApi, session: RunApiSession
) -> None:
    before = session.registration
    await register_others(api, 1)
    for absences in (1, 2):
        async with absence(api, session):
            pass
        assert session.registration is before
        assert api.connected == [0, 1]
        assert len(api.environments) == 2 + absences


@pytest.mark.parametrize("others", [0, 1, 3])
async def test_after_a_restart_the_number_may_be_anothers_and_is_left_to_it(
    api: ServedRunApi, session: RunApiSession, others: int
) -> None:
    async with absence(api, session):
        api.forget()
        await api.train()
        await register_others(api, others)
    assert api.connected == list(range(others + 1))
    assert api.environments[session.registration.env_id]["weight"] != 1.0


async def test_a_number_is_kept_through_errors(api: ServedRunApi, session: RunApiSession) -> None:
    await register_others(api, 2)
    api.faults = {"/status-env": 500}
    asking = asyncio.create_task(session.status())
    await until(lambda: len(api.environments) > 4)
    api.faults = {}
    await asking
    assert (session.registration.env_id, api.connected) == (0, [0, 1, 2])


@pytest.mark.parametrize("fault", ["cut", 502])
async def test_run_api_may_have_been_restarted_when_requests_fail_for_long_enough(
    api: ServedRunApi, session: RunApiSession, monkeypatch: pytest.MonkeyPatch, fault: int | str
) -> None:
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(session_module, "time", clock)
    for lasting_s, state in [(0.3, State.REGISTERED), (0.3, State.REGISTERED), (0.5, State.UNCERTAIN)]:
        clock.now += 1000.0
        api.faults = {"/info": fault}
        asking = asyncio.create_task(session.info())
        await until_asked(api, "/info")
        clock.now += lasting_s
        await until_asked(api, "/info")
        api.faults = {}
        await asking
        assert session.state is state


async def test_run_api_may_have_been_restarted_while_a_reply_was_waited_for(
    session: RunApiSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([0.0, 1000.0])
    monkeypatch.setattr(session_module, "time", SimpleNamespace(monotonic=lambda: next(times)))
    monkeypatch.setattr(session._client, "ask", AsyncMock(side_effect=RunApiFault("it broke", maybe_taken=True)))
    with pytest.raises(RunApiFault):
        await session.send("/scored_data", b"")
    assert session.state is State.UNCERTAIN


async def test_entries_whose_replies_were_lost_are_disconnected(api: ServedRunApi) -> None:
    await register_others(api, 2)
    api.faults = {"/register-env": "cut"}
    session = RunApiSession(api.url, ENTRY)
    registering = asyncio.create_task(session.register())
    await until(lambda: len(api.environments) > 4)
    api.faults = {}
    registration = await registering
    assert api.connected == [0, 1, registration.env_id]


async def test_entries_that_come_while_others_are_compared_do_not_matter(
    api: ServedRunApi, session: RunApiSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    share, asked = session._share, []

    async def share_in_a_crowd(number: int) -> float | None:
        asked.append(number)
        if len(asked) <= 4:
            await register_others(api, 1)
        return await share(number)

    monkeypatch.setattr(session, "_share", share_in_a_crowd)
    session._doubt()
    await session.status()
    assert (session.registration.env_id, api.connected) == (0, [0, 2, 3, 4, 5])


async def test_nothing_is_disconnected_after_an_absence_in_which_entries_were_compared(
    api: ServedRunApi, session: RunApiSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare, disconnected_before = session._is_own, []

    async def compare_through_an_absence(number: int, known: int) -> bool:
        disconnected_before.append(api.count("/disconnect-env"))
        if len(disconnected_before) == 1:
            with pytest.raises(RunApiFault):
                api.stop()
                await session.send("/scored_data", b"")
            api.start()
        return await compare(number, known)

    monkeypatch.setattr(session, "_is_own", compare_through_an_absence)
    session._doubt()
    await session.status()
    assert disconnected_before[:2] == [0, 0]
    assert (session.registration.env_id, api.connected) == (0, [0])


async def test_what_cannot_be_told_from_anothers_is_never_disconnected(api: ServedRunApi) -> None:
    await register_others(api, 1, weight=1000.0)  # beside it all shares are told as 1 %
    session = RunApiSession(api.url, ENTRY)
    await session.register()
    await register_others(api, 1)
    async with absence(api, session):
        pass
    assert session.registration.env_id == 3
    assert api.connected == [0, 1, 2, 3]


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


async def test_a_step_that_went_back_shows_a_reset_that_nobody_saw(api: ServedRunApi) -> None:
    session = await session_before_a_reset(api)
    assert (await session.status())["current_step"] == 4
    assert session.registration.env_id == 1


async def test_a_state_that_is_never_told_is_asked_for_ever_less_often(
    api: ServedRunApi, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "MAX_PAUSE_S", 8.0)
    session = RunApiSession(api.url, {**ENTRY, "weight": 0.0})
    await session.register()
    enough = [*[None] * 6, asyncio.CancelledError]
    with patch.object(asyncio, "sleep", AsyncMock(side_effect=enough)) as sleep, pytest.raises(asyncio.CancelledError):
        await session.status()
    assert [pause.args[0] for pause in sleep.call_args_list] == [0.0, 1.0, 3.0, 7.0, 8.0, 8.0, 8.0]
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
    monkeypatch.setattr(session_module, "TRAINER_PATIENCE_S", 0.0)
    with caplog.at_level(logging.INFO):
        for batch_waits in (True, True, False, False):
            session.watch_trainer(batch_waits=batch_waits)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


# ---------------------------------------------------------------------------- leaving


async def test_leaving_disconnects_once(api: ServedRunApi, session: RunApiSession) -> None:
    for _ in range(2):
        await session.leave()
    assert (api.connected, api.count("/disconnect-env")) == ([], 1)


async def test_leaving_disconnects_nothing_that_may_be_anothers(api: ServedRunApi, session: RunApiSession) -> None:
    api.stop()
    with pytest.raises(RunApiFault):
        await session.send("/scored_data", b"")
    api.start()
    await session.leave()
    assert api.connected == [0]


async def test_leaving_asks_first_whether_run_api_was_reset_unseen(api: ServedRunApi) -> None:
    session = await session_before_a_reset(api)
    await session.leave()
    assert api.connected == [0]


async def test_leaving_a_run_api_that_is_gone_is_no_error(
    api: ServedRunApi, session: RunApiSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "LEAVE_TIMEOUT_S", 0.1)
    api.stop()
    await session.leave()
    assert session.state is State.UNREGISTERED
