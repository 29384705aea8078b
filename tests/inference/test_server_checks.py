"""The check of an inference server at the start, and what a client reads from the server about its model."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from unittest.mock import AsyncMock

import pytest

from reasoning_env.commands.evaluate import only_model
from reasoning_env.errors import ConfigError, ReasoningEnvError, ServerError
from reasoning_env.inference import addresses
from reasoning_env.inference import server as module
from reasoning_env.inference.completer import ServerSettings

from .chat_server import REPLY, ScriptedServer, client, refusal


async def test_localhost_bypasses_the_proxy(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    async with client(server) as model:
        await model.check(5.0)


@pytest.mark.parametrize("length", [-1, 0, 10**30, True, "4096", None])
async def test_context_length_out_of_range_is_treated_as_unknown(server: ScriptedServer, length: object) -> None:
    server.models = {"data": [{"id": "m", "max_model_len": length}]}
    async with client(server) as model:
        assert await model.context_lengths() == [None]


JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            (401, refusal("Incorrect API key"), {}),
            r"it refuses POST .*\(StatusError: 401 Incorrect .*\); check .*key",
        ),
        (
            (404, refusal("no model m"), {}),
            r"does not answer .*404 no model m\); check openai.model_name",
        ),
        (
            (429, refusal("Rate limit"), {"Retry-After": "120"}),
            "StatusError: 429 Rate limit; the server asks to wait 120 s",
        ),
        ((429, "", {"Retry-After": "Wed, 21 Oct 2099 07:28:00 GMT"}), "429 Too Many Requests; .* asks to wait 3600 s"),
        (
            (429, json.dumps({"error": {"message": "No credit", "code": "insufficient_quota"}}), {}),
            r"it refuses POST .*429 No credit\); check openai.api_key, or the quota",
        ),
        ((503, "", {}), r"StatusError: 503 Service Unavailable\); wait until the server has loaded its model"),
        ((529, refusal("Overloaded"), {}), "StatusError: 529 Overloaded"),
        ((418, "teapot", {}), "cannot be used: it does not answer .*418 teapot"),
        (
            (200, "<html>", {"Content-Type": "text/html"}),
            r"the reply is not JSON, but text/html\); check openai.base_url",
        ),
        ((200, "", JSON), "the reply is incomplete JSON"),
        ((200, '{"choices": [', JSON), "the reply is incomplete JSON"),
        ((200, "[]", JSON), "the reply contains no completion"),
        ((200, '{"choices": []}', JSON), "the reply contains no completion"),
        ((200, refusal("your plan has ended"), JSON), "ErrorReply: your plan has ended"),
        ((200, "data: {}\n\n", {"Content-Type": "text/event-stream"}), "the reply contains no completion"),
        ((None, "", {}), "ServerDisconnectedError"),
        ((302, "", {"Location": "/v1/chat/completions"}), r"StatusError: 302 Found\); check openai.base_url"),
    ],
)
async def test_failed_server_check_raises_a_one_line_error(server: ScriptedServer, answer: Any, said: str) -> None:
    server.answers = [answer]
    async with client(server) as model:
        with pytest.raises(ReasoningEnvError, match=said) as error:
            await model.check(0.0)
    assert len(str(error.value).splitlines()) == 1


async def test_server_check_raises_if_the_server_interrupts_a_completion(server: ScriptedServer) -> None:
    server.answers = [{"choices": [{"finish_reason": "abort", "message": {"content": "<answer>4"}}]}]
    async with client(server) as model:
        with pytest.raises(ServerError, match=r"was ready within 0 s .*interrupted a completion.*'abort'"):
            await model.check(0.0)


async def test_server_check_waits_for_the_time_in_the_retry_after_header(server: ScriptedServer) -> None:
    server.answers = [(429, refusal("Rate limit"), {"Retry-After": "1"}), REPLY]
    async with client(server) as model:
        await model.check(5.0)
    assert len(server.requests) == 2


async def test_server_check_raises_if_the_retry_after_time_exceeds_the_timeout(server: ScriptedServer) -> None:
    server.answers = [(429, refusal("Rate limit"), {"Retry-After": "120"})]
    async with client(server) as model:
        with pytest.raises(ReasoningEnvError, match="asks to wait 120 s"):
            await model.check(2.0)
    assert len(server.requests) == 2


async def test_server_check_raises_if_the_server_never_replies(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.Server, "ask", lambda *_, **__: asyncio.sleep(30))
    async with client(server) as model:
        with pytest.raises(ReasoningEnvError, match="TimeoutError: no reply within the time limit"):
            await model.check(0.0)


async def test_context_length_of_the_model_is_read_from_the_server(server: ScriptedServer) -> None:
    async with client(server) as model:
        assert await model.context_lengths() == [4096]
        server.models = []
        assert await model.context_lengths() == [None]


def spec(url: str) -> ServerSettings:
    return ServerSettings(base_url=url, api_key="k", timeout=5)


async def test_name_of_the_only_model_of_a_server_is_found(server: ScriptedServer) -> None:
    assert await only_model(spec(server.url), 5.0) == "m"


async def test_model_lookup_at_an_unreachable_server_raises() -> None:
    with pytest.raises(ServerError, match=r"http://127.0.0.1:9/v1: Connection refused\); start the server"):
        await only_model(spec("http://127.0.0.1:9/v1"), 0.1)


@pytest.mark.parametrize(
    ("models", "said"),
    [
        ({"data": [{"id": "a"}, {"id": "b"}]}, "name the model: .*; models on .*: a, b"),
        ({"data": []}, "name the model: .*; models on .*: none"),
        ([], "does not list its models .*; name the model"),
    ],
)
async def test_model_lookup_raises_if_the_server_lists_no_model_or_several(
    server: ScriptedServer, models: Any, said: str
) -> None:
    server.models = models
    with pytest.raises(ConfigError, match=said):
        await only_model(spec(server.url), 5.0)


@pytest.mark.parametrize("status", [401, 403])
async def test_error_about_a_refused_api_key_names_the_setting_and_environment_variable(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    refusal = addresses.StatusError(status, b"Incorrect API key", {})
    monkeypatch.setattr(module.Server, "models", AsyncMock(side_effect=refusal))
    with pytest.raises(
        ConfigError,
        match=rf"does not list its models \(.*{status}.*; check openai.api_key, or the variable OPENAI_API_KEY",
    ):
        await only_model(spec(server.url), 5.0)


@pytest.mark.parametrize(
    ("status", "message", "server_type"),
    [
        (404, "no such page", "openai"),
        (405, "not allowed", "openai"),
        (400, "the tokenizer has no chat template", "openai"),
        (200, "", "chat"),
    ],
)
async def test_server_type_is_detected_from_the_reply_to_the_first_request(
    server: ScriptedServer, status: int, message: str, server_type: str
) -> None:
    server.answers = [REPLY if status == 200 else (status, refusal(message), {})]
    async with client(server, server_type=None) as model:
        await model.check(0.0)
        assert model.server_type == server_type


@pytest.mark.parametrize(
    ("status", "message"), [(404, "the model `m` does not exist"), (401, "wrong key"), (429, "slow"), (503, "loading")]
)
async def test_server_type_stays_auto_unless_the_server_reports_an_unknown_route(
    server: ScriptedServer, status: int, message: str
) -> None:
    server.answers = [(status, refusal(message), {})]
    async with client(server, server_type=None) as model:
        with pytest.raises(ReasoningEnvError, match=str(status)):
            await model.check(0.0)
        assert model.server_type == "auto"


@pytest.mark.parametrize("server_type", [None, "openai"])
async def test_error_suggests_http_if_the_server_does_not_speak_https(
    server: ScriptedServer, server_type: str | None
) -> None:
    server.url = server.url.replace("http:", "https:")
    async with client(server, server_type=server_type) as model:
        with pytest.raises(
            ServerError, match=r"speak http, not https\?\); write http:// instead of https:// in openai.base_url$"
        ):
            await model.check(60.0)


async def test_error_suggests_a_base_url_that_ends_in_v1(server: ScriptedServer) -> None:
    server.url = server.url.removesuffix("/v1")
    async with client(server, server_type=None) as model:
        with pytest.raises(ReasoningEnvError, match=r"404.*the usual form is http://\S+/v1$"):
            await model.check(0.0)
