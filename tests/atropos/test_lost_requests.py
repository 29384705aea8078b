"""A server disappears without closing its connections and comes back; requests by Atropos' classes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

import pytest

from reasoning_env.inference import server as module
from reasoning_env.inference.failures import Timeouts
from reasoning_env.prompts.chat_format import ChatFormat
from reasoning_env.prompts.messages import build_messages
from reasoning_env.records import Rollout
from reasoning_gym_testing import InferenceServer, generations, linger
from reasoning_gym_testing.http_server import Picks, every_request
from tests.inference.test_lost_requests import Former, restart
from tests.records import SAMPLING
from tests.waiting import PATIENCE_S, until

from .conftest import Manage, managed

# One failure ends the request.
STRICT = Timeouts(reply_s=None, outage_s=PATIENCE_S, tries=1)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REACH_POLL_S", 0.01)


Ask = Callable[[int], "asyncio.Task[list[Rollout]]"]


@pytest.fixture
def client_of(chat: ChatFormat, manage: Manage) -> Callable[..., Ask]:
    def make(kind: str, servers: Sequence[InferenceServer]) -> Ask:
        manager = manage(*(server.config(kind) for server in servers))
        model = managed(manager, chat, timeouts=STRICT)
        prompt = chat.prompt(build_messages("", "1 + 1?"))
        return lambda n: asyncio.create_task(model.complete(prompt, n, SAMPLING))

    return make


@pytest.mark.parametrize("kind", ["auto", "vllm", "sglang", "completions", "openai", "chat"])
async def test_group_is_completed_after_a_server_restart(
    client_of: Callable[..., Ask], kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "reasoning_env")
    async with Former() as former:
        ask = client_of(kind, [former])
        asking = ask(2)
        async with await restart(former, 2 if kind in ("openai", "chat") else 1, caplog):
            assert len(await asking) == 2
    assert f"server {former.url}/v1 is back" in caplog.text


@pytest.mark.parametrize("kind", ["vllm", "openai"])
@pytest.mark.parametrize("held", [generations, every_request], ids=["requests", "health checks too"])
async def test_second_server_completes_groups_of_a_hanging_server(
    client_of: Callable[..., Ask], kind: str, held: Picks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AWAY_S", 0.2)
    async with Former() as former, InferenceServer() as other:
        former.fail(former.hold, only=held)
        ask = client_of(kind, [former, other])
        asking = [ask(1) for _ in range(4)]
        await until(lambda: former.held)
        former.fail(linger)
        assert [len(await group) for group in asking] == [1] * 4
