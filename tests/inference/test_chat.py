from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from atroposlib.envs.server_handling.openai_server import OpenAIServer
from atroposlib.envs.server_handling.server_baseline import APIServerConfig
from openai.types.chat import ChatCompletion

from reasoning_env.atropos.inference.servers import ChatServer, OpenAIChat, complete_servers
from reasoning_env.errors import ConfigError
from reasoning_env.inference.chat import ChatRequests, PlainChat
from reasoning_env.records import Ending, Sampling

SAMPLING = Sampling(temperature=0.5, top_p=0.9, token_limit=1000, split="eval")
PROMPT = PlainChat().prompt([{"role": "user", "content": "x" * 200}])


class Refusal(Exception):
    status_code = 400


def reply(content: str | None = "yes", finish_reason: str = "stop", tokens: int | None = 7) -> SimpleNamespace:
    choice = SimpleNamespace(message=SimpleNamespace(content=content), finish_reason=finish_reason)
    return SimpleNamespace(choices=[choice], usage=tokens and SimpleNamespace(completion_tokens=tokens))


async def complete(create: AsyncMock, n: int = 1, requests: ChatRequests | None = None) -> list[Any]:
    """Ask a server whose client is the mock."""
    return await (requests or ChatRequests()).complete([OpenAIChat(server_of(create), "eval")], PROMPT, n, SAMPLING)


def server_of(create: AsyncMock) -> OpenAIServer:
    server = OpenAIServer(APIServerConfig(base_url="http://127.0.0.1:9/v1", api_key="x", model_name="model"))
    server.openai = SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=create)))
    server.eval_sem = asyncio.Semaphore(2)
    return server


async def test_one_request_a_completion() -> None:
    create = AsyncMock(return_value=reply())
    rollouts = await complete(create, 3)
    assert [(rollout.text, rollout.completion_tokens, rollout.tokens) for rollout in rollouts] == [("yes", 7, ())] * 3
    assert create.call_count == 3
    create.assert_called_with(
        model="model",
        messages=[{"role": "user", "content": "x" * 200}],
        max_tokens=SAMPLING.completion_budget(PROMPT),
        temperature=0.5,
        top_p=0.9,
    )
    assert SAMPLING.completion_budget(PROMPT) < 1000 - 50


async def test_servers_are_asked_in_turn() -> None:
    creates = [AsyncMock(return_value=reply()), AsyncMock(return_value=reply())]
    requests, servers = ChatRequests(), [OpenAIChat(server_of(create), "eval") for create in creates]
    for _ in range(4):
        await requests.complete(servers, PROMPT, 1, SAMPLING)
    assert [create.call_count for create in creates] == [2, 2]


async def test_reply_without_text() -> None:
    (rollout,) = await complete(AsyncMock(return_value=reply(None, "length", None)))
    assert (rollout.text, rollout.ending, rollout.completion_tokens) == ("", Ending.CUT, None)


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
async def test_thinking_stays_apart(name: str) -> None:
    message = {"role": "assistant", "content": "<answer>1</answer>", name: "</think><answer>2</answer>"}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    plain = {"id": "", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
    (rollout,) = await complete(AsyncMock(return_value=ChatCompletion.model_validate(plain)))
    assert (rollout.text, rollout.thinking) == ("<answer>1</answer>", "</think><answer>2</answer>")


async def test_some_requests_fail() -> None:
    assert len(await complete(AsyncMock(side_effect=[reply(), ConnectionResetError(), reply()]), 3)) == 2


async def test_all_requests_fail() -> None:
    with pytest.raises(ConnectionResetError):
        await complete(AsyncMock(side_effect=ConnectionResetError), 2)


async def test_refused_parameters_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(**sent: Any) -> SimpleNamespace:
        if "max_tokens" in sent:
            raise Refusal("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
        if "temperature" in sent:
            raise Refusal("'temperature' does not support 0.5 with this model")
        return reply()

    create, requests = AsyncMock(side_effect=refuse), ChatRequests()
    for _ in range(2):
        assert len(await complete(create, 1, requests)) == 1
    assert create.call_count == 4
    assert create.call_args.kwargs.keys() == {"model", "messages", "max_completion_tokens", "top_p"}
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


async def test_other_refusal_is_raised() -> None:
    create = AsyncMock(side_effect=Refusal("no such model"))
    with pytest.raises(Refusal):
        await complete(create)
    assert create.call_count == 1


def completed(**fields: Any) -> Any:
    (config,) = complete_servers([APIServerConfig(**{"base_url": "http://h/v1", **fields})], "tokenizer")
    return config


async def test_health_costs_no_request() -> None:
    create = AsyncMock()
    server = ChatServer(completed(server_type="chat"))
    server.openai = SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=create)))
    await server.check_server_status_task()
    assert server.server_healthy
    create.assert_not_called()


@pytest.mark.parametrize(
    ("server_type", "given", "key"),
    [
        ("chat", "", "from-variable"),
        ("chat", "x", "from-variable"),
        ("chat", "own", "own"),
        ("chat", "$MY_KEY", "mine"),
        ("openai", "$MY_KEY", "mine"),
        ("openai", "", "x"),
    ],
)
def test_key_from_the_environment(server_type: str, given: str, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "from-variable")
    monkeypatch.setenv("MY_KEY", "mine")
    assert completed(server_type=server_type, api_key=given).api_key == key


def test_key_of_a_missing_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    with pytest.raises(ConfigError, match="MY_KEY"):
        completed(server_type="chat", api_key="$MY_KEY")
