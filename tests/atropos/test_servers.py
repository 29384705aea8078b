"""Atropos' servers over real HTTP: detection, tokenizers, settings, requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from aiohttp import web
from atroposlib.envs.server_handling.server_baseline import APIServer, APIServerConfig, ServerBaseline
from atroposlib.envs.server_handling.server_manager import ServerManager

from reasoning_env.atropos.config import ServerConfig, complete_servers, named_format
from reasoning_env.atropos.launch import choose_server_class
from reasoning_env.atropos.servers import AtroposServer
from reasoning_env.errors import ConfigError, ServerError
from reasoning_env.inference.failures import Timeouts
from reasoning_env.inference.formats import REPLY_FORMATS, tokens
from reasoning_env.inference.formats.reply_format import ReplyError, ReplyFormat, ReplyKind
from reasoning_env.inference.served_model import ServedModel
from reasoning_env.prompts.chat_format import ChatFormat
from reasoning_env.prompts.messages import build_messages
from reasoning_env.records import Prompt, Sampling
from reasoning_gym_testing import GenerationRequest, InferenceServer, respond
from reasoning_gym_testing.http_server import Handler
from tests.chat_templates import tokenizer_with

from .conftest import Manage, managed

Found = Callable[..., Awaitable[ServedModel]]


@pytest.fixture
def found(manage: Manage, chat: ChatFormat) -> Found:
    """Returns the model of servers with type auto, after the environment has checked the servers."""

    async def find(*servers: InferenceServer) -> ServedModel:
        model = managed(manage(*(server.config("auto") for server in servers)), chat)
        await model.check(5.0)
        return model

    return find


@pytest.mark.parametrize(
    ("paths", "name"),
    [
        (["/generate", "/v1/completions"], "vllm"),
        (["/v1/completions", "/v1/chat/completions"], "completions"),
        (["/v1/chat/completions"], "chat"),
    ],
)
async def test_server_type_auto_selects_the_most_capable_supported_type(
    found: Found, paths: Sequence[str], name: str
) -> None:
    async with InferenceServer(paths=paths) as server:
        model = await found(server)
    assert model.server_type == name


async def check_reading(manager: ServerManager, tokenizer: Any) -> None:
    """Check servers in an environment with this tokenizer."""
    model = managed(manager, ChatFormat(tokenizer, "mine"))
    await model.check(5.0)
    await model.check_tokenizer()


KINDS = ["auto", *(each.name for each in REPLY_FORMATS if each.kind is ReplyKind.TOKENS)]


@pytest.mark.parametrize("kind", KINDS)
async def test_tokenizer_check_passes_if_the_tokenizer_matches_the_server(
    manage: Manage, kind: str, tokenizer: Any
) -> None:
    async with InferenceServer() as server:
        await check_reading(manage(server.config(kind)), tokenizer)


@pytest.mark.parametrize("kind", KINDS)
async def test_wrong_tokenizer_raises_a_one_line_error(manage: Manage, kind: str, tokenizer: Any) -> None:
    other = tokenizer_with(tokenizer, tokenizer.chat_template, more=("a", "e"))
    async with InferenceServer() as server:
        with pytest.raises(
            ConfigError, match=r"env\.tokenizer_name: 'mine' is not the tokenizer of .* at http"
        ) as raised:
            await check_reading(manage(server.config(kind)), other)
    assert "\n" not in str(raised.value)


async def test_tokenizer_check_accepts_a_server_that_refuses_text_prompts(manage: Manage, tokenizer: Any) -> None:
    async with InferenceServer() as server:
        server.fail(respond(400), only=lambda request, body: b'"text"' in body)
        await check_reading(manage(server.config("sglang")), tokenizer)


async def test_server_that_offers_no_known_route_raises_a_one_line_error(found: Found) -> None:
    async with InferenceServer(paths=[]) as server:
        with pytest.raises(ServerError, match=r"openai\.base_url") as raised:
            await found(server)
    assert "\n" not in str(raised.value)
    assert server.url in str(raised.value)


async def test_all_servers_use_the_reply_format_that_every_one_of_them_supports(found: Found) -> None:
    async with InferenceServer() as whole, InferenceServer(paths=["/v1/chat/completions"]) as chats:
        assert (await found(whole, chats)).reply_kind is ReplyKind.CHAT


# ---------------------------------------------------------------------------- settings


def config(server_type: str = "openai", **fields: Any) -> ServerConfig:
    return ServerConfig(server_type=server_type, base_url="http://127.0.0.1:9/v1", model_name="m", **fields)


@pytest.mark.parametrize("configs", [[config("vllm"), config("openai")], []])
def test_config_with_no_servers_or_different_server_types_raises(configs: list[ServerConfig]) -> None:
    with pytest.raises(ConfigError, match="server_type"):
        complete_servers(configs, "tokenizer")


def test_server_config_without_a_tokenizer_gets_the_default_tokenizer() -> None:
    bare, own = complete_servers([config(), config(tokenizer_name="own", api_key="secret")], "tokenizer")  # type: ignore[misc]
    assert (bare.tokenizer_name, own.tokenizer_name, own.api_key) == ("tokenizer", "own", "secret")


def test_fields_of_an_atropos_server_config_become_server_settings() -> None:
    settings = AtroposServer(config("chat", stream="always", headers={"a": "b"}, timeout=7)).server.settings
    assert (settings.stream, settings.headers, settings.timeout) == ("always", {"a": "b"}, 7)
    assert AtroposServer(APIServerConfig(base_url="http://a/v1", model_name="a")).server.address == "http://a/v1"


def test_server_without_model_name_gets_the_default_name() -> None:
    [server] = complete_servers([ServerConfig()], "tokenizer")  # type: ignore[misc]
    assert server.model_name == APIServerConfig().model_name


def test_server_baseline_config_of_atropos_is_used_unchanged() -> None:
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
def test_api_key_is_read_from_an_environment_variable(
    server_type: str, given: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "from-variable")
    monkeypatch.setenv("MY_KEY", "mine")
    [completed] = complete_servers([config(server_type, api_key=given)], "tokenizer")  # type: ignore[misc]
    assert completed.api_key == key


@pytest.mark.parametrize("server_type", ["completions", "chat"])
async def test_configured_headers_and_the_query_string_of_the_base_url_are_sent(
    manage: Manage, chat: ChatFormat, server_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_KEY", "azure-key")
    monkeypatch.setenv("OPENAI_API_KEY", "of another server")
    seen = []

    async def watch(request: web.Request, handler: Handler) -> web.StreamResponse:
        seen.append((request.path_qs, request.headers.get("api-key"), request.headers.get("Authorization")))
        return await handler(request)

    async with InferenceServer() as server:
        server.fail(watch)
        given = server.config(server_type, api_key="", headers={"api-key": "$AZURE_KEY"})
        given.base_url += "?api-version=1"
        await managed(manage(*complete_servers([given], "tokenizer")), chat).check(5.0)  # type: ignore[misc]
    path = "/v1/completions" if server_type == "completions" else "/v1/chat/completions"
    assert seen == [(f"{path}?api-version=1", "azure-key", None)]


@pytest.mark.parametrize("row", REPLY_FORMATS, ids=lambda row: row.name)
def test_each_server_type_selects_the_matching_reply_format(row: ReplyFormat) -> None:
    assert named_format(config(row.name)) is row


def test_reply_format_is_unknown_if_the_server_config_has_only_defaults() -> None:
    assert named_format(APIServerConfig()) is None


def test_unknown_server_type_raises() -> None:
    with pytest.raises(ValueError, match="must be one of auto, vllm"):
        config("vlm")


def test_server_type_that_only_atropos_supports_raises() -> None:
    with pytest.raises(ConfigError, match=r"openai\.server_type: must be one of auto, vllm"):
        complete_servers(APIServerConfig(server_type="trl"), "tokenizer")


@pytest.mark.parametrize("row", REPLY_FORMATS, ids=lambda row: row.name)
def test_servers_that_atropos_creates_use_the_server_type_of_the_config(row: ReplyFormat) -> None:
    """Atropos creates configs of local and Slurm servers without a server type."""
    make = choose_server_class(APIServer, [config(row.name)])
    assert make(APIServerConfig(base_url="http://127.0.0.1:9/v1")).server.format is row


# ---------------------------------------------------------------------------- requests


def filters(body: dict[str, Any]) -> dict[str, Any]:
    """Return the sampling filters and penalties of a request. Without them, a model's own defaults would apply."""
    return {name: value for name, value in body.items() if "penalty" in name or name in ("top_k", "min_p")}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("split", ["train", "eval"])
async def test_training_requests_disable_top_k_min_p_and_penalties(
    manage: Manage, kind: str, split: str, tokenizer: Any
) -> None:
    asked: list[dict[str, Any]] = []

    def note(request: web.Request, body: bytes) -> bool:
        if body:
            asked.append(json.loads(body))
        return False

    async with InferenceServer() as server:
        server.fail(respond(500), only=note)
        manager, chat = manage(server.config(kind)), ChatFormat(tokenizer, "mine")
        model = managed(manager, chat, timeouts=Timeouts(None, 5.0))
        sampling = Sampling(temperature=1.0, top_p=1.0, token_limit=512, split=split)
        await model.complete(model.prompt(build_messages("", "1 + 1 =")), 2, sampling)
    no_filters = {"top_k": -1, "min_p": 0.0}
    no_filters |= {"repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
    plain = [body.get("sampling_params", body) for body in asked]
    [of_group] = [body for body in plain if body.get("n") == 2]
    assert filters(of_group) == (no_filters if split == "train" else {})


async def test_concurrent_chat_requests_are_limited(manage: Manage) -> None:
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
        model = managed(manager)
        sampling = Sampling(temperature=1.0, top_p=1.0, token_limit=512, split="eval")
        await model.complete(model.prompt(build_messages("", "1 + 1 =")), 6, sampling)
    assert most == 2


async def ask_once(manager: ServerManager) -> None:
    server = manager.servers[0].server
    await server.ask(server.format, Prompt((), "", (5, 6)), {"n": 1, "max_tokens": 1})


async def test_request_raises_if_its_reply_stalls_midway(manage: Manage, monkeypatch: pytest.MonkeyPatch) -> None:
    async def stop_on_the_way(request: web.Request, _handler: Handler) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"text": [')
        await asyncio.Event().wait()
        return response

    monkeypatch.setattr(tokens, "REPLY_STALL_S", 0.05)
    async with InferenceServer() as server:
        server.fail(stop_on_the_way)
        manager = manage(server.config("vllm"))
        with pytest.raises(ReplyError, match="the server sent 10 bytes"):
            await ask_once(manager)


@pytest.mark.parametrize("way", ["chunked", "compressed"])
async def test_chunked_and_compressed_replies_are_read(manage: Manage, way: str) -> None:
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
        await ask_once(manager)


async def test_server_manager_returns_tokens_and_logprobs_to_atropos_as_lists(manage: Manage) -> None:
    async with InferenceServer() as server:
        manager = manage(server.config("completions"))
        prompt, ids, logprobs, reasons = await manager.tokens_and_logprobs_completion(
            prompt="", input_ids=[5, 6], n=2, max_tokens=9
        )
    assert (prompt, len(reasons)) == ([5, 6], 2)
    assert {type(one) for one in [*ids, *logprobs]} == {list}
    assert {type(one) for one in [*ids[0], *logprobs[0]]} == {int, float}


async def test_managed_server_of_atropos_records_log_probabilities(manage: Manage) -> None:
    async with (
        InferenceServer(lambda request: ["2"] * request.n) as server,
        manage(server.config("auto")).managed_server() as managing,
    ):
        await managing.completion(prompt="1 + 1 =", n=2, max_tokens=9)
        nodes = managing.get_state()["nodes"]
    assert [node.logprobs[-1] <= 0 for node in nodes] == [True, True]


async def test_request_metrics_of_atropos_are_reported(manage: Manage) -> None:
    async with InferenceServer() as server:
        manager = manage(server.config("chat"))
        model = managed(manager)
        sampling = Sampling(temperature=1.0, top_p=1.0, token_limit=512, split="eval")
        await model.complete(model.prompt(build_messages("", "1 + 1 =")), 2, sampling)
    metrics = await manager.servers[0].wandb_metrics({}, "server_0")
    assert metrics["server/server_0_eval_request_time_avg"] > 0
    assert metrics["server/server_0_eval_retry_rate"] == 1


async def test_no_request_is_sent_to_the_servers_while_the_inference_weight_is_0(manage: Manage) -> None:
    manager = manage(config("chat"))
    await manager.update_weight(0.0)
    assert all(server.sem.locked() for server in manager.servers)
