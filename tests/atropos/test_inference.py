from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from atroposlib.envs.server_handling.openai_server import OpenAIServer
from atroposlib.envs.server_handling.server_baseline import APIServerConfig
from atroposlib.envs.server_handling.server_harness import ServerHarness, create_chat_completion
from atroposlib.envs.server_handling.server_manager import ServerManager
from atroposlib.envs.server_handling.vllm_server import VLLMServer

from reasoning_env.atropos.inference import client as inference
from reasoning_env.atropos.inference.client import InferenceClient
from reasoning_env.atropos.inference.servers import ReplyKind, complete_servers, named_type
from reasoning_env.errors import ServerError
from reasoning_env.inference.requests import MAX_REQUEST_FAILURES
from reasoning_env.prompts.chat_format import ChatFormat
from reasoning_env.prompts.messages import build_messages
from reasoning_env.records import Prompt, Timeouts
from reasoning_env.runtime import retries
from tests.chat_templates import tokenizer_with
from tests.records import SAMPLING
from tests.waiting import until

PATIENT = Timeouts(reply_s=None, outage_s=600.0)


class Server:
    """A server of a manager; `polls` counts how often its health was read."""

    def __init__(self, name: str) -> None:
        self.config = SimpleNamespace(base_url=name)
        self.healthy = True
        self.polls = 0

    @property
    def server_healthy(self) -> bool:
        self.polls += 1
        return self.healthy


class Manager:
    """Answers a request with the texts that `answer` returns for its arguments.

    `answer` may return an awaitable, or raise. An empty text has no token to train on.
    """

    def __init__(self, answer: Callable[[dict[str, Any]], Any], *names: str) -> None:
        self.answer = answer
        self.servers = list(map(Server, names or ("one",)))
        self.requests: list[dict[str, Any]] = []

    async def completion(self, **arguments: Any) -> SimpleNamespace:
        self.requests.append(arguments)
        answer = self.answer(arguments)
        return reply_of(await answer if inspect.isawaitable(answer) else answer)


def reply_of(texts: Iterable[str]) -> SimpleNamespace:
    choices = [SimpleNamespace(text=text, finish_reason="stop" if text else "length") for text in texts]
    return SimpleNamespace(choices=choices)


class Client(InferenceClient):
    """A client that always asks with the same prompt."""

    prompt: Prompt

    async def ask(self, n: int = 1, timeouts: Timeouts = PATIENT) -> list[str]:
        return [rollout.text for rollout in await self.complete(self.prompt, n, SAMPLING, timeouts)]


MakeClient = Callable[[Any], Client]


@pytest.fixture
def make_client(chat: ChatFormat, tokenizer: Any) -> MakeClient:
    def make(manager: Any) -> Client:
        client = Client(lambda: manager, chat)
        client.prompt = chat.prompt(build_messages("", "1 + 1?"))
        return client

    return make


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(retries, "LONGEST_PAUSE_S", 0.002)
    monkeypatch.setattr(inference, "HEALTH_POLL_S", 0.01)


async def polled(server: Server, times: int = 20) -> None:
    """Wait until a server's health has been read that often."""
    before = server.polls
    await until(lambda: server.polls >= before + times)


class StatusError(Exception):
    def __init__(self, status_code: int) -> None:
        super().__init__(f"status {status_code}")
        self.status_code = status_code


async def silence(*_: object) -> list[str]:
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


def fail(*_: object) -> list[str]:
    raise ConnectionRefusedError(111, "Connection refused")


def in_turn(*replies: list[Any]) -> Callable[..., list[Any]]:
    left = list(replies)
    return lambda *_: left.pop(0) if len(left) > 1 else left[0]


# ---------------------------------------------------------------------------- requests


async def test_one_request_for_a_group(make_client: MakeClient) -> None:
    manager = Manager(in_turn(["a", "b"]))
    client = make_client(manager)
    assert await client.ask(2) == ["a", "b"]
    budget = SAMPLING.completion_budget(client.prompt)
    sampling = {"max_tokens": budget, "temperature": 0.7, "top_p": 0.9, "split": "train"}
    assert manager.requests == [{"prompt": client.prompt.text, "n": 2, **sampling}]


async def test_requests_until_the_group_is_full(make_client: MakeClient) -> None:
    manager = Manager(in_turn(["a"], [], [], ["b"], ["c", "a", "b"]))
    assert await make_client(manager).ask(3) == ["a", "b", "c"]
    assert [request["n"] for request in manager.requests] == [3, 2, 2, 2, 1]


async def test_unusable_completions_are_replaced(make_client: MakeClient, caplog: pytest.LogCaptureFixture) -> None:
    manager = Manager(in_turn(["a", ""], ["b"]))
    assert await make_client(manager).ask(2) == ["a", "b"]
    assert [record.levelname for record in caplog.records if record.levelno > logging.INFO] == ["WARNING"]


async def test_replies_without_completions_fail(make_client: MakeClient) -> None:
    manager = Manager(in_turn(["a"], []))
    with pytest.raises(ServerError, match="2 requests failed: UnusableReply"):
        await make_client(manager).ask(4, Timeouts(None, outage_s=600.0, tries=2))
    assert [request["n"] for request in manager.requests] == [4, 3, 3]


async def test_prompt_is_sent_as_tokens(make_client: MakeClient) -> None:
    manager = SimpleNamespace(tokens_and_logprobs_completion=AsyncMock(side_effect=StatusError(400)))
    client = make_client(manager)
    client.prompt = Prompt((), "the prompt", (1, 2, 3))
    with pytest.raises(ServerError):
        await client.ask()
    assert manager.tokens_and_logprobs_completion.call_args.kwargs["input_ids"] == [1, 2, 3]


# ---------------------------------------------------------------------------- outages and time limits


async def test_outage_is_waited_out(make_client: MakeClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "reasoning_env")
    manager = Manager(fail)
    client = make_client(manager)
    waiting = [asyncio.create_task(client.ask()) for _ in range(20)]
    await until(lambda: len(manager.requests) > 100)
    assert client.outage_s > 0
    manager.answer = in_turn(["2"])
    assert await asyncio.gather(*waiting) == [["2"]] * 20
    assert client.outage_s == 0
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "ConnectionRefusedError" in caplog.messages[0]


@pytest.fixture
def beside(make_client: MakeClient) -> Callable[..., Any]:
    """Asks for a prompt whose requests have the given outcome, each after another request has succeeded."""

    async def ask(outcome: Callable[..., Any], timeouts: Timeouts) -> tuple[Manager, Any]:
        async def answer(arguments: dict[str, Any]) -> list[str]:
            if arguments["prompt"] != "poison":
                return ["2"]
            await client.ask()
            texts = outcome()
            return await texts if inspect.isawaitable(texts) else texts

        manager = Manager(answer)
        client = make_client(manager)
        poisoned = Prompt((), "poison", client.prompt.tokens)
        return manager, asyncio.create_task(client.complete(poisoned, 1, SAMPLING, timeouts))

    return ask


async def test_failures_beside_successes(beside: Callable[..., Any]) -> None:
    manager, asking = await beside(fail, PATIENT)
    with pytest.raises(ServerError, match="ConnectionRefusedError"):
        await asking
    assert [request["prompt"] for request in manager.requests].count("poison") == MAX_REQUEST_FAILURES


async def test_timeout_beside_successes(beside: Callable[..., Any]) -> None:
    _manager, asking = await beside(silence, Timeouts(reply_s=0.05, outage_s=600.0))
    with pytest.raises(TimeoutError):
        await asking


async def test_unhealthy_servers(make_client: MakeClient) -> None:
    manager = Manager(silence, "one", "other")
    for server in manager.servers:
        server.healthy = False
    with pytest.raises(ServerError):
        await make_client(manager).ask(timeouts=Timeouts(None, outage_s=0.05))
    assert len(manager.requests) == 1


async def test_slow_healthy_server(make_client: MakeClient) -> None:
    released = asyncio.Event()

    async def slow(*_: object) -> list[str]:
        await released.wait()
        return ["2"]

    manager = Manager(slow)
    asking = asyncio.create_task(make_client(manager).ask(timeouts=Timeouts(None, outage_s=0.02)))
    await polled(manager.servers[0])
    released.set()
    assert await asking == ["2"]


async def test_cancelled_request(make_client: MakeClient) -> None:
    reply: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
    manager = Manager(lambda *_: reply)
    asking = asyncio.create_task(make_client(manager).ask())
    await until(lambda: manager.requests)
    asking.cancel()
    await asyncio.wait([asking])
    assert (asking.cancelled(), reply.cancelled()) == (True, True)


async def test_unhealthy_servers_are_named(make_client: MakeClient, caplog: pytest.LogCaptureFixture) -> None:
    manager = Manager(silence, "http://one", "http://other")
    watching = asyncio.create_task(make_client(manager).watch())
    manager.servers[0].healthy = False
    await polled(manager.servers[1])
    assert caplog.messages == []
    manager.servers[1].healthy = False
    await polled(manager.servers[1])
    [message] = caplog.messages
    assert all(server.config.base_url in message for server in manager.servers)
    watching.cancel()
    await asyncio.wait([watching])


# ---------------------------------------------------------------------------- stand-ins


def managing(*servers: Any) -> ServerManager:
    """Atropos' own manager with these servers."""
    manager = ServerManager([], server_class=VLLMServer)
    manager.servers = list(servers)
    return manager


class Tokens:
    """A stand-in with the method for tokens only."""

    async def tokens_and_logprobs_completion(self, **_: Any) -> Any:
        return [1, 2], [[7, 8]], [[-0.5, -0.25]], [{"type": "length"}]


class Text:
    """A stand-in with the method for text only."""

    async def completion(self, **_: Any) -> Any:
        return reply_of(["2"])


@pytest.mark.parametrize("place", [0, 1])
async def test_replaced_server(make_client: MakeClient, place: int) -> None:
    config = APIServerConfig(base_url="http://127.0.0.1:9/v1", api_key="x")
    manager = managing(OpenAIServer(config), OpenAIServer(config))
    client = make_client(manager)
    assert client.reply_kind is ReplyKind.TEXT
    manager.servers[place] = Text()
    assert await client.ask() == ["2"]


async def test_mock_replaces_a_server(make_client: MakeClient) -> None:
    manager = managing(OpenAIServer(APIServerConfig(base_url="http://127.0.0.1:9/v1", api_key="x")))
    client = make_client(manager)
    manager.servers[0] = AsyncMock()
    manager.servers[0].completion.return_value = reply_of(["mocked"])
    assert await client.ask() == ["mocked"]


class Chat:
    """A stand-in with the method for messages only."""

    async def chat_completion(self, *, messages: Any, n: int, **_: Any) -> Any:
        assert messages[-1]["role"] == "user"
        return create_chat_completion("2", n)


@pytest.mark.parametrize(
    ("stand_in", "kind"), [(Tokens(), ReplyKind.TOKENS), (Text(), ReplyKind.TEXT), (Chat(), ReplyKind.CHAT)]
)
@pytest.mark.parametrize("as_manager", [True, False])
async def test_stand_in_needs_one_method(
    make_client: MakeClient, stand_in: Any, kind: ReplyKind, as_manager: bool
) -> None:
    client = make_client(stand_in if as_manager else managing(stand_in))
    assert (client.reply_kind, client.healthy) == (kind, True)
    assert len(await client.ask()) == 1


@pytest.mark.parametrize(
    ("server_type", "kind"),
    [
        ("vllm", ReplyKind.TOKENS),
        ("sglang", ReplyKind.TOKENS),
        ("openai", ReplyKind.TEXT),
        ("chat", ReplyKind.CHAT),
    ],
)
def test_type_chooses_the_method(chat: ChatFormat, server_type: Any, kind: ReplyKind) -> None:
    (config,) = complete_servers([APIServerConfig(server_type=server_type)], "tokenizer")
    harness = managing(ServerHarness())
    expected = named_type(config).reply_kind
    assert expected is not None
    assert InferenceClient(lambda: harness, chat, expected_kind=expected).reply_kind is kind


# ---------------------------------------------------------------------------- options of requests


async def asked_with(chat: ChatFormat, **options: Any) -> dict[str, Any]:
    """Return the request that a text server got."""
    manager = Manager(lambda _: ["yes"])
    client = InferenceClient(lambda: manager, chat, **options)
    await client.complete(chat.prompt(build_messages("", "1 + 1?")), 1, SAMPLING, PATIENT)
    return manager.requests[0]


async def test_stop_after_answer(chat: ChatFormat) -> None:
    asked = await asked_with(chat, stop_after_answer=True)
    assert asked["stop"] == ["</answer>"]
    assert asked["extra_body"] == {"include_stop_str_in_output": True, "no_stop_trim": True}


async def test_no_stop_by_default(chat: ChatFormat) -> None:
    assert {"stop", "extra_body"}.isdisjoint(await asked_with(chat))


async def test_special_tokens_of_thinking(tokenizer: Any) -> None:
    marks = ("[THINK]", "[/THINK]")
    native = ChatFormat(tokenizer_with(tokenizer, tokenizer.chat_template, more=marks), "magistral")
    assert (await asked_with(native))["extra_body"] == {"skip_special_tokens": False}
