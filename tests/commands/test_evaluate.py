"""The command `evaluate`, with a small library and a server that gives right answers."""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from reasoning_env.commands import evaluate as module
from reasoning_env.commands.evaluate import check_score, evaluate_command, read_request
from reasoning_env.errors import ConfigError, ReasoningEnvError
from reasoning_env.program.options import full_parser
from reasoning_env.program.training import NAMES_OF_SERVER, NAMES_OF_TRAINING
from reasoning_gym_testing.http_server import FaultyServer, respond
from tests.waiting import wait_until

ENDED: Mapping[str, Mapping[str, Any]] = {
    "aborts": {"finish_reason": "abort"},
    "gateway": {"finish_reason": "error", "error": {"code": 502, "message": "the upstream went away"}},
    "filtered": {"finish_reason": "content_filter"},
    "refuses": {"message": {"content": None, "refusal": "I can't help with that."}},
}


KEY = "sk-very-secret"


class RightAnswers(FaultyServer):
    """A server that answers the questions of the small library.

    It refuses models named `bad-...`, and `base` has no chat template. For the model `parsed`, it puts all text into
    the reasoning field. For the models in ENDED, the reply to the first question has further fields.
    """

    def make_app(self) -> web.Application:
        self.first: dict[str, str] = {}
        self.requests: list[dict[str, Any]] = []
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self.chat)
        app.router.add_post("/v1/completions", self.complete)
        app.router.add_post("/openai/deployments/{model}/chat/completions", self.chat_of_azure)
        return app

    async def chat_of_azure(self, request: web.Request) -> web.Response:
        """Answer a request that has the API version in the query and the key in a special header."""
        seen = dict(request.query), request.headers.get("api-key"), request.headers.get("Authorization")
        if seen != ({"api-version": "2024-06-01"}, KEY, None):
            return web.json_response({"error": {"message": f"got {seen}"}}, status=401)
        return await self.chat(request)

    async def chat(self, request: web.Request) -> web.Response:
        asked = await request.json()
        self.requests.append(asked)
        if asked["model"].startswith("bad"):
            return web.json_response({"error": {"message": f"no model {asked['model']}"}}, status=404)
        if asked["model"] == "base":
            return web.json_response({"error": {"message": "the tokenizer has no chat template"}}, status=400)
        text = self.answer(asked["messages"][-1]["content"])
        question = asked["messages"][-1]["content"]
        is_first = question == self.first.setdefault(asked["model"], question) if text else False
        ended = ENDED.get(asked["model"], {}) if is_first else {}
        message = {"content": None, "reasoning_content": text} if asked["model"] == "parsed" else {"content": text}
        choice = {"message": message, "finish_reason": "stop", **ended}
        return web.json_response({"choices": [choice], "usage": {"completion_tokens": 5}})

    async def complete(self, request: web.Request) -> web.Response:
        text = self.answer((await request.json())["prompt"])
        return web.json_response({"choices": [{"text": f" 3 times</think>{text}", "finish_reason": "stop"}]})

    def answer(self, question: str) -> str:
        number = re.search(r"First line of (\d+)", question)
        return f"<answer>{3 * int(number[1])}</answer>" if number else ""


@pytest.fixture(scope="module")
def server() -> Iterator[RightAnswers]:
    with RightAnswers() as server:
        yield server


@pytest.fixture(scope="module")
def url(server: RightAnswers) -> str:
    return f"{server.url}/v1"


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def evaluate(folder: Path, *words: str) -> int:
    return evaluate_command(words, folder=folder)


def test_evaluate_command_scores_a_chat_model(folder: Path, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "c.yaml").write_text(f"env: {{eval_tasks: exact, group_size: 3}}\nopenai: {{base_url: {url}}}\n")
    assert evaluate(folder, "m", "--config", "c.yaml", "--limit", "2", "-n", "2", "--json") == 0
    results = json.loads(capsys.readouterr().out)
    assert results["overall"]["mean_score"] == 1.0
    assert (results["model"], results["server"]) == ("m", {"type": "chat", "base_url": url})
    assert (results["finished"], results["overall"]["completions"]) == (True, 4)
    [samples] = folder.glob("evals/m-*/samples.jsonl")
    assert len(samples.read_text().splitlines()) == 2


def test_base_model_is_evaluated_over_the_completions_route(
    folder: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(folder, "base", "--base-url", url, "--tasks", "exact", "--limit", "2", "--json") == 0
    results = json.loads(capsys.readouterr().out)
    assert (results["server"]["type"], results["overall"]["mean_score"]) == ("openai", 1.0)


def test_azure_api_version_and_key_header_are_sent(
    folder: Path, server: RightAnswers, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of another server")
    monkeypatch.setenv("AZURE_KEY", KEY)
    address = f"{server.url}/openai/deployments/d"
    words = ["--base-url", f"{address}?api-version=2024-06-01", "--openai.headers", "api-key=$AZURE_KEY"]
    assert evaluate(folder, "m", *words, "--tasks", "exact", "--limit", "2", "--json") == 0
    results = json.loads(capsys.readouterr().out)
    assert (results["overall"]["mean_score"], results["server"]["base_url"]) == (1.0, address)
    assert not [path for path in folder.glob("evals/*/*") if KEY in path.read_text()]


def test_error_of_the_evaluate_command_names_the_url_path_that_the_server_refused(
    folder: Path, server: RightAnswers
) -> None:
    url = f"{server.url}/openai/deployments/d?api-version=2023"
    words = ["m", "--base-url", url, "--tasks", "exact", "--chat", "--openai.headers", f"{{api-key: {KEY}}}"]
    with pytest.raises(ReasoningEnvError, match="refuses POST /openai/deployments/d/chat/completions ") as raised:
        evaluate(folder, *words)
    assert KEY not in str(raised.value)


@pytest.mark.parametrize(("name", "value"), [("a", "sk-very\nsecret"), ("a", "$NOT_SET")])
def test_invalid_value_in_the_headers_option_raises(folder: Path, name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=r"--?openai\.headers") as raised:
        evaluate(folder, "m", "--openai.headers", json.dumps({name: value}))
    assert "secret" not in str(raised.value)


def test_evaluate_command_calls_the_evaluate_function(folder: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[dict[str, Any]] = []

    def evaluate_noted(**arguments: Any) -> Any:
        calls.append(arguments)
        return function(**arguments)

    function = module.evaluate
    monkeypatch.setattr(module, "evaluate", evaluate_noted)
    assert evaluate(folder, "m", "--base-url", url, "--tasks", "exact", "--limit", "1") == 0
    assert [call["request"].settings.eval_tasks for call in calls] == [["exact"]]


def test_evaluate_raises_if_a_request_is_combined_with_other_arguments() -> None:
    with pytest.raises(ConfigError, match="request: cannot be combined"):
        module.evaluate("m", request=read_request({}))


@pytest.mark.parametrize("model", ["aborts", "gateway"])
def test_completion_broken_off_by_the_server_is_counted_as_failed(
    folder: Path, url: str, capsys: pytest.CaptureFixture[str], model: str
) -> None:
    words = ["--base-url", url, "--tasks", "exact", "--limit", "3", "--env.startup_timeout_s", "0.1", "--json"]
    assert evaluate(folder, model, *words) == 0
    overall = json.loads(capsys.readouterr().out)["overall"]
    assert (overall["failed"], overall["completions"], overall["reasons"]) == (1, 2, {"right": 1.0})


@pytest.mark.parametrize("words", [[], ["--json"]], ids=["table", "json"])
def test_results_say_that_the_server_returned_answers_as_reasoning(
    folder: Path, url: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, words: list[str]
) -> None:
    assert evaluate(folder, "parsed", "--base-url", url, "--tasks", "exact", "--limit", "2", *words) == 0
    told = "\n".join([capsys.readouterr().out, *caplog.messages])
    assert "100% of completions have an answer only in the reasoning" in told
    assert "the server's reasoning parser puts answers into the reasoning" in told


@pytest.mark.parametrize("model", ["filtered", "refuses"])
def test_refusals_by_a_model_or_filter_are_counted_as_refused(
    folder: Path, url: str, capsys: pytest.CaptureFixture[str], model: str
) -> None:
    assert evaluate(folder, model, "--base-url", url, "--tasks", "exact", "--limit", "2", "--json") == 0
    overall = json.loads(capsys.readouterr().out)["overall"]
    assert (overall["failed"], overall["mean_score"], overall["reasons"]["refused"]) == (0, 0.5, 0.5)


@pytest.mark.parametrize(
    ("words", "server_type"),
    [([], "chat"), (["--env.chat_template", "plain"], "openai"), (["--env.chat_template", "plain", "--chat"], "chat")],
)
def test_chat_options_of_the_evaluate_command_select_the_server_type(
    folder: Path, url: str, capsys: pytest.CaptureFixture[str], words: list[str], server_type: str
) -> None:
    assert evaluate(folder, "m", "--base-url", url, "--tasks", "exact", "--limit", "1", "--json", *words) == 0
    assert json.loads(capsys.readouterr().out)["server"]["type"] == server_type


def test_chat_option_raises_if_the_server_has_no_chat_template(folder: Path, url: str) -> None:
    with pytest.raises(ReasoningEnvError, match="no chat template"):
        evaluate(folder, "base", "--base-url", url, "--tasks", "exact", "--limit", "1", "--chat")


@pytest.mark.parametrize("variable", ["HF_TOKEN", "WANDB_API_KEY", "OPENAI_API_KEY"])
def test_error_of_the_evaluate_command_hides_the_api_key(
    folder: Path, url: str, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "bad-key")
    with pytest.raises(ReasoningEnvError, match="no model <key>"):
        evaluate(folder, "bad-key", "--base-url", url, "--tasks", "exact", "--limit", "1")


def test_evaluate_command_uses_the_given_defaults_for_missing_options(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    defaults = {"eval_tasks": ["exact"], "num_eval_samples_per_task": 7}
    assert evaluate_command(["m", "--dry-run"], folder=folder, defaults=defaults) == 0
    assert "\n7 problems of 1 task" in capsys.readouterr().out


def test_printed_settings_hide_the_api_key(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate(folder, "m", "--openai.api_key", "secret-key", "--print-config") == 0
    printed = capsys.readouterr().out
    assert "secret-key" not in printed
    (folder / "printed.yaml").write_text(printed)
    assert evaluate(folder, "--config", "printed.yaml", "--print-config") == 0
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ([], "https://api.openai.com/v1"),
        (["--openai.api_key", "$OPENAI_API_KEY"], "https://api.openai.com/v1"),
        (["--openai.api_key", "of-another-server"], "localhost"),
        (["--base-url", "http://mine:8000/v1"], "http://mine:8000/v1"),
    ],
)
def test_openai_api_key_variable_selects_the_openai_server(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    asked: str,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret-key")
    assert evaluate(folder, "gpt-4.1-mini", *words, "--print-config") == 0
    assert asked in capsys.readouterr().out


def test_openai_base_url_variable_selects_the_server(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret-key")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://mine:8000/v1")
    assert evaluate(folder, "gpt-4.1-mini", "--print-config") == 0
    assert "http://mine:8000/v1" in capsys.readouterr().out


def test_dry_run_of_the_evaluate_command_prints_the_number_of_problems(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = "http://user:secret@host:8000/v1"
    assert evaluate(folder, "m", "--tasks", "exact", "--limit", "3", "--base-url", address, "--dry-run") == 0
    model, plan = capsys.readouterr().out.splitlines()
    assert model == "m at http://host:8000/v1"
    assert plan.startswith("3 problems of 1 task, 3 completions, at most 98,304 tokens")


@pytest.mark.parametrize("effort", ["low", "none", None])
def test_reasoning_effort_is_sent_to_the_server(
    folder: Path, url: str, server: RightAnswers, effort: str | None
) -> None:
    server.requests.clear()
    words = [] if effort is None else ["--env.reasoning_effort", effort]
    assert evaluate(folder, "m", "--base-url", url, "--tasks", "exact", "--limit", "1", *words) == 0
    assert {request.get("reasoning_effort") for request in server.requests[1:]} == {effort}


def test_reasoning_effort_is_not_sent_to_a_base_model(folder: Path, url: str, caplog: pytest.LogCaptureFixture) -> None:
    words = ["--tasks", "exact", "--limit", "1", "--env.chat_template", "plain", "--env.reasoning_effort", "low"]
    assert evaluate(folder, "m", "--base-url", url, *words) == 0
    assert "`evaluate` ignores these settings: env.reasoning_effort" in caplog.messages


@pytest.mark.parametrize("way", ["file", "option"])
def test_evaluate_command_reports_training_settings_as_ignored(
    folder: Path, url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    (folder / "c.yaml").write_text(
        "env: {tokenizer_name: t, use_wandb: false, seed: 3}\nopenai: {num_requests_for_eval: 3}\n"
    )
    options = ["--env.seed=3", "--env.tokenizer_name=t", "--env.use_wandb=false", "--openai.num_requests_for_eval=3"]
    words = ["--config", "c.yaml"] if way == "file" else options
    assert evaluate(folder, "m", "--base-url", url, "--tasks", "exact", "--limit", "1", *words, "--quiet") == 0
    [warning] = [record.getMessage() for record in caplog.records if "ignores" in record.msg]
    assert sorted(warning.removeprefix("`evaluate` ignores these settings: ").split(", ")) == [
        "env.seed",
        "env.tokenizer_name",
        "env.use_wandb",
        "openai.num_requests_for_eval",
    ]


@pytest.mark.parametrize("only", ["--dry-run", "--print-config"])
def test_ignored_settings_are_reported_even_if_nothing_is_evaluated(
    folder: Path, caplog: pytest.LogCaptureFixture, only: str
) -> None:
    assert evaluate(folder, "m", "--tasks", "exact", "--env.group_size", "8", only) == 0
    assert caplog.messages == ["`evaluate` ignores these settings: env.group_size"]


def test_every_config_file_setting_is_accepted_as_an_option() -> None:
    names = [*(f"env.{name}" for name in NAMES_OF_TRAINING), *(f"openai.{name}" for name in NAMES_OF_SERVER)]
    known = full_parser("evaluate", NAMES_OF_TRAINING, NAMES_OF_SERVER)._option_string_actions
    assert [name for name in names if f"--{name}" not in known] == []
    assert read_request({"env.batch_size": "8"}).ignored == ["env.batch_size"]


def test_misspelt_setting_raises_before_a_request_is_sent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret-key")
    (folder / "c.yaml").write_text("env: {tasks: exact}\nopenai: {base_ur: http://127.0.0.1:9/v1}\n")
    with pytest.raises(ConfigError, match=r"^openai\.base_ur: .*did you mean base_url"):
        evaluate(folder, "m", "--config", "c.yaml")


@pytest.mark.parametrize(
    ("words", "tokens"),
    [
        (["--env.max_token_length", "4096"], "4,096 tokens a completion, prompt included"),
        (["--max-tokens", "100"], "100 tokens a completion\n"),
        (["--env.chat_template", "plain"], "2,048 tokens a completion, prompt included"),
    ],
)
def test_max_tokens_option_limits_completions(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], tokens: str
) -> None:
    assert evaluate(folder, "m", "--tasks", "exact", *words, "--dry-run") == 0
    assert tokens in capsys.readouterr().out


@pytest.mark.parametrize(("score", "fails"), [(0.5, True), (0.8, False), (None, True)])
def test_evaluate_raises_if_the_mean_score_is_below_the_minimum(score: float | None, fails: bool) -> None:
    with pytest.raises(ReasoningEnvError, match="--fail-under") if fails else contextlib.nullcontext():
        check_score(results_with(mean_score=score), 0.8, None)


@pytest.mark.parametrize(
    ("failed", "least", "most_failed", "fails"),
    [(6, 0.8, None, True), (6, None, None, False), (6, None, 0.7, True), (6, 0.8, 0.8, False), (0, 0.8, None, False)],
)
def test_evaluate_raises_if_more_completions_fail_than_allowed(
    failed: int, least: float | None, most_failed: float | None, fails: bool
) -> None:
    said = r"--max-failed: 6 of 8 completions failed \(75%\), more than the allowed "
    with pytest.raises(ReasoningEnvError, match=said) if fails else contextlib.nullcontext():
        check_score(results_with(mean_score=1.0, failed=failed, completions=8 - failed), least, most_failed)


def results_with(**overall: Any) -> Any:
    return {"overall": {"problems": 8, "completions": 8, "failed": 0, **overall}}


def test_long_inference_outage_is_logged_repeatedly_by_the_evaluate_command(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("reasoning_env.runtime.retries.FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr("reasoning_env.runtime.retries.OutageLog.REPEAT_S", 0.02)
    words = ["--tasks", "exact", "--limit", "2", "--env.startup_timeout_s", "60"]
    with RightAnswers() as server:
        server.fail(respond(502), only=lambda _request, _body: bool(server.requests))

        def recover_after_three_reports() -> None:
            wait_until(lambda: caplog.text.count("requests fail and are retried") >= 3, "three reports")
            server.recover()

        recovering = threading.Thread(target=recover_after_three_reports)
        recovering.start()
        assert evaluate(folder, "m", "--base-url", f"{server.url}/v1", *words) == 0
        recovering.join()
