from __future__ import annotations

import asyncio
import json
import logging
import math
import re
import socket

import msgspec
import pytest
from atroposlib.api.utils import grab_exact_from_heterogeneous_queue

from reasoning_env.atropos import run_api
from reasoning_env.atropos.run_api import (
    TRAINER_INFO,
    RunApiFault,
    RunApiSession,
    TrainerWatch,
    always_fill_batches,
    request,
)
from reasoning_env.errors import ServerError
from reasoning_env.runtime import retries
from reasoning_gym_testing import slow
from tests.waiting import until

from .conftest import ENTRY, register_others, said, until_asked
from .served import ServedRunApi

# ---------------------------------------------------------------------------- one request


async def fault_of(url: str) -> RunApiFault:
    with pytest.raises(RunApiFault) as caught:
        await request(url, TRAINER_INFO)
    return caught.value


async def test_slow_reply_of_run_api_is_accepted(api: ServedRunApi) -> None:
    api.fail(slow(1.0))
    assert await request(api.url, TRAINER_INFO) == {"batch_size": 32, "max_token_len": 4096}


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        ("cut", None),
        (500, 500),
        (422, 422),
        *((page, 200) for page in ("<html>back soon</html>", "[]", "{}", '"wait"', " " * 2**21)),
    ],
)
async def test_error_for_a_failed_run_api_request_has_the_http_status(
    api: ServedRunApi, fault: int | str, status: int | None
) -> None:
    api.faults = {"/info": fault}
    assert (await fault_of(api.url)).status == status


async def test_error_of_a_refused_connection_has_no_http_status(api: ServedRunApi) -> None:
    api.stop()
    assert (await fault_of(api.url)).status is None


async def test_connection_to_run_api_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_api, "CONNECT_TIMEOUT_S", 0.1)
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for waiting in (first, second):  # these connections fill the backlog of a server that accepts none
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        await asyncio.sleep(0.05)
        caught = await fault_of(f"http://127.0.0.1:{full.getsockname()[1]}")
    assert caught.status is None


# ---------------------------------------------------------------------------- waiting


async def test_environment_registers_only_after_the_trainer_has_registered(
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


async def test_warning_suggests_a_reset_only_if_the_trainer_stays_missing(
    api: ServedRunApi, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one trainer ends and the next starts, run-api needs no reset."""
    monkeypatch.setattr(RunApiSession, "trainer_patience_s", 0.1)
    monkeypatch.setattr(retries.OutageLog, "REPEAT_S", 0.0)
    await api.reset()
    registering = asyncio.create_task(RunApiSession(api.url, ENTRY).register())
    await until(lambda: "/reset_data" in "".join(said(caplog, "WARNING")))
    await api.train()
    await registering
    assert "/reset_data" not in said(caplog, "WARNING")[0]


@pytest.mark.parametrize("fault", [None, 502, "cut"])
async def test_environment_start_waits_until_run_api_is_reachable(
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


async def test_slow_reply_of_run_api_logs_a_warning(
    api: ServedRunApi, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunApiSession, "slow_reply_s", 0.01)
    api.fail(slow(math.inf))
    asking = asyncio.create_task(RunApiSession(api.url, ENTRY).info())
    await until(lambda: said(caplog, "WARNING"))
    asking.cancel()
    await asyncio.wait([asking])
    assert api.url in said(caplog, "WARNING")[0]


@pytest.mark.parametrize("fault", ["<html>hello</html>", 404])
async def test_invalid_reply_raises_only_before_the_first_valid_reply(api: ServedRunApi, fault: int | str) -> None:
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


async def test_status_is_requested_again_after_an_impossible_trainer_step(
    session: RunApiSession, api: ServedRunApi, caplog: pytest.LogCaptureFixture
) -> None:
    """A step of 10**9 would end the run, as if the trainer had received all batches."""
    await session.register()
    caplog.clear()
    status = await session.status()
    api.faults = {"/status-env": json.dumps({**status, "current_step": 10**9})}
    asking = asyncio.create_task(session.status())
    await until(lambda: said(caplog, "WARNING"))
    api.faults = {}
    assert await asking == status
    assert "`$.current_step`" in said(caplog, "WARNING")[0]


REGISTERED = {
    "status": "success",
    "env_id": 0,
    "wandb_name": "a",
    "checkpoint_dir": "",
    "starting_step": 0,
    "checkpoint_interval": -1,
    "num_steps": -1,
}


@pytest.mark.parametrize(
    "fields",
    [{"num_steps": 10**30}, {"checkpoint_interval": 2**63}, {"checkpoint_interval": -2}, {"checkpoint_dir": "a\0b"}],
    ids=str,
)
def test_registration_reply_with_a_value_out_of_range_is_rejected(fields: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        run_api.REGISTER.decoder.decode(json.dumps({**REGISTERED, **fields}))


@pytest.mark.parametrize("fields", [{"max_token_len": 10**30}, {"batch_size": -2}], ids=str)
def test_trainer_info_is_rejected_if_a_value_is_out_of_range(fields: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        run_api.TRAINER_INFO.decoder.decode(json.dumps({"batch_size": 8, "max_token_len": 16, **fields}))


async def test_registration_is_retried_if_its_reply_is_malformed(
    api: ServedRunApi, caplog: pytest.LogCaptureFixture
) -> None:
    api.faults = {"/register-env": json.dumps({**REGISTERED, "env_id": [7]})}
    registering = asyncio.create_task(RunApiSession(api.url, ENTRY).register())
    await until(lambda: said(caplog, "WARNING"))
    api.faults = {}
    assert (await registering).env_id == 0
    [warning] = said(caplog, "WARNING")
    assert "`$.env_id`" in warning
    assert "\n" not in warning


async def test_waiting_for_the_start_of_run_api_times_out(api: ServedRunApi) -> None:
    await RunApiSession(api.url, ENTRY).wait_until_there(math.inf)
    api.stop()
    with pytest.raises(ServerError, match=r"env\.rollout_server_url"):
        await RunApiSession(api.url, ENTRY).wait_until_there(0.05)


# ---------------------------------------------------------------------------- registering again


async def test_environment_registers_again_after_a_reset_of_run_api(api: ServedRunApi, session: RunApiSession) -> None:
    before = session.registration
    await api.reset()
    asking = asyncio.create_task(session.status())
    await until_asked(api, "/info")
    assert api.environments == []
    await api.train(starting_step=7)
    assert (await asking)["current_step"] == 7
    assert session.registration is not before
    assert session.registration.starting_step == 7


async def test_environment_does_not_register_again_after_an_outage_of_run_api(
    api: ServedRunApi, session: RunApiSession
) -> None:
    before = session.registration
    api.stop()
    asking = asyncio.create_task(session.status())
    await asyncio.sleep(0.1)
    api.start()
    await asking
    assert session.registration is before
    assert api.connected == [0]


async def test_no_two_environments_share_an_id_after_run_api_restarts(
    api: ServedRunApi, session: RunApiSession
) -> None:
    other = RunApiSession(api.url, ENTRY)
    await other.register()
    api.forget()
    asking = asyncio.gather(session.status(), other.status())
    await until_asked(api, "/info")
    await api.train()
    await asking
    assert {session.registration.env_id, other.registration.env_id} == {0, 1}
    assert api.connected == [0, 1]


async def test_registration_is_retried_if_its_reply_is_lost(api: ServedRunApi) -> None:
    api.faults = {"/register-env": "cut"}
    session = RunApiSession(api.url, ENTRY)
    registering = asyncio.create_task(session.register())
    await until(lambda: len(api.environments) > 1)
    api.faults = {}
    assert (await registering).env_id == len(api.environments) - 1


async def session_before_reset(api: ServedRunApi) -> RunApiSession:
    """A session that does not know that run-api was reset and gave its number to another environment."""
    await api.reset()
    await api.train(starting_step=5)
    session = RunApiSession(api.url, ENTRY)
    await session.register()
    await api.reset()
    await api.train(starting_step=4)
    await register_others(api, 1)
    return session


async def test_environment_registers_again_if_the_trainer_step_decreases(api: ServedRunApi) -> None:
    session = await session_before_reset(api)
    assert (await session.status())["current_step"] == 4
    assert session.registration.env_id == 1


async def test_warning_about_a_missing_queue_size_names_the_inference_weight_setting(
    api: ServedRunApi, caplog: pytest.LogCaptureFixture
) -> None:
    session = RunApiSession(api.url, {**ENTRY, "weight": 0.0})
    await session.register()
    asking = asyncio.create_task(session.status())
    await until(lambda: said(caplog, "WARNING"))
    asking.cancel()
    await asyncio.wait([asking])
    assert "inference_weight" in said(caplog, "WARNING")[0]


# ---------------------------------------------------------------------------- sending


@pytest.mark.parametrize("others_register", [False, True])
async def test_groups_wait_until_a_trainer_is_registered(
    api: ServedRunApi, session: RunApiSession, others_register: bool
) -> None:
    """After a reset, environments can register as soon as any trainer requests a batch."""
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


async def test_no_group_is_sent_while_the_group_size_exceeds_the_batch_size(
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


async def test_environment_warns_once_if_the_trainer_takes_no_batches(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TrainerWatch, "patience_s", 0.0)
    trainer = TrainerWatch()
    with caplog.at_level(logging.INFO):
        for batch_waits in (True, True, False, False):
            trainer.note(batch_waits=batch_waits, batch_size=32, group_sizes=[4, 8])
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "trainer runs" in caplog.messages[0]


def test_group_sizes_that_do_not_add_up_to_the_batch_size_are_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TrainerWatch, "patience_s", 0.0)
    TrainerWatch().note(batch_waits=True, batch_size=24, group_sizes=[3, 8])
    assert "no batch of 24 to the trainer, probably because groups of 3 and 8 do not" in caplog.messages[0]


@pytest.mark.parametrize(
    ("batch_size", "queue"),
    [(12, [4] * 3), (32, [4, 8] * 4), (24, [2, 3, 6] * 6), (10, [4] * 3), (12, [4, 4, 8]), (24, [*[3] * 7, 8])],
)
def test_environment_and_run_api_agree_on_which_group_sizes_fill_a_batch(batch_size: int, queue: list[int]) -> None:
    batch, _ = grab_exact_from_heterogeneous_queue([{"tokens": [[]] * size} for size in queue], batch_size)
    assert (batch is not None) is always_fill_batches(batch_size, set(queue))


# ---------------------------------------------------------------------------- leaving


async def test_disconnecting_twice_from_run_api_sends_only_one_request(
    api: ServedRunApi, session: RunApiSession
) -> None:
    for _ in range(2):
        await session.leave()
    assert (api.connected, api.count("/disconnect-env")) == ([], 1)


async def test_disconnecting_after_a_run_api_reset_affects_no_other_environment(api: ServedRunApi) -> None:
    session = await session_before_reset(api)
    await session.leave()
    assert api.connected == [0]


async def test_disconnecting_from_run_api_times_out_if_run_api_is_unreachable(
    api: ServedRunApi, session: RunApiSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunApiSession, "leave_timeout_s", 0.1)
    api.stop()
    await session.leave()
    assert api.connected == [0]
