from __future__ import annotations

import asyncio
import logging
import math
from types import SimpleNamespace
from typing import Any

import pytest
from atroposlib.envs.server_handling.openai_server import OpenAIServer
from atroposlib.envs.server_handling.server_baseline import APIServer
from atroposlib.envs.server_handling.server_manager import ServerManager

from reasoning_env.atropos.config import ServerConfig
from reasoning_env.errors import ServerError
from reasoning_env.inference import addresses
from reasoning_env.runtime import retries
from tests.waiting import PATIENCE_S

from .conftest import managed

FOREVER_S = 600.0


class HTTPError(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status_code = status


class Server(APIServer):  # type: ignore[misc]
    """A custom server class with one given outcome for each request. The last outcome repeats."""

    def __init__(self, *outcomes: Any, server_type: str = "openai", name: str = "one") -> None:
        super().__init__(ServerConfig(model_name="model", base_url=f"http://{name}/v1", server_type=server_type))
        self._outcomes = list(outcomes)
        self.asked = 0

    async def check_server_status_task(self, chat_completion: bool = True) -> None:
        raise NotImplementedError

    async def _chat_completion_wrapper(self, **arguments: Any) -> Any:
        return SimpleNamespace(choices=await self._next(arguments))

    async def _completion_wrapper(self, **arguments: Any) -> SimpleNamespace:
        return SimpleNamespace(choices=await self._next(arguments))

    async def _tokens_and_logprobs_completion_wrapper(self, **arguments: Any) -> tuple[Any, ...]:
        return [1], await self._next(arguments), [[-0.5]], ["length"]

    async def _next(self, arguments: dict[str, Any]) -> Any:
        assert (arguments["n"], arguments["max_tokens"], arguments["model"]) == (1, 1, "model")
        self.asked += 1
        outcome = self._outcomes.pop(0) if len(self._outcomes) > 1 else self._outcomes[0]
        if outcome == "silent":
            await asyncio.Event().wait()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


async def check_servers(servers: list[Any], timeout_s: float) -> None:
    """Check servers in the same way as an environment does."""
    manager = ServerManager([], server_class=OpenAIServer)
    manager.servers = servers
    await managed(manager).check(timeout_s)


REFUSED = ConnectionRefusedError(111, "Connection refused")


@pytest.fixture(autouse=True)
def short_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(retries, "LONGEST_PAUSE_S", 0.01)
    monkeypatch.setattr(addresses, "LEAST_WAIT_S", 0.01)
    monkeypatch.setattr(addresses, "OTHERS_S", 0.01)


@pytest.mark.parametrize(
    ("error", "base_url", "remedy"),
    [
        (HTTPError(404), "http://one:9001", r"openai\.base_url.* http://one:9001/v1$"),
        (HTTPError(400), "http://one/v1", r"refuses completion of Server .*openai\.model_name.*openai\.server_type"),
    ],
)
async def test_error_about_a_refused_test_request_names_the_setting_to_correct(
    error: Exception, base_url: str, remedy: str
) -> None:
    server = Server(error)
    server.config.base_url = base_url
    with pytest.raises(ServerError, match=remedy):
        await check_servers([server], FOREVER_S)


@pytest.mark.parametrize("error", [REFUSED, HTTPError(503)], ids=["refused", "503"])
async def test_server_check_at_start_waits_for_an_unreachable_server(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "reasoning_env")
    server = Server(error, error, error, ["x"])
    await check_servers([server], math.inf)
    assert server.asked == 4
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "http://one/v1" in caplog.messages[0]


@pytest.mark.parametrize("absent", [REFUSED, "silent"])
async def test_server_check_at_start_passes_if_one_of_several_servers_works(
    absent: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with asyncio.timeout(PATIENCE_S):
        await check_servers([Server(absent, name="down"), Server(["x"], name="up")], FOREVER_S)
    [message] = caplog.messages
    assert "http://down/v1" in message
    assert "http://up/v1" not in message


async def test_server_check_accepts_an_error_that_says_the_token_limit_was_reached() -> None:
    error = HTTPError(400)
    error.args = ("max_tokens or model output limit was reached",)
    await check_servers([Server(error, server_type="chat")], FOREVER_S)


async def test_server_check_at_start_skips_a_mock_server() -> None:
    await check_servers([SimpleNamespace()], 0.0)
