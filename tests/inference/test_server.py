"""Requests of the HTTP client for one model, and the completions that it returns."""

from __future__ import annotations

import os
from typing import Any

import pytest

from reasoning_env.errors import RefusedError, ServerError
from reasoning_env.inference import addresses
from reasoning_env.inference.server import RequestOptions
from reasoning_env.records import Ending

from .chat_server import PROMPT, REPLY, SAMPLING, ScriptedServer, client, refusal


async def test_completions_of_a_chat_server_are_returned_with_their_thinking(server: ScriptedServer) -> None:
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


async def test_first_completion_is_kept_while_the_server_is_too_busy_for_the_second(server: ScriptedServer) -> None:
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
async def test_server_that_supports_only_streaming_is_supported(server: ScriptedServer, said: str) -> None:
    server.answers = [(400, refusal(said), {}), STREAMED]
    async with client(server) as model:
        [rollout] = await model.complete(PROMPT, 1, SAMPLING)
    assert (rollout.text, rollout.thinking, rollout.finish_reason) == ("y\u2028es", "hm", "length")
    assert rollout.completion_tokens == 7
    assert (server.requests[1]["stream"], server.requests[1]["stream_options"]) == (True, {"include_usage": True})


async def test_streamed_reply_is_read_even_if_no_stream_was_requested(server: ScriptedServer) -> None:
    server.answers = [STREAMED]
    async with client(server) as model:
        [rollout] = await model.complete(PROMPT, 1, SAMPLING)
    assert rollout.text == "y\u2028es"
    assert "stream" not in server.requests[0]


async def test_request_is_retried_after_an_error_inside_its_streamed_reply(server: ScriptedServer) -> None:
    error = 'data: {"choices": [{"delta": {"content": "y"}}]}\n\ndata: {"error": {"message": "overloaded"}}\n\n'
    server.answers = [(200, error, {"Content-Type": "text/event-stream"}), STREAMED]
    async with client(server) as model:
        [rollout] = await model.complete(PROMPT, 1, SAMPLING)
    assert rollout.text == "y\u2028es"


async def test_redirect_is_not_followed(server: ScriptedServer) -> None:
    """Another server must not receive the API keys in the headers."""
    server.answers = [(307, "", {"Location": "/v1/completions"})]
    async with client(server, tries=1) as model:
        with pytest.raises(ServerError, match="StatusError: 307"):
            await model.complete(PROMPT, 1, SAMPLING)
    assert len(server.requests) == 1


async def test_requests_wait_for_free_file_descriptors(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses.resource, "getrlimit", lambda _: (len(os.listdir("/dev/fd")), 4096))
    assert addresses.max_connections() == 1
    async with client(server) as model:
        assert len(await model.complete(PROMPT, 5, SAMPLING)) == 5


@pytest.mark.parametrize("number", [-5, 10**30, True, 1.5, "7", None, [7]])
async def test_token_count_out_of_range_is_treated_as_unknown(server: ScriptedServer, number: object) -> None:
    server.answers = [{**REPLY, "usage": {"completion_tokens": number}}]
    async with client(server) as model:
        [rollout] = await model.complete(PROMPT, 1, SAMPLING)
    assert (rollout.text, rollout.token_count) == ("yes", None)


async def test_refused_request_during_a_run_does_not_prevent_later_requests(server: ScriptedServer) -> None:
    server.answers = [REPLY, (400, refusal("maximum context length"), {}), REPLY]
    async with client(server) as model:
        await model.check(5.0)
        with pytest.raises(ServerError, match="maximum context length") as caught:
            await model.complete(PROMPT, 1, SAMPLING)
        assert not isinstance(caught.value, RefusedError)
        assert len(await model.complete(PROMPT, 1, SAMPLING)) == 1


@pytest.mark.parametrize(("status", "said"), [(401, "wrong key"), (400, "no such model")])
async def test_refused_first_request_raises_an_error_that_ends_the_run(
    server: ScriptedServer, status: int, said: str
) -> None:
    server.answers = [(status, refusal(said), {})]
    async with client(server) as model:
        with pytest.raises(RefusedError, match=f"refuses requests .*{said}"):
            await model.complete(PROMPT, 1, SAMPLING)
    assert len(server.requests) == 1


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
async def test_repeated_interruptions_of_a_completion_raise_an_error(
    server: ScriptedServer, choice: Any, said: str
) -> None:
    server.answers = [{"choices": [choice]}]
    async with client(server, tries=2) as model:
        with pytest.raises(ServerError, match=f"interrupted a completion.*{said}"):
            await model.complete(PROMPT, 1, SAMPLING)
        assert model.ended.total() == 1


async def test_reply_without_finish_reason_is_accepted_if_no_earlier_reply_had_one(server: ScriptedServer) -> None:
    """Some servers never send a finish reason."""
    server.answers = [{"choices": [{"message": {"content": "yes"}}]}]
    async with client(server) as model:
        [rollout] = await model.complete(PROMPT, 1, SAMPLING)
    assert rollout.ending is Ending.FINISHED


async def test_request_is_retried_if_a_single_reply_lacks_a_finish_reason(server: ScriptedServer) -> None:
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
async def test_completion_counts_as_refused_if_the_model_refuses_to_answer(server: ScriptedServer, choice: Any) -> None:
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
    server: ScriptedServer, content: Any, text: str, thinking: str
) -> None:
    server.answers = [{"choices": [{"message": {"content": content}, "finish_reason": "stop"}]}]
    async with client(server) as model:
        [rollout] = await model.complete(PROMPT, 1, SAMPLING)
    assert (rollout.text, rollout.thinking) == (text, thinking)


@pytest.mark.parametrize("content", [5, {"text": "4"}, [4], ["4"]])
async def test_request_is_retried_if_the_message_content_of_the_reply_is_invalid(
    server: ScriptedServer, content: Any
) -> None:
    server.answers = [{"choices": [{"message": {"content": content}, "finish_reason": "stop"}]}, REPLY]
    async with client(server) as model:
        [rollout] = await model.complete(PROMPT, 1, SAMPLING)
    assert rollout.text == "yes"


async def test_completions_of_an_openai_server_are_returned_as_text(server: ScriptedServer) -> None:
    async with client(server, RequestOptions(template_options={"enable_thinking": False}), "openai") as model:
        [rollout] = await model.complete(model.prompt(PROMPT.messages), 1, SAMPLING)
    assert (rollout.text, rollout.finish_reason) == (" hm</think> <answer>4</answer>", "stop")
    assert server.requests[0]["prompt"] == "User: Hello\n\nAssistant: <think>"
    assert {"messages", "chat_template_kwargs"}.isdisjoint(server.requests[0])


async def test_later_requests_omit_a_stop_string_that_the_server_removes_from_replies(
    server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.keeps_stop = False
    async with client(server, server_type="openai") as model:
        for _ in range(2):
            [rollout] = await model.complete(model.prompt(PROMPT.messages), 1, SAMPLING)
            assert rollout.text == " hm</think> <answer>4</answer>"
    assert ["stop" in request for request in server.requests] == [True, False, False]
    assert len([message for message in caplog.messages if "stop string" in message]) == 1


async def test_completion_without_a_closing_answer_tag_is_returned_unchanged(server: ScriptedServer) -> None:
    server.texts = ["<answer>4</answer>", "<answer>5"]
    async with client(server, server_type="openai") as model:
        texts = [(await model.complete(model.prompt(PROMPT.messages), 1, SAMPLING))[0].text for _ in range(2)]
    assert texts == ["<answer>4</answer>", "<answer>5"]
    assert len(server.requests) == 2
