from __future__ import annotations

import asyncio
import socket

import pytest

from reasoning_env.atropos.run_api import RunApiClient, RunApiFault, client

from .served import ServedRunApi


async def fault_of(url: str, method: str = "GET", path: str = "/info") -> RunApiFault:
    with pytest.raises(RunApiFault) as caught:
        await RunApiClient(url).ask(method, path, ("batch_size",))
    return caught.value


async def test_a_reply_is_a_mapping_with_the_keys_that_were_asked_for(api: ServedRunApi) -> None:
    assert await RunApiClient(f"{api.url}/").ask("GET", "/info", ("batch_size",)) == {
        "batch_size": 32,
        "max_token_len": 4096,
    }


@pytest.mark.parametrize("page", ["<html>back soon</html>", "[]", "{}", '"wait"'])
async def test_another_servers_page_is_a_fault_with_its_text(api: ServedRunApi, page: str) -> None:
    api.faults = {"/info": page}
    fault = await fault_of(api.url)
    assert page in str(fault)
    assert (fault.status, fault.maybe_taken) == (200, True)


@pytest.mark.parametrize(("status", "maybe_taken"), [(400, False), (422, False), (500, True), (504, True)])
async def test_an_error_status_tells_whether_the_request_may_have_been_taken(
    api: ServedRunApi, status: int, maybe_taken: bool
) -> None:
    api.faults = {"/info": status}  # with a body that is not UTF-8
    fault = await fault_of(api.url)
    assert (fault.status, fault.maybe_taken, fault.unreachable) == (status, maybe_taken, False)


async def test_a_broken_connection_may_have_carried_the_request(api: ServedRunApi) -> None:
    api.faults = {"/info": "cut"}
    fault = await fault_of(api.url)
    assert (fault.status, fault.maybe_taken, fault.unreachable) == (None, True, False)


async def test_a_refused_connection_carried_nothing(api: ServedRunApi) -> None:
    await api.stop()
    fault = await fault_of(api.url)
    assert (fault.status, fault.maybe_taken, fault.unreachable) == (None, False, True)


async def test_a_connection_that_never_comes_about_carried_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "CONNECT_TIMEOUT_S", 0.05)
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for waiting in (first, second):  # they fill what the system accepts for a server that does not
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        await asyncio.sleep(0.05)
        assert (await fault_of(f"http://127.0.0.1:{full.getsockname()[1]}")).unreachable
