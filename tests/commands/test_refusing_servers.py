"""`evaluate` with servers that refuse a parameter or a token limit."""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from reasoning_env.commands.compare import compare_command
from reasoning_env.commands.evaluate import evaluate_command
from reasoning_env.errors import ServerError
from reasoning_gym_testing.http_server import FaultyServer
from tests.reports.lines import report

LIMITS = ("max_tokens", "max_completion_tokens")
Request = Mapping[str, Any]
Refusal = Callable[[Request], str | None]
"""Returns the reason for which a server refuses a request, or None if the server accepts the request."""


class RefusingServer(FaultyServer):
    """Answers the questions of the small library, except for requests that `refuse` refuses with a status.

    `requests` has the requests after the probes at the start.
    """

    refuse: Refusal = staticmethod(lambda request: None)
    status = 400
    answers_as = "m"

    def make_app(self) -> web.Application:
        self.requests: list[Request] = []
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self.chat)
        return app

    async def chat(self, request: web.Request) -> web.Response:
        asked = await request.json()
        if limit_of(asked) != 1:
            self.requests.append(asked)
        if (said := self.refuse(asked)) is not None:
            return web.json_response({"error": {"message": said, "type": "invalid_request_error"}}, status=self.status)
        number = re.search(r"First line of (\d+)", asked["messages"][-1]["content"])
        text = f"<answer>{3 * int(number[1])}</answer>" if number else "hello"
        reply = {"model": self.answers_as, "choices": [{"message": {"content": text}, "finish_reason": "stop"}]}
        return web.json_response(reply)


def limit_of(request: Request) -> int | None:
    return next((request[name] for name in LIMITS if name in request), None)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[RefusingServer]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with RefusingServer() as server:
        yield server


@pytest.fixture
def evaluate(server: RefusingServer, folder: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    """Evaluates the model and returns the content of results.json."""

    def evaluate(*words: str, model: str = "m") -> dict[str, Any]:
        options = ["--base-url", f"{server.url}/v1", "--tasks", "exact", "--limit", "4", "--json", *words]
        assert evaluate_command([model, *options], folder=folder) == 0
        results = json.loads(capsys.readouterr().out)
        assert isinstance(results, dict)
        assert results["overall"]["mean_score"] == 1.0
        return results

    return evaluate


Evaluate = Callable[..., dict[str, Any]]


def refuse_temperature(request: Request) -> str | None:
    said = "Unsupported value: 'temperature' does not support 0.6 with this model. Only the default (1) is supported."
    return said if "temperature" in request else None


def test_results_say_which_parameters_were_changed_after_a_refusal(server: RefusingServer, evaluate: Evaluate) -> None:
    server.refuse = refuse_temperature
    results = evaluate()
    assert results["settings"]["eval_temperature"] == 0.6
    assert results["sent"] == {
        "requests": 4,
        "parameters": {"top_p": [0.95], "max_tokens": [32768]},
        "changed": {"temperature": {"requested": 0.6, "sent": None}},
        "models": ["m"],
    }


def test_results_table_says_that_the_server_refused_the_temperature_of_the_preset(
    server: RefusingServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.refuse = refuse_temperature
    words = ["--base-url", f"{server.url}/v1", "--preset", "rg-hard", "--tasks", "gcd", "--limit", "1"]
    assert evaluate_command(["m", *words], folder=tmp_path) == 0
    table = capsys.readouterr().out
    said = "Not as published: requests were sent without temperature (the setting is 0.6): the server refused this"
    assert said in table
    assert "Not as requested" not in table


def test_results_table_lists_refused_parameters_and_the_model_named_in_the_replies(
    server: RefusingServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.refuse = refuse_temperature
    server.answers_as = "m-2026-01-01"
    words = ["--base-url", f"{server.url}/v1", "--tasks", "exact", "--limit", "2"]
    assert evaluate_command(["m", *words], folder=folder) == 0
    table = capsys.readouterr().out
    assert "Not as requested: requests were sent without temperature (the setting is 0.6)" in table
    assert "Not as requested: the requested model is m, but the server's replies name m-2026-01-01." in table


def test_report_page_lists_refused_parameters(server: RefusingServer, evaluate: Evaluate) -> None:
    server.refuse = refuse_temperature
    evaluate()
    [run] = report(Path("evals"))["runs"]
    said = "requests were sent without temperature (the setting is 0.6): the server refused this parameter"
    assert ["not as requested", said] in run["facts"]


EXCLUSIVE = "`temperature` and `top_p` cannot both be specified for this model. Please use only one."


def test_only_one_of_two_mutually_exclusive_request_parameters_is_dropped(
    server: RefusingServer, evaluate: Evaluate
) -> None:
    server.refuse = lambda request: EXCLUSIVE if {"temperature", "top_p"} <= request.keys() else None
    sent = evaluate()["sent"]
    assert sent["parameters"] == {"temperature": [0.6], "max_tokens": [32768]}
    assert list(sent["changed"]) == ["top_p"]


def test_parameters_that_an_error_lists_as_supported_are_still_sent(server: RefusingServer, evaluate: Evaluate) -> None:
    said = "reasoning_effort is unknown; the parameters of this model are temperature and top_p"
    server.refuse = lambda request: said if "reasoning_effort" in request else None
    sent = evaluate("--env.reasoning_effort", "low")["sent"]
    assert sent["parameters"] == {"temperature": [0.6], "top_p": [0.95], "max_tokens": [32768]}


def test_several_refused_parameters_are_dropped_from_later_requests(server: RefusingServer, evaluate: Evaluate) -> None:
    said = "temperature and top_p are not supported by this model"
    server.refuse = lambda request: said if {"temperature", "top_p"} & request.keys() else None
    assert evaluate()["sent"]["parameters"] == {"max_tokens": [32768]}


def test_refused_parameter_is_found_in_a_huge_error_text(server: RefusingServer, evaluate: Evaluate) -> None:
    server.status = 200
    said = f"unknown parameter: temperature, in {'a' * 500_000} {'9' * 5_000}"
    server.refuse = lambda request: said if "temperature" in request else None
    assert evaluate()["sent"]["parameters"] == {"top_p": [0.95], "max_tokens": [32768]}


def test_token_limit_is_recorded_under_the_name_that_the_server_accepts(
    server: RefusingServer, evaluate: Evaluate
) -> None:
    said = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    server.refuse = lambda request: said if "max_tokens" in request else None
    sent = evaluate()["sent"]
    assert sent["parameters"]["max_completion_tokens"] == [32768]
    assert sent["changed"] == {}


@pytest.mark.parametrize(
    "said",
    [
        "Developer instruction is not enabled for models/gemma-3-27b-it",
        "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
        "System role not supported",
    ],
)
def test_results_say_that_the_system_prompt_was_moved_into_the_question(
    server: RefusingServer, evaluate: Evaluate, said: str
) -> None:
    server.refuse = lambda request: said if request["messages"][0]["role"] == "system" else None
    sent = evaluate("--env.system_prompt", "Think.")["sent"]
    assert sent["changed"]["system_message"]["sent"] == "in front of the question"
    assert server.requests[-1]["messages"][0]["content"].startswith("Think.\n\n")


# ------------------------------------------------------------------ limits of tokens


def above(most: int, said: str, *, required: str = "max_tokens: Field required") -> Refusal:
    """Refuse a request without a token limit or with a limit above the given one, with this message."""

    def refuse(request: Request) -> str | None:
        limit = limit_of(request)
        if limit is None:
            return required
        return said.format(limit=limit) if limit > most else None

    return refuse


@pytest.mark.parametrize(
    "said",
    [
        "too many tokens: max tokens must be less than or equal to 4096",
        "max_tokens is too large: {limit}. This model supports at most 4096 completion tokens",
    ],
)
def test_token_limit_is_lowered_to_the_server_maximum(
    server: RefusingServer, evaluate: Evaluate, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    server.refuse = above(4096, said)
    sent = evaluate()["sent"]
    assert caplog.text.count("the server refused a larger limit") == 1
    assert sent["parameters"]["max_tokens"] == [4096]
    assert sent["changed"] == {"max_tokens": {"requested": 32768, "sent": 4096}}
    assert None not in map(limit_of, server.requests)


def test_token_limit_is_halved_if_the_server_error_names_no_limit(server: RefusingServer, evaluate: Evaluate) -> None:
    server.refuse = above(5000, "max_tokens is too large for this model")
    assert evaluate()["sent"]["parameters"]["max_tokens"] == [4096]


def test_results_table_says_that_the_token_limit_was_too_small(
    server: RefusingServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "max_tokens must be at least 40000"
    server.refuse = lambda request: said if 1 < (limit_of(request) or 0) < 40_000 else None
    assert (
        evaluate_command(["m", "--base-url", f"{server.url}/v1", "--tasks", "exact", "--limit", "1"], folder=folder)
        == 0
    )
    said = "completions were limited to 40,000 tokens, not 32,768, because the server refused fewer."
    assert said in capsys.readouterr().out


CONTEXT = {
    "vLLM": "'max_tokens' or 'max_completion_tokens' is too large: {limit}. This model's maximum context length is "
    "4096 tokens and your request has {prompt} input tokens ({limit} > 4096 - {prompt}).",
    "OpenAI": "This model's maximum context length is 4096 tokens. However, you requested {total} tokens ({prompt} in "
    "the messages, {limit} in the completion). Please reduce the length of the messages or completion.",
}


@pytest.mark.parametrize("said", CONTEXT.values(), ids=CONTEXT)
def test_token_limit_is_lowered_to_leave_room_for_the_prompt(
    server: RefusingServer, evaluate: Evaluate, said: str
) -> None:
    def refuse(request: Request) -> str | None:
        limit, prompt = limit_of(request), prompt_tokens(request)
        assert limit is not None
        return said.format(limit=limit, prompt=prompt, total=limit + prompt) if limit + prompt > 4096 else None

    server.refuse = refuse
    server.status = 422
    sent = evaluate()["sent"]
    assert sent["changed"]["max_tokens"]["requested"] == 32768
    accepted = [request for request in server.requests if refuse(request) is None]
    room = [4096 - prompt_tokens(request) for request in accepted]
    assert all(0.9 * left < (limit_of(one) or 0) <= left for one, left in zip(accepted, room, strict=True))


def prompt_tokens(request: Request) -> int:
    return sum(len(message["content"]) for message in request["messages"]) // 4


def test_token_limit_is_lowered_after_a_validation_error(server: RefusingServer, evaluate: Evaluate) -> None:
    detail = [{"loc": ["body", "max_tokens"], "msg": "Input should be less than or equal to 4096", "input": 32768}]
    server.refuse = above(4096, json.dumps({"detail": detail}).replace("{", "{{").replace("}", "}}"))
    assert evaluate()["sent"]["parameters"]["max_tokens"] == [4096]


# ------------------------------------------------------------------ identity


def test_compare_command_lists_chat_template_options_that_differ(
    evaluate: Evaluate, capsys: pytest.CaptureFixture[str]
) -> None:
    first = evaluate(model="a")
    second = evaluate("--env.chat_template_kwargs", "{enable_thinking: false}", model="b")
    assert second["settings"]["chat_template_kwargs"] == {"enable_thinking": False}
    assert first["settings"]["chat_template_kwargs"] == {}
    assert compare_command(["evals"], Path()) == 0
    assert "chat_template_kwargs" in capsys.readouterr().out


def test_compare_command_lists_request_parameters_that_differ(
    server: RefusingServer, evaluate: Evaluate, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluate(model="a")
    server.refuse = refuse_temperature
    server.answers_as = "other"
    evaluate(model="b")
    assert compare_command(["evals"], Path()) == 0
    shown = capsys.readouterr().out
    assert "temperature in the requests: 0.6 in the first evaluation, nothing in the second" in shown
    assert "model that answered: m in the first evaluation, other in the second" in shown


# ------------------------------------------------------------------ refused requests


def test_evaluation_whose_requests_are_refused_prints_one_error_line(
    server: RefusingServer, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    server.refuse = lambda request: None if limit_of(request) == 1 else "your account may not use this model"
    words = ["--base-url", f"{server.url}/v1", "--tasks", "exact", "--limit", "20", "-n", "2"]
    with pytest.raises(ServerError, match="may not use this model") as raised:
        evaluate_command(["m", *words], folder=folder)
    gc.collect()  # asyncio reports an unretrieved error when the task is deleted
    shown = [str(raised.value), *"".join(capfd.readouterr()).splitlines()]
    assert [line for line in shown if "may not use" in line or "Traceback" in line] == [str(raised.value)]


def test_problems_dropped_from_an_evaluation_are_counted_in_one_log_line(
    server: RefusingServer, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    refused: list[str] = []

    def refuse(request: Request) -> str | None:
        question = request["messages"][-1]["content"]
        if limit_of(request) != 1 and len(refused) < 3 and question not in refused:
            refused.append(question)
        return "this question is not allowed" if question in refused else None

    server.refuse = refuse
    words = ["--base-url", f"{server.url}/v1", "--tasks", "exact", "--limit", "6", "--concurrency", "1"]
    assert evaluate_command(["m", *words], folder=folder) == 0
    [line] = [line for line in caplog.messages if "not allowed" in line]
    assert line.startswith("3 problems were dropped")
