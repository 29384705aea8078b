"""Request completions from mock servers and custom server classes through the methods of APIServer."""

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
from atroposlib.envs.server_handling.server_baseline import APIServer, APIServerConfig
from atroposlib.envs.server_handling.server_harness import ServerHarness, create_chat_completion
from atroposlib.envs.server_handling.server_manager import ServerManager
from atroposlib.envs.server_handling.vllm_server import VLLMServer

from reasoning_env.atropos.servers import Completers
from reasoning_env.errors import ServerError
from reasoning_env.inference.failures import MAX_REQUEST_FAILURES, Timeouts
from reasoning_env.inference.formats.reply_format import ReplyKind
from reasoning_env.inference.served_model import ServedModel
from reasoning_env.inference.server import RequestOptions
from reasoning_env.prompts.chat_format import ChatFormat
from reasoning_env.prompts.messages import build_messages
from reasoning_env.records import Prompt
from reasoning_env.runtime import retries
from tests.chat_templates import tokenizer_with
from tests.records import SAMPLING
from tests.waiting import until

from .conftest import managed

PATIENT = Timeouts(reply_s=None, outage_s=600.0)


class Manager:
    """Answers a request with the strings that `answer` returns for the request's arguments.

    `answer` may return an awaitable, or raise. An empty string has no token to train on.
    """

    def __init__(self, answer: Callable[[dict[str, Any]], Any]) -> None:
        self.answer = answer
        self.requests: list[dict[str, Any]] = []

    async def completion(self, **arguments: Any) -> SimpleNamespace:
        self.requests.append(arguments)
        answer = self.answer(arguments)
        return reply_of(await answer if inspect.isawaitable(answer) else answer)


def reply_of(texts: Iterable[str]) -> SimpleNamespace:
    choices = [SimpleNamespace(text=text, finish_reason="stop" if text else "length") for text in texts]
    return SimpleNamespace(choices=choices)


class Client:
    """The model behind a manager; every request uses the same prompt."""

    def __init__(self, manager: Any, chat: ChatFormat) -> None:
        self.timeouts = PATIENT
        completers = Completers(lambda: manager, None)
        options = RequestOptions(stop_after_answer=False)
        self.model = ServedModel(completers, chat, options, lambda: self.timeouts, model="m")
        self.prompt = chat.prompt(build_messages("", "1 + 1?"))

    async def ask(self, n: int = 1, timeouts: Timeouts = PATIENT, prompt: Prompt | None = None) -> list[str]:
        self.timeouts = timeouts
        return [rollout.text for rollout in await self.model.complete(prompt or self.prompt, n, SAMPLING)]


MakeClient = Callable[[Any], Client]


@pytest.fixture
def make_client(chat: ChatFormat) -> MakeClient:
    return lambda manager: Client(manager, chat)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(retries, "LONGEST_PAUSE_S", 0.002)


class StatusError(Exception):
    def __init__(self, status_code: int) -> None:
        super().__init__(f"status {status_code}")
        self.status_code = status_code


async def silence(*_: object) -> list[str]:
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


def fail(*_: object) -> list[str]:
    raise ConnectionRefusedError(111, "Connection refused")


def break_off(*_: object) -> list[str]:
    raise ConnectionResetError(104, "Connection reset by peer")


def in_turn(*replies: list[Any]) -> Callable[..., list[Any]]:
    left = list(replies)
    return lambda *_: left.pop(0) if len(left) > 1 else left[0]


# ---------------------------------------------------------------------------- requests


async def test_completions_of_a_group_are_requested_in_one_call(make_client: MakeClient) -> None:
    manager = Manager(in_turn(["a", "b"]))
    client = make_client(manager)
    assert await client.ask(2) == ["a", "b"]
    budget = SAMPLING.completion_budget(client.prompt)
    sampling = {"max_tokens": budget, "temperature": 0.7, "top_p": 0.9, "split": "train"}
    assert manager.requests == [{"prompt": client.prompt.text, "n": 2, **sampling}]


async def test_completions_missing_from_a_reply_are_requested_again(make_client: MakeClient) -> None:
    manager = Manager(in_turn(["a"], [], [], ["b"], ["c", "a", "b"]))
    assert await make_client(manager).ask(3) == ["a", "b", "c"]
    assert [request["n"] for request in manager.requests] == [3, 2, 2, 2, 1]


async def test_unusable_completions_are_requested_again(
    make_client: MakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    manager = Manager(in_turn(["a", ""], ["b"]))
    assert await make_client(manager).ask(2) == ["a", "b"]
    assert [record.levelname for record in caplog.records if record.levelno > logging.INFO] == ["WARNING"]


async def test_replies_without_completions_raise_after_the_last_try(make_client: MakeClient) -> None:
    manager = Manager(in_turn(["a"], []))
    with pytest.raises(ServerError, match="a group's request failed 2 times: UnusableCompletion"):
        await make_client(manager).ask(4, Timeouts(None, outage_s=600.0, tries=2))
    assert [request["n"] for request in manager.requests] == [4, 3, 3]


async def test_prompt_is_sent_as_token_ids(make_client: MakeClient) -> None:
    manager = SimpleNamespace(tokens_and_logprobs_completion=AsyncMock(side_effect=StatusError(400)))
    client = make_client(manager)
    client.prompt = Prompt((), "the prompt", (1, 2, 3))
    with pytest.raises(ServerError):
        await client.ask()
    assert manager.tokens_and_logprobs_completion.call_args.kwargs["input_ids"] == [1, 2, 3]


# ---------------------------------------------------------------------------- outages and time limits


async def test_requests_are_retried_through_an_outage(
    make_client: MakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "reasoning_env")
    manager = Manager(fail)
    client = make_client(manager)
    waiting = [asyncio.create_task(client.ask()) for _ in range(20)]
    await until(lambda: len(manager.requests) > 100)
    assert client.model.outage_s > 0
    manager.answer = in_turn(["2"])
    assert await asyncio.gather(*waiting) == [["2"]] * 20
    assert client.model.outage_s == 0
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "ConnectionRefusedError" in caplog.messages[0]


@pytest.fixture
def beside(make_client: MakeClient) -> Callable[..., Any]:
    """Requests a prompt whose attempts all have the given outcome.

    Before each attempt, a request for another prompt succeeds.
    """

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
        return manager, asyncio.create_task(client.ask(1, timeouts, poisoned))

    return ask


async def test_request_that_fails_repeatedly_raises_if_other_requests_succeed(beside: Callable[..., Any]) -> None:
    manager, asking = await beside(break_off, PATIENT)
    with pytest.raises(ServerError, match="ConnectionResetError"):
        await asking
    assert [request["prompt"] for request in manager.requests].count("poison") == MAX_REQUEST_FAILURES


async def test_timeout_is_raised_without_a_retry_if_other_requests_succeed(beside: Callable[..., Any]) -> None:
    _manager, asking = await beside(silence, Timeouts(reply_s=0.05, outage_s=600.0))
    with pytest.raises(TimeoutError):
        await asking


async def test_cancelling_a_request_cancels_the_server_call(make_client: MakeClient) -> None:
    reply: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
    manager = Manager(lambda *_: reply)
    asking = asyncio.create_task(make_client(manager).ask())
    await until(lambda: manager.requests)
    asking.cancel()
    await asyncio.wait([asking])
    assert (asking.cancelled(), reply.cancelled()) == (True, True)


# ---------------------------------------------------------------------------- stand-ins


def managing(*servers: Any) -> ServerManager:
    """Return Atropos' own manager for these servers."""
    manager = ServerManager([], server_class=VLLMServer)
    manager.servers = list(servers)
    return manager


class Tokens:
    """A stand-in server that has only the method for tokens."""

    async def tokens_and_logprobs_completion(self, **_: Any) -> Any:
        return [1, 2], [[7, 8]], [[-0.5, -0.25]], [{"type": "length"}]


class Text:
    """A stand-in server that has only the method for text."""

    async def completion(self, **_: Any) -> Any:
        return reply_of(["2"])


@pytest.mark.parametrize("place", [0, 1])
async def test_requests_go_to_the_new_server_after_the_old_server_is_replaced(
    make_client: MakeClient, place: int
) -> None:
    config = APIServerConfig(server_type="openai", base_url="http://127.0.0.1:9/v1", api_key="x")
    manager = managing(OpenAIServer(config), OpenAIServer(config))
    client = make_client(manager)
    assert client.model.reply_kind is ReplyKind.TEXT
    manager.servers[place] = Text()
    assert await client.ask() == ["2"]


async def test_async_mock_can_stand_in_for_an_inference_server(chat: ChatFormat) -> None:
    manager = managing(OpenAIServer(APIServerConfig(base_url="http://127.0.0.1:9/v1", api_key="x")))
    model = managed(manager, chat, expected=ReplyKind.TEXT)
    manager.servers[0] = AsyncMock()
    manager.servers[0].completion.return_value = reply_of(["mocked"])
    [rollout] = await model.complete(chat.prompt(build_messages("", "1 + 1?")), 1, SAMPLING)
    assert rollout.text == "mocked"


class Chat:
    """A stand-in server that has only the method for chat messages."""

    async def chat_completion(self, *, messages: Any, n: int, **_: Any) -> Any:
        assert messages[-1]["role"] == "user"
        return create_chat_completion("2", n)


@pytest.mark.parametrize(
    ("stand_in", "kind"), [(Tokens(), ReplyKind.TOKENS), (Text(), ReplyKind.TEXT), (Chat(), ReplyKind.CHAT)]
)
@pytest.mark.parametrize("as_manager", [True, False])
async def test_fake_server_needs_only_one_of_the_completion_methods(
    make_client: MakeClient, stand_in: Any, kind: ReplyKind, as_manager: bool
) -> None:
    client = make_client(stand_in if as_manager else managing(stand_in))
    assert client.model.reply_kind is kind
    assert len(await client.ask()) == 1


@pytest.mark.parametrize("kind", ReplyKind)
def test_mock_server_has_the_reply_kind_that_the_environment_expects(chat: ChatFormat, kind: ReplyKind) -> None:
    assert managed(managing(ServerHarness()), chat, expected=kind).reply_kind is kind


async def test_mock_of_a_server_class_can_replace_a_server(make_client: MakeClient) -> None:
    manager = managing(OpenAIServer(APIServerConfig(base_url="http://127.0.0.1:9/v1", api_key="x")))
    manager.servers[0] = AsyncMock(spec=APIServer)
    manager.servers[0].tokens_and_logprobs_completion.return_value = ([1, 2], [[7, 8]], [[-0.5, -0.25]], ["length"])
    assert len(await make_client(manager).ask()) == 1


# ---------------------------------------------------------------------------- options of requests


async def asked_with(chat: ChatFormat, **options: Any) -> dict[str, Any]:
    """Return the request that a text server received."""
    manager = Manager(lambda _: ["yes"])
    model = managed(manager, chat, options=RequestOptions(**options))
    await model.complete(chat.prompt(build_messages("", "1 + 1?")), 1, SAMPLING)
    return manager.requests[0]


async def test_stop_string_is_sent_if_the_setting_stop_after_answer_is_on(chat: ChatFormat) -> None:
    asked = await asked_with(chat, stop_after_answer=True)
    assert asked["stop"] == ["</answer>"]
    assert asked["extra_body"] == {"include_stop_str_in_output": True, "no_stop_trim": True}


async def test_stop_string_is_not_sent_if_the_setting_stop_after_answer_is_off(chat: ChatFormat) -> None:
    assert {"stop", "extra_body"}.isdisjoint(await asked_with(chat, stop_after_answer=False))


async def test_server_is_asked_to_keep_special_tokens_if_special_tokens_mark_thinking(tokenizer: Any) -> None:
    marks = ("[THINK]", "[/THINK]")
    native = ChatFormat(tokenizer_with(tokenizer, tokenizer.chat_template, more=marks), "magistral")
    asked = await asked_with(native, stop_after_answer=False, keep_special_tokens=native.hides_thinking)
    assert asked["extra_body"] == {"skip_special_tokens": False}
