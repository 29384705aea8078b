"""The table of servers, and servers of its classes over real HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import aiohttp
import numpy as np
import pytest
from aiohttp import web
from atroposlib.envs.server_handling.server_baseline import APIServerConfig, ServerBaseline
from atroposlib.envs.server_handling.server_manager import ServerManager

from reasoning_env.atropos.inference import replies
from reasoning_env.atropos.inference.client import InferenceClient
from reasoning_env.atropos.inference.replies import ReplyError
from reasoning_env.atropos.inference.server_checks import check_servers, check_tokenizer
from reasoning_env.atropos.inference.servers import (
    SERVER_TYPES,
    ChatServer,
    ReplyKind,
    ServerType,
    ask_for_one_token,
    complete_servers,
    named_type,
    shared_reply_kind,
    type_of,
)
from reasoning_env.errors import ConfigError, ServerError
from reasoning_env.inference.chat import PlainChat
from reasoning_env.prompts.chat_format import ChatFormat
from reasoning_env.prompts.messages import build_messages
from reasoning_env.records import Sampling, Timeouts
from reasoning_gym_testing import GenerationRequest, InferenceServer, respond
from reasoning_gym_testing.http_server import Handler, cut_reply
from tests.chat_templates import tokenizer_with

from .conftest import Manage

Found = Callable[..., Awaitable[list[Any]]]


@pytest.fixture
def found(manage: Manage) -> Found:
    """Returns servers of type auto after an environment's check."""

    async def find(*servers: InferenceServer) -> list[Any]:
        manager = manage(*(server.config("auto") for server in servers))
        await check_servers(manager.servers, 5.0)
        return list(manager.servers)

    return find


@pytest.mark.parametrize(
    ("paths", "name"),
    [
        (["/generate", "/v1/completions"], "vllm"),
        (["/v1/completions", "/v1/chat/completions"], "completions"),
        (["/v1/chat/completions"], "chat"),
    ],
)
async def test_best_type_is_found(found: Found, paths: Sequence[str], name: str) -> None:
    async with InferenceServer(paths=paths) as server:
        [one] = await found(server)
    assert type_of(one).name == name


async def check_reading(manager: ServerManager, tokenizer: Any) -> None:
    """Check servers in an environment with this tokenizer."""
    await check_servers(manager.servers, 5.0)
    await check_tokenizer(manager.servers, ChatFormat(tokenizer, "mine"))


KINDS = ["auto", *(row.name for row in SERVER_TYPES if row.protocol is not None)]


@pytest.mark.parametrize("kind", KINDS)
async def test_own_tokenizer_passes(manage: Manage, kind: str, tokenizer: Any) -> None:
    async with InferenceServer() as server:
        await check_reading(manage(server.config(kind)), tokenizer)


@pytest.mark.parametrize("kind", KINDS)
async def test_wrong_tokenizer_is_one_line(manage: Manage, kind: str, tokenizer: Any) -> None:
    other = tokenizer_with(tokenizer, tokenizer.chat_template, more=("a", "e"))
    async with InferenceServer() as server:
        with pytest.raises(
            ConfigError, match=r"env\.tokenizer_name: 'mine' is not the tokenizer of .* at http"
        ) as raised:
            await check_reading(manage(server.config(kind)), other)
    assert "\n" not in str(raised.value)


async def test_server_without_a_reading_passes(manage: Manage, tokenizer: Any) -> None:
    async with InferenceServer() as server:
        server.fail(respond(400), only=lambda request, body: b'"text"' in body)
        await check_reading(manage(server.config("sglang")), tokenizer)


async def test_useless_server_is_one_line(found: Found) -> None:
    async with InferenceServer(paths=[]) as server:
        with pytest.raises(ServerError, match=r"openai\.base_url") as raised:
            await found(server)
    assert "\n" not in str(raised.value)
    assert server.url in str(raised.value)


async def test_https_before_a_server_of_http(found: Found) -> None:
    async with InferenceServer() as server:
        server.url = server.url.replace("http:", "https:")
        with pytest.raises(ServerError, match=r"speak http, not https\?\); write http:// in openai.base_url$"):
            await found(server)


async def test_worst_of_several_kinds(found: Found) -> None:
    async with InferenceServer() as whole, InferenceServer(paths=["/v1/chat/completions"]) as chats:
        assert shared_reply_kind(await found(whole, chats)) is ReplyKind.CHAT


# ---------------------------------------------------------------------------- settings


def config(server_type: str = "openai", **fields: Any) -> APIServerConfig:
    return APIServerConfig(server_type=server_type, base_url="http://127.0.0.1:9/v1", model_name="m", **fields)


@pytest.mark.parametrize("configs", [[config("vllm"), config("openai")], []])
def test_servers_have_one_type(configs: list[APIServerConfig]) -> None:
    with pytest.raises(ConfigError, match="server_type"):
        complete_servers(configs, "tokenizer")


def test_default_tokenizer() -> None:
    bare, own = complete_servers([config(), config(tokenizer_name="own", api_key="secret")], "tokenizer")  # type: ignore[misc]
    assert (bare.tokenizer_name, own.tokenizer_name, own.api_key) == ("tokenizer", "own", "secret")


def test_baseline_stays_a_baseline() -> None:
    assert type(complete_servers(ServerBaseline(), "tokenizer")) is ServerBaseline


@pytest.mark.parametrize(
    ("server_type", "given", "key"),
    [
        ("chat", "", "from-variable"),
        ("chat", "x", "from-variable"),
        ("chat", "own", "own"),
        ("openai", "$MY_KEY", "mine"),
        ("openai", "", "x"),
    ],
)
def test_key_from_the_environment(server_type: str, given: str, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "from-variable")
    monkeypatch.setenv("MY_KEY", "mine")
    [completed] = complete_servers([config(server_type, api_key=given)], "tokenizer")  # type: ignore[misc]
    assert completed.api_key == key


async def test_health_of_chat_server_costs_no_request() -> None:
    async with InferenceServer() as server:
        chat = ChatServer(server.config("chat"))
        await chat.check_server_status_task()
        await chat.openai.close()
    assert chat.server_healthy
    assert not server.requests


@pytest.mark.parametrize("row", SERVER_TYPES, ids=lambda row: row.name)
def test_settings_name_each_type(row: ServerType) -> None:
    assert named_type(config(row.name)) is row


def test_unnamed_type_is_auto() -> None:
    assert named_type(APIServerConfig()).name == "auto"


@pytest.mark.parametrize("row", SERVER_TYPES, ids=lambda row: row.name)
def test_class_tells_the_type(row: ServerType) -> None:
    """Atropos makes the settings of local and of Slurm's servers itself, without a type."""
    server = object.__new__(row.server_class)
    server.config = APIServerConfig()
    assert type_of(server) is row


# ---------------------------------------------------------------------------- requests


def filters(body: dict[str, Any]) -> dict[str, Any]:
    """Return the filters and penalties of a request; a model may have defaults of its own."""
    return {name: value for name, value in body.items() if "penalty" in name or name in ("top_k", "min_p")}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("split", ["train", "eval"])
async def test_training_has_no_filters(manage: Manage, kind: str, split: str, tokenizer: Any) -> None:
    asked: list[dict[str, Any]] = []

    def note(request: web.Request, body: bytes) -> bool:
        if body:
            asked.append(json.loads(body))
        return False

    async with InferenceServer() as server:
        server.fail(respond(500), only=note)
        manager, chat = manage(server.config(kind)), ChatFormat(tokenizer, "mine")
        client = InferenceClient(lambda: manager, chat)
        sampling = Sampling(temperature=1.0, top_p=1.0, token_limit=512, split=split)
        await client.complete(chat.prompt(build_messages("", "1 + 1 =")), 2, sampling, Timeouts(None, 5.0))
    no_filters = {"top_k": -1, "min_p": 0.0}
    no_filters |= {"repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
    plain = [body.get("sampling_params", body) for body in asked]
    [of_group] = [body for body in plain if body.get("n") == 2]
    assert filters(of_group) == (no_filters if split == "train" else {})


async def test_chat_requests_have_a_limit(manage: Manage) -> None:
    under_way, most = 0, 0

    async def answer(request: GenerationRequest) -> list[str]:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.01)
        under_way -= 1
        return ["2"] * request.n

    async with InferenceServer(answer) as server:
        manager = manage(server.config("chat").model_copy(update={"num_requests_for_eval": 2}))
        client, chat = InferenceClient(lambda: manager, PlainChat()), PlainChat()
        sampling = Sampling(temperature=1.0, top_p=1.0, token_limit=512, split="eval")
        await client.complete(chat.prompt(build_messages("", "1 + 1 =")), 6, sampling, Timeouts(None, 5.0))
    assert most == 2


async def test_stalled_reply(manage: Manage, monkeypatch: pytest.MonkeyPatch) -> None:
    async def stop_on_the_way(request: web.Request, _handler: Handler) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"text": [')
        await asyncio.Event().wait()
        return response

    monkeypatch.setattr(replies, "REPLY_STALL_S", 0.05)
    async with InferenceServer() as server:
        server.fail(stop_on_the_way)
        manager = manage(server.config("vllm"))
        with pytest.raises(ReplyError, match="stopped after 10 bytes"):
            await ask_for_one_token(manager.servers[0], type_of(manager.servers[0]), {})


async def test_cut_connection(manage: Manage) -> None:
    async with InferenceServer() as server:
        server.fail(cut_reply)
        manager = manage(server.config("completions"))
        with pytest.raises((ReplyError, aiohttp.ClientError)):
            await ask_for_one_token(manager.servers[0], type_of(manager.servers[0]), {})


@pytest.mark.parametrize("way", ["chunked", "compressed"])
async def test_reply_of_unknown_length(manage: Manage, way: str) -> None:
    async def send_so(request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await handler(request)
        assert isinstance(response, web.Response)
        if way == "chunked":
            response.enable_chunked_encoding()
        else:
            response.enable_compression(web.ContentCoding.gzip)
        return response

    async with InferenceServer() as server:
        server.fail(send_so)
        manager = manage(server.config("vllm"))
        await ask_for_one_token(manager.servers[0], type_of(manager.servers[0]), {})


@pytest.mark.parametrize("arrays", [True, False])
async def test_arrays_on_demand(manage: Manage, arrays: bool) -> None:
    async with InferenceServer() as server:
        manager = manage(server.config("completions"))
        asked = {"arrays": True} if arrays else {}
        prompt, ids, logprobs, reasons = await manager.tokens_and_logprobs_completion(
            prompt="", input_ids=[5, 6], n=2, max_tokens=9, **asked
        )
    assert (prompt, len(reasons)) == ([5, 6], 2)
    assert {type(one) for one in [*ids, *logprobs]} == {np.ndarray if arrays else list}
