from __future__ import annotations

import asyncio
import socket

import pytest

from reasoning_env.atropos.run_api import RunApiClient, RunApiFault, client
from testing import slow

from .served import ServedRunApi


async def fault_of(url: str) -> RunApiFault:
    with pytest.raises(RunApiFault) as caught:
        await RunApiClient(url).ask("GET", "/info", ("batch_size",))
    return caught.value


async def test_a_reply_is_a_mapping_with_the_keys_that_were_asked_for_however_late_it_is(api: ServedRunApi) -> None:
    api.fail(slow(1.0))
    reply = await RunApiClient(f"{api.url}/").ask("GET", "/info", ("batch_size",))
    assert reply == {"batch_size": 32, "max_token_len": 4096}


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
async def test_a_fault_tells_whether_the_request_may_have_been_taken(
    api: ServedRunApi, fault: int | str, status: int | None, maybe_taken: bool
) -> None:
    api.faults = {"/info": fault}
    caught = await fault_of(api.url)
    assert (caught.status, caught.maybe_taken, caught.unreachable) == (status, maybe_taken, False)


async def test_a_refused_connection_carried_nothing(api: ServedRunApi) -> None:
    api.stop()
    assert (await fault_of(api.url)).unreachable


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
