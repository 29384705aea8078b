"""The HTTP client for one model."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from typing import Any
from unittest.mock import AsyncMock

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from reasoning_env.commands.evaluate import only_model
from reasoning_env.errors import ConfigError, ReasoningEnvError, RefusedError, ServerError
from reasoning_env.inference import addresses
from reasoning_env.inference import server as module
from reasoning_env.inference.completer import ServerSettings
from reasoning_env.inference.failures import Timeouts
from reasoning_env.inference.formats.choices import CHAT, TEXT, PlainChat
from reasoning_env.inference.served_model import ServedModel
from reasoning_env.inference.server import RequestOptions
from reasoning_env.records import Ending, Sampling

from .conftest import serve

SAMPLING = Sampling(temperature=0.5, top_p=0.9, token_limit=1000, split="eval")
PROMPT = PlainChat().prompt([{"role": "user", "content": "Hello"}])
CHOICE = {"message": {"content": "yes", "reasoning": "hm"}, "finish_reason": "length"}
REPLY = {"choices": [CHOICE], "usage": {"completion_tokens": 7}}


class Server:
    """Answers requests with `answers` in order, of which the last one repeats, and records the requests."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.answers: list[Any] = [REPLY]
        self.requests: list[Any] = []
        self.keys: list[str | None] = []
        self.texts = [" hm</think> <answer>4</answer> User: what next?"]
        self.keeps_stop = True
        self.models: Any = {"data": [{"id": "m", "max_model_len": 4096}]}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(await request.json())
        self.keys.append(request.headers.get("Authorization"))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, dict):
            return web.json_response(answer)
        status, text, headers = answer
        if status is None:
            assert request.transport is not None
            request.transport.abort()
        return web.Response(status=status or 200, text=text, headers=headers)

    async def complete(self, request: web.Request) -> web.Response:
        """Complete a prompt with the next string of `texts`.

        The request decides whether a stop string ends the text.
        """
        asked = await request.json()
        self.requests.append(asked)
        text = self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]
        for stop in asked.get("stop", []):
            before, found, _ = text.partition(stop)
            text = before + found * self.keeps_stop
        return web.json_response({"choices": [{"text": text, "finish_reason": "stop"}]})

    async def list_models(self, request: web.Request) -> web.Response:
        return web.json_response(self.models)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    served = Server("")
    app = web.Application()
    app.router.add_post("/v1/chat/completions", served.answer)
    app.router.add_post("/v1/completions", served.complete)
    app.router.add_get("/v1/models", served.list_models)
    async with TestServer(app) as listening:
        served.url = str(listening.make_url("/v1"))
        yield served


def refusal(text: str) -> str:
    return json.dumps({"error": {"message": text}})


def client(
    server: Server, options: RequestOptions | None = None, server_type: str | None = "chat", tries: int | None = None
) -> ServedModel:
    formats = [each for each in (CHAT, TEXT) if server_type in (None, each.name)]
    timeouts = Timeouts(reply_s=5.0, outage_s=5.0, tries=tries)
    return serve(server.url, formats=formats, key="secret", options=options, timeouts=timeouts)


async def test_completions_of_a_chat_server_are_returned_with_their_thinking(server: Server) -> None:
    async with client(server, RequestOptions(template_options={"enable_thinking": False})) as model:
        rollouts = await model.complete(PROMPT, 3, SAMPLING)
    found = [(rollout.text, rollout.thinking, rollout.finish_reason, rollout.completion_tokens) for rollout in rollouts]
    assert found == [("yes", "hm", "length", 7)] * 3
    assert server.requests[0] == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hello"}],
        "max_tokens": SAMPLING.completion_budget(PROMPT),
        "temperature": 0.5,
        "top_p": 0.9,
        "chat_template_kwargs": {"enable_thinking": False},
    }
    assert server.keys == ["Bearer secret"] * 3


async def test_first_completion_is_kept_while_the_server_is_too_busy_for_the_second(server: Server) -> None:
    busy = (429, "slow", {"Retry-After": "0.05"})
    server.answers = [REPLY, busy, busy, busy, busy, REPLY]
    async with client(server) as model:
        assert len(await model.complete(PROMPT, 2, SAMPLING)) == 2
    assert len(server.requests) == 6


EVENTS = """\
: a comment

data: {"choices": [{"delta": {"role": "assistant", "content": ""}, "finish_reason": null}]}

data: {"choices": [{"delta": {"reasoning_content": "h"}}]}

data: {"choices": [{"delta": {"reasoning_content": "m"}}]}

data: {"choices": [{"delta": {"content": "y\u2028e"}, "finish_reason": null}]}

data: {"choices": [{"delta": {"content": "s"}, "finish_reason": "length"}]}

data: {"choices": [], "usage": {"completion_tokens": 7}}

data: [DONE]

"""
STREAMED = (200, EVENTS, {"Content-Type": "text/event-stream"})


@pytest.mark.parametrize(
    "said",
    ["This model only support stream mode, please enable the stream parameter", "only streaming is supported"],
)
async def test_server_that_supports_only_streaming_is_supported(server: Server, said: str) -> None:
    server.answers = [(400, refusal(said), {}), STREAMED]
    async with client(server) as model:
        [rollout] = await model.complete(PROMPT, 1, SAMPLING)
    assert (rollout.text, rollout.thinking, rollout.finish_reason) == ("y\u2028es", "hm", "length")
    assert rollout.completion_tokens == 7
    assert (server.requests[1]["stream"], server.requests[1]["stream_options"]) == (True, {"include_usage": True})


async def test_streamed_reply_is_read_even_if_no_stream_was_requested(server: Server) -> None:
    server.answers = [STREAMED]
    async with client(server) as model:
        [rollout] = await model.complete(PROMPT, 1, SAMPLING)
    assert rollout.text == "y\u2028es"
    assert "stream" not in server.requests[0]


async def test_request_is_retried_after_an_error_inside_its_streamed_reply(server: Server) -> None:
    error = 'data: {"choices": [{"delta": {"content": "y"}}]}\n\ndata: {"error": {"message": "overloaded"}}\n\n'
    server.answers = [(200, error, {"Content-Type": "text/event-stream"}), STREAMED]
    async with client(server) as model:
        [rollout] = await model.complete(PROMPT, 1, SAMPLING)
    assert rollout.text == "y\u2028es"


async def test_redirect_is_not_followed(server: Server) -> None:
    """Another server must not receive the API keys in the headers."""
    server.answers = [(307, "", {"Location": "/v1/completions"})]
    async with client(server, tries=1) as model:
        with pytest.raises(ServerError, match="StatusError: 307"):
            await model.complete(PROMPT, 1, SAMPLING)
    assert len(server.requests) == 1


async def test_localhost_bypasses_the_proxy(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    async with client(server) as model:
        await model.check(5.0)


async def test_requests_wait_for_free_file_descriptors(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses.resource, "getrlimit", lambda _: (len(os.listdir("/dev/fd")), 4096))
    assert addresses.max_connections() == 1
    async with client(server) as model:
        assert len(await model.complete(PROMPT, 5, SAMPLING)) == 5


@pytest.mark.parametrize("number", [-5, 10**30, True, 1.5, "7", None, [7]])
async def test_token_count_out_of_range_is_treated_as_unknown(server: Server, number: object) -> None:
    server.answers = [{**REPLY, "usage": {"completion_tokens": number}}]
    async with client(server) as model:
        [rollout] = await model.complete(PROMPT, 1, SAMPLING)
    assert (rollout.text, rollout.token_count) == ("yes", None)


@pytest.mark.parametrize("length", [-1, 0, 10**30, True, "4096", None])
async def test_context_length_out_of_range_is_treated_as_unknown(server: Server, length: object) -> None:
    server.models = {"data": [{"id": "m", "max_model_len": length}]}
    async with client(server) as model:
        assert await model.context_lengths() == [None]


async def test_refused_request_during_a_run_does_not_prevent_later_requests(server: Server) -> None:
    server.answers = [REPLY, (400, refusal("maximum context length"), {}), REPLY]
    async with client(server) as model:
        await model.check(5.0)
        with pytest.raises(ServerError, match="maximum context length") as caught:
            await model.complete(PROMPT, 1, SAMPLING)
        assert not isinstance(caught.value, RefusedError)
        assert len(await model.complete(PROMPT, 1, SAMPLING)) == 1


@pytest.mark.parametrize(("status", "said"), [(401, "wrong key"), (400, "no such model")])
async def test_refused_first_request_raises_an_error_that_ends_the_run(server: Server, status: int, said: str) -> None:
    server.answers = [(status, refusal(said), {})]
    async with client(server) as model:
        with pytest.raises(RefusedError, match=f"refuses requests .*{said}"):
            await model.complete(PROMPT, 1, SAMPLING)
    assert len(server.requests) == 1


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
async def test_failed_server_check_raises_a_one_line_error(server: Server, answer: Any, said: str) -> None:
    server.answers = [answer]
    async with client(server) as model:
        with pytest.raises(ReasoningEnvError, match=said) as error:
            await model.check(0.0)
    assert len(str(error.value).splitlines()) == 1


BROKEN_OFF = [
    pytest.param(
        {"finish_reason": "abort", "message": {"content": "<answer>4"}}, "abort", id="aborted for new weights"
    ),
    pytest.param(
        {
            "finish_reason": "error",
            "message": {"content": "First, add"},
            "error": {"code": 502, "message": "the upstream went away"},
        },
        "error.*the upstream went away",
        id="gateway",
    ),
    pytest.param(
        {"finish_reason": "stop", "message": {"content": "4"}, "error": {"code": 1}}, "error", id="error beside stop"
    ),
    pytest.param({"finish_reason": "stop", "message": None}, "null", id="no message"),
    pytest.param({"finish_reason": None, "message": {"content": None}}, "null", id="no content"),
    pytest.param(
        {"finish_reason": None, "stop_reason": "aborted", "message": {"content": "4"}},
        "aborted",
        id="stop_reason of verl",
    ),
    pytest.param({"finish_reason": "drained", "message": {"content": "4"}}, "drained", id="unknown word"),
]


@pytest.mark.parametrize(("choice", "said"), BROKEN_OFF)
async def test_repeated_interruptions_of_a_completion_raise_an_error(server: Server, choice: Any, said: str) -> None:
    server.answers = [{"choices": [choice]}]
    async with client(server, tries=2) as model:
        with pytest.raises(ServerError, match=f"interrupted a completion.*{said}"):
            await model.complete(PROMPT, 1, SAMPLING)
        assert model.ended.total() == 1


async def test_server_check_raises_if_the_server_interrupts_a_completion(server: Server) -> None:
    server.answers = [{"choices": [BROKEN_OFF[0].values[0]]}]
    async with client(server) as model:
        with pytest.raises(ServerError, match=r"was ready within 0 s .*interrupted a completion.*'abort'"):
            await model.check(0.0)


async def test_reply_without_finish_reason_is_accepted_if_no_earlier_reply_had_one(server: Server) -> None:
    """Some servers never send a finish reason."""
    server.answers = [{"choices": [{"message": {"content": "yes"}}]}]
    async with client(server) as model:
        [rollout] = await model.complete(PROMPT, 1, SAMPLING)
    assert rollout.ending is Ending.FINISHED


async def test_request_is_retried_if_a_single_reply_lacks_a_finish_reason(server: Server) -> None:
    """LMDeploy omits the finish reason only if a request was aborted."""
    cut_short = {"choices": [{"message": {"content": "First"}, "finish_reason": None}]}
    server.answers = [REPLY, cut_short, REPLY]
    async with client(server) as model:
        rollouts = [(await model.complete(PROMPT, 1, SAMPLING))[0] for _ in range(2)]
    assert [rollout.text for rollout in rollouts] == ["yes", "yes"]


REFUSED = [
    pytest.param(
        {"finish_reason": "stop", "message": {"content": None, "refusal": "I'm sorry, I can't help with that."}},
        id="refusal field",
    ),
    pytest.param({"finish_reason": "content_filter", "message": {"content": ""}}, id="content filter"),
    pytest.param({"finish_reason": "SAFETY", "message": {"content": None}}, id="Gemini"),
    pytest.param(
        {"finish_reason": "stop", "message": {"content": [{"type": "refusal", "refusal": "No."}]}}, id="refusal part"
    ),
]


@pytest.mark.parametrize("choice", REFUSED)
async def test_completion_counts_as_refused_if_the_model_refuses_to_answer(server: Server, choice: Any) -> None:
    server.answers = [{"choices": [choice]}]
    async with client(server) as model:
        [rollout] = await model.complete(PROMPT, 1, SAMPLING)
    assert rollout.ending is Ending.REFUSED


MAGISTRAL = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "2 + 2 is "}, {"type": "text", "text": "four."}]},
    {"type": "text", "text": "<answer>"},
    {"type": "thinking", "thinking": [], "closed": True},
    {"type": "text", "text": "4</answer>"},
]


@pytest.mark.parametrize(
    ("content", "text", "thinking"),
    [
        pytest.param(MAGISTRAL, "<answer>4</answer>", "2 + 2 is four.", id="Magistral"),
        pytest.param(
            [{"type": "thinking", "thinking": "four", "signature": "x"}, {"type": "text", "text": "4"}],
            "4",
            "four",
            id="Claude",
        ),
        pytest.param(
            [{"type": "reasoning", "text": "four"}, {"type": "text", "text": "4"}], "4", "four", id="reasoning"
        ),
        pytest.param(
            [{"type": "image_url", "image_url": {"url": "x"}}, {"type": "text", "text": "4"}], "4", "", id="image"
        ),
        pytest.param([], "", "", id="no part"),
        pytest.param(None, "", "", id="null"),
    ],
)
async def test_message_content_is_read_from_a_list_of_parts(
    server: Server, content: Any, text: str, thinking: str
) -> None:
    server.answers = [{"choices": [{"message": {"content": content}, "finish_reason": "stop"}]}]
    async with client(server) as model:
        [rollout] = await model.complete(PROMPT, 1, SAMPLING)
    assert (rollout.text, rollout.thinking) == (text, thinking)


@pytest.mark.parametrize("content", [5, {"text": "4"}, [4], ["4"]])
async def test_request_is_retried_if_the_message_content_of_the_reply_is_invalid(server: Server, content: Any) -> None:
    server.answers = [{"choices": [{"message": {"content": content}, "finish_reason": "stop"}]}, REPLY]
    async with client(server) as model:
        [rollout] = await model.complete(PROMPT, 1, SAMPLING)
    assert rollout.text == "yes"


async def test_server_check_waits_for_the_time_in_the_retry_after_header(server: Server) -> None:
    server.answers = [(429, refusal("Rate limit"), {"Retry-After": "1"}), REPLY]
    async with client(server) as model:
        await model.check(5.0)
    assert len(server.requests) == 2


async def test_server_check_raises_if_the_retry_after_time_exceeds_the_timeout(server: Server) -> None:
    server.answers = [(429, refusal("Rate limit"), {"Retry-After": "120"})]
    async with client(server) as model:
        with pytest.raises(ReasoningEnvError, match="asks to wait 120 s"):
            await model.check(2.0)
    assert len(server.requests) == 2


async def test_server_check_raises_if_the_server_never_replies(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.Server, "ask", lambda *_, **__: asyncio.sleep(30))
    async with client(server) as model:
        with pytest.raises(ReasoningEnvError, match="TimeoutError: no reply within the time limit"):
            await model.check(0.0)


async def test_context_length_of_the_model_is_read_from_the_server(server: Server) -> None:
    async with client(server) as model:
        assert await model.context_lengths() == [4096]
        server.models = []
        assert await model.context_lengths() == [None]


def spec(url: str) -> ServerSettings:
    return ServerSettings(base_url=url, api_key="k", timeout=5)


async def test_name_of_the_only_model_of_a_server_is_found(server: Server) -> None:
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
    server: Server, models: Any, said: str
) -> None:
    server.models = models
    with pytest.raises(ConfigError, match=said):
        await only_model(spec(server.url), 5.0)


@pytest.mark.parametrize("status", [401, 403])
async def test_error_about_a_refused_api_key_names_the_setting_and_environment_variable(
    server: Server, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    refusal = addresses.StatusError(status, b"Incorrect API key", {})
    monkeypatch.setattr(module.Server, "models", AsyncMock(side_effect=refusal))
    with pytest.raises(
        ConfigError,
        match=rf"does not list its models \(.*{status}.*; check openai.api_key, or the variable OPENAI_API_KEY",
    ):
        await only_model(spec(server.url), 5.0)


# ------------------------------------------------------------------ text completions


async def test_completions_of_an_openai_server_are_returned_as_text(server: Server) -> None:
    async with client(server, RequestOptions(template_options={"enable_thinking": False}), "openai") as model:
        [rollout] = await model.complete(model.prompt(PROMPT.messages), 1, SAMPLING)
    assert (rollout.text, rollout.finish_reason) == (" hm</think> <answer>4</answer>", "stop")
    assert server.requests[0]["prompt"] == "User: Hello\n\nAssistant: <think>"
    assert {"messages", "chat_template_kwargs"}.isdisjoint(server.requests[0])


async def test_later_requests_omit_a_stop_string_that_the_server_removes_from_replies(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.keeps_stop = False
    async with client(server, server_type="openai") as model:
        for _ in range(2):
            [rollout] = await model.complete(model.prompt(PROMPT.messages), 1, SAMPLING)
            assert rollout.text == " hm</think> <answer>4</answer>"
    assert ["stop" in request for request in server.requests] == [True, False, False]
    assert len([message for message in caplog.messages if "stop string" in message]) == 1


async def test_completion_without_a_closing_answer_tag_is_returned_unchanged(server: Server) -> None:
    server.texts = ["<answer>4</answer>", "<answer>5"]
    async with client(server, server_type="openai") as model:
        texts = [(await model.complete(model.prompt(PROMPT.messages), 1, SAMPLING))[0].text for _ in range(2)]
    assert texts == ["<answer>4</answer>", "<answer>5"]
    assert len(server.requests) == 2


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
    server: Server, status: int, message: str, server_type: str
) -> None:
    server.answers = [REPLY if status == 200 else (status, refusal(message), {})]
    async with client(server, server_type=None) as model:
        await model.check(0.0)
        assert model.server_type == server_type


@pytest.mark.parametrize(
    ("status", "message"), [(404, "the model `m` does not exist"), (401, "wrong key"), (429, "slow"), (503, "loading")]
)
async def test_server_type_stays_auto_unless_the_server_reports_an_unknown_route(
    server: Server, status: int, message: str
) -> None:
    server.answers = [(status, refusal(message), {})]
    async with client(server, server_type=None) as model:
        with pytest.raises(ReasoningEnvError, match=str(status)):
            await model.check(0.0)
        assert model.server_type == "auto"


@pytest.mark.parametrize("server_type", [None, "openai"])
async def test_error_suggests_http_if_the_server_does_not_speak_https(server: Server, server_type: str | None) -> None:
    server.url = server.url.replace("http:", "https:")
    async with client(server, server_type=server_type) as model:
        with pytest.raises(
            ServerError, match=r"speak http, not https\?\); write http:// instead of https:// in openai.base_url$"
        ):
            await model.check(60.0)


async def test_error_suggests_a_base_url_that_ends_in_v1(server: Server) -> None:
    server.url = server.url.removesuffix("/v1")
    async with client(server, server_type=None) as model:
        with pytest.raises(ReasoningEnvError, match=r"404.*the usual form is http://\S+/v1$"):
            await model.check(0.0)
