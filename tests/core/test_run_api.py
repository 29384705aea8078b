from __future__ import annotations

import asyncio
import logging
import math

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from reasoning_env import run_api as run_api_module
from reasoning_env.errors import ServerError
from reasoning_env.run_api import FAULTS, NeverSent, RunApi, RunApiError
from tests.fake_run_api import FakeRunApi

ENVIRONMENT = {"desired_name": "reasoning_gym"}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_api_module, "RETRY_S", 0.01)
    monkeypatch.setattr(run_api_module, "TRAINER_POLL_S", 0.01)


async def test_a_registration_waits_for_the_trainer_and_says_so_once(
    api: FakeRunApi, caplog: pytest.LogCaptureFixture
) -> None:
    api.trained = False
    with caplog.at_level(logging.INFO):
        registering = asyncio.create_task(RunApi(api.url).register(ENVIRONMENT))
        await asyncio.sleep(0.2)
        api.trained = True
        assert (await registering)["env_id"] == 0
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1
    assert api.environments == [ENVIRONMENT]


async def test_the_account_at_wandb_waits_for_the_trainer(api: FakeRunApi) -> None:
    api.trained = False
    asking = asyncio.create_task(RunApi(api.url).wandb_group_and_project())
    await asyncio.sleep(0.05)
    assert not asking.done()
    api.trained = True
    assert await asking == ("mine", "mine")


async def test_a_status_is_given_to_those_who_registered(api: FakeRunApi) -> None:
    run_api = RunApi(api.url)
    await run_api.register(ENVIRONMENT)
    for ask in (run_api.status, run_api.status_now):
        status = await ask(0)
        assert status is not None and status["current_step"] == 0
        assert await ask(1) is None


async def test_a_question_waits_for_a_run_api_that_is_away_and_says_so_once(
    api: FakeRunApi, caplog: pytest.LogCaptureFixture
) -> None:
    await api.stop()
    with caplog.at_level(logging.INFO):
        asking = asyncio.create_task(RunApi(api.url).info())
        await asyncio.sleep(0.3)
        await api.start()
        assert await asking == {"batch_size": 32, "max_token_len": 4096}
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert api.url in caplog.text


async def test_a_question_is_asked_again_after_an_error_of_the_server(api: FakeRunApi) -> None:
    api.faults = {"/info": 502}
    asking = asyncio.create_task(RunApi(api.url).info())
    await asyncio.sleep(0.1)
    api.faults.clear()
    assert (await asking)["batch_size"] == 32


async def test_a_silent_run_api_is_named(
    api: FakeRunApi, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_api_module, "SLOW_S", 0.02)
    released = asyncio.Event()

    async def answer(_: web.Request) -> web.Response:
        await released.wait()
        return web.json_response({"batch_size": 1, "max_token_len": 1})

    app = web.Application()
    app.router.add_get("/info", answer)
    async with TestServer(app) as server:
        asking = asyncio.create_task(RunApi(str(server.make_url(""))).info())
        await asyncio.sleep(0.2)
        released.set()
        await asking
    assert sum("does not reply" in message for message in caplog.messages) == 1


async def test_another_server_in_its_place_is_an_error_with_the_setting(api: FakeRunApi) -> None:
    api.faults = {"/register-env": 404}
    with pytest.raises(ServerError, match="rollout_server_url"):
        await RunApi(api.url).register(ENVIRONMENT)


@pytest.mark.parametrize("page", ["<html>back soon</html>", "[]", "{}", '"wait"'])
async def test_a_page_in_its_place_is_an_error_at_first_and_an_absence_later(api: FakeRunApi, page: str) -> None:
    run_api = RunApi(api.url)
    api.pages = {"/info": page}
    with pytest.raises(ServerError, match="rollout_server_url"):
        await run_api.info()
    api.pages = {}
    await run_api.info()
    api.pages = {"/info": page, "/status-env": page}
    asking = asyncio.create_task(run_api.info())
    with pytest.raises(RunApiError, match="not as run-api does"):
        await run_api.status_now(0)
    await asyncio.sleep(0.1)
    assert not asking.done()
    api.pages = {}
    await asking


async def test_an_error_in_no_known_encoding_is_an_error_all_the_same(api: FakeRunApi) -> None:
    api.faults = {"/info": 503}
    api.error_body = b"\xff\xfe\xff"
    with pytest.raises(RunApiError, match="503"):
        await RunApi(api.url).request("GET", "/info")


async def test_each_interruption_counts_once(api: FakeRunApi) -> None:
    run_api = RunApi(api.url)
    await run_api.info()
    assert run_api.interruptions == 0
    for number in (1, 2):
        await api.stop()
        asking = [asyncio.create_task(run_api.info()) for _ in range(2)]
        await asyncio.sleep(0.2)
        assert run_api.interruptions == number
        await api.start()
        await asyncio.gather(*asking)
        assert run_api.interruptions == number


async def test_broken_requests_are_counted_and_are_no_interruption(api: FakeRunApi) -> None:
    run_api = RunApi(api.url)
    api.faults = {"/register-env": "cut"}
    asking = asyncio.create_task(run_api.register(ENVIRONMENT))
    await asyncio.sleep(0.2)
    api.faults = {}
    await asking
    assert run_api.breaks == len(api.requests) - 1
    assert run_api.interruptions == 0


@pytest.mark.parametrize("fault", ["cut", 502])
async def test_failures_that_last_are_an_interruption(
    api: FakeRunApi, monkeypatch: pytest.MonkeyPatch, fault: int | str
) -> None:
    """What stands between may answer in place of a run-api that is being restarted."""
    monkeypatch.setattr(run_api_module, "LEAST_RESTART_S", 0.3)
    run_api = RunApi(api.url)
    await run_api.info()
    for interruptions, lasting_s in ((0, 0.1), (1, 0.6), (1, 0.1), (2, 0.6)):
        api.faults = {"/info": fault}
        asking = asyncio.create_task(run_api.info())
        await asyncio.sleep(lasting_s)
        api.faults = {}
        await asking
        assert run_api.interruptions == interruptions


async def test_waiting_for_it_ends_in_time(api: FakeRunApi) -> None:
    await RunApi(api.url).wait_until_there(math.inf)
    await api.stop()
    with pytest.raises(ServerError, match="start it with `run-api`"):
        await RunApi(api.url).wait_until_there(0.05)


async def test_anything_that_answers_is_there(api: FakeRunApi) -> None:
    api.faults = {"/": 500}
    await asyncio.wait_for(RunApi(api.url).wait_until_there(math.inf), 30.0)


async def test_one_try_tells_what_was_never_sent_from_what_broke(api: FakeRunApi) -> None:
    api.faults = {"/info": "cut", "/wandb_info": 400}
    with pytest.raises(FAULTS):
        await RunApi(api.url).request("GET", "/info")
    with pytest.raises(RunApiError, match="400"):
        await RunApi(api.url).request("GET", "/wandb_info")
    await api.stop()
    with pytest.raises(NeverSent):
        await RunApi(api.url).request("GET", "/info")


async def test_a_farewell_names_the_environment(api: FakeRunApi) -> None:
    await RunApi(api.url).disconnect(4)
    assert api.disconnected == [4]
