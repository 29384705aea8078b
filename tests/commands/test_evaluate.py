"""The command `evaluate` without Atropos, over a small library and a server that knows every answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from reasoning_env.commands.evaluate import evaluate_command
from reasoning_env.commands.main import needs_environment
from reasoning_env.errors import ConfigError, ReasoningEnvError
from reasoning_gym_testing.http_server import FaultyServer

INSTALL = "pip install '.[atropos]'"


class RightAnswers(FaultyServer):
    """Answers the small library's questions, except those to the model `bad`, which is refused."""

    def make_app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self.complete)
        return app

    async def complete(self, request: web.Request) -> web.Response:
        asked = await request.json()
        if asked["model"] == "bad":
            return web.json_response({"error": {"message": "no such model"}}, status=404)
        number = re.search(r"First line of (\d+)", asked["messages"][-1]["content"])
        text = f"<answer>{3 * int(number[1])}</answer>" if number else ""
        choice = {"message": {"content": text}, "finish_reason": "stop"}
        return web.json_response({"choices": [choice], "usage": {"completion_tokens": 5}})


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with RightAnswers() as server:
        yield f"{server.url}/v1"


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def evaluate(folder: Path, *words: str) -> int:
    return evaluate_command(words, folder=folder, program="program", install_extra=INSTALL)


def test_one_model(folder: Path, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "c.yaml").write_text(f"env: {{eval_tasks: exact, group_size: 3}}\nopenai: {{base_url: {url}}}\n")
    assert evaluate(folder, "m", "--config", "c.yaml", "--limit", "2", "-n", "2", "--json") == 0
    results = json.loads(capsys.readouterr().out)
    assert results["overall"]["mean_score"] == 1.0
    assert (results["model"], results["server"]) == ("m", {"type": "chat", "base_url": url})
    assert (results["finished"], results["overall"]["completions"]) == (True, 4)
    [samples] = folder.glob("evals/m-*/samples.jsonl")
    assert len(samples.read_text().splitlines()) == 2


def test_several_models(folder: Path, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--base-url", url, "--tasks", "exact", "--limit", "1", "--env.startup_timeout_s", "0.1"]
    with pytest.raises(ReasoningEnvError, match=r"^1 of 3 models failed \(bad\)"):
        evaluate(folder, "a", "bad", "b", *words)
    said = capsys.readouterr().out
    assert [line.partition(":")[0] for line in said.splitlines() if ": 1 problem" in line] == ["a", "b"]
    assert "program compare" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("m --env.tokenizer_name x", "there is no option --env.tokenizer_name without Atropos; pip install"),
        ("m --openai.server_type vllm", "--openai.server_type: must be one of 'auto', 'chat'; got 'vllm'"),
        ("m --slurm true", "--slurm: needs Atropos; pip install"),
        ("m --limit 0", "--limit: must be at least 1; got '0'"),
        ("m --model n", "'m' is not an option"),
        ("m m", "m is named twice"),
        ("m --base-url nonsense", "--base-url: must begin with http:// or https://"),
        ("--model=", "--model: is empty; name the model"),
        ("m --preset rg-easy --seed 3", "--seed: a preset has seeds of its own; take the seed or --preset out"),
        ("m --openai.api_key $NOT_SET", "--openai.api_key: the environment variable NOT_SET is not set"),
        ("m --config servers.yaml", "--config: several inference servers need Atropos; pip install"),
        ("m --config typo.yaml", "env.eval_taks: there is no such setting; did you mean eval_tasks"),
        ("m --temperature nan", "--temperature: must be a number; got 'nan'"),
    ],
)
def test_mistake_is_one_line(folder: Path, words: str, said: str) -> None:
    (folder / "servers.yaml").write_text("openai: [{}, {}]\n")
    (folder / "typo.yaml").write_text("env: {eval_taks: gcd}\n")
    with pytest.raises(ConfigError) as error:
        evaluate(folder, *words.split())
    assert str(error.value).startswith(said)


def test_settings_as_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate(folder, "m", "--openai.api_key", "secret-key", "--print-config") == 0
    printed = capsys.readouterr().out
    assert "secret-key" not in printed
    (folder / "printed.yaml").write_text(printed)
    assert evaluate(folder, "--config", "printed.yaml", "--print-config") == 0
    assert capsys.readouterr().out == printed


def test_dry_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate(folder, "m", "--tasks", "exact", "--limit", "3", "--dry-run") == 0
    assert capsys.readouterr().out.startswith("3 problems of 1 task, 3 completions, at most 6,144 tokens")


@pytest.mark.parametrize("installed", [True, False])
def test_atropos_decides(installed: bool) -> None:
    assert needs_environment(["evaluate", "m"], has_atropos=installed) is installed
    assert needs_environment(["serve"], has_atropos=installed)
