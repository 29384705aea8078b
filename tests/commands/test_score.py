from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from reasoning_env.commands.main import main
from reasoning_env.commands.score import score_command
from reasoning_env.errors import ConfigError, GenerationError
from reasoning_env.program.running import run_to_end
from reasoning_env.program.shared_options import problem_as_json, show_answer
from reasoning_env.session import Session
from reasoning_env.settings import ReasoningSettings
from tests.records import make_problem


@pytest.mark.parametrize(
    ("text", "score", "reason", "read"),
    [
        ("<think>?</think><answer> 21 </answer>", 1.0, "right", "21"),
        ("<answer>8</answer>", 0.0, "wrong", "8"),
        ("21", 0.0, "no_answer", None),
    ],
)
def test_score_command_prints_score_and_reason_of_a_completion(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str, score: float, reason: str, read: str | None
) -> None:
    assert score_command(["Exact", "--seed", "7", text, "--json"], folder) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["score"], result["reason"], result["read"]) == (score, reason, read)
    assert (result["answer"], result["seed"]) == ("21", 7)
    assert result["prompt"][-1]["content"].startswith("First line of 7.")


def test_score_command_accepts_a_problem_reference(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def reference() -> str:
        settings = ReasoningSettings(tasks=["exact"], num_generators=1, num_verifiers=1)
        async with Session(settings, checkout=folder / "reasoning-gym") as session:
            return (await session.make("exact", 7)).reference

    name = run_to_end(reference)
    assert score_command([name, "<answer>21</answer>", "--json"], folder) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["seed"], result["score"]) == (7, 1.0)
    with pytest.raises(ConfigError, match="a reference contains the problem's parameters and level"):
        score_command([name, "<answer>21</answer>", "--level", "0.5"], folder)


def test_score_command_shows_a_wrong_library_answer_and_its_correction() -> None:
    problem = replace(make_problem(), answer="2", metadata_json='{"library_answer": "3"}')
    assert show_answer(problem) == "2   (corrected: reasoning-gym's own answer is 3)"
    assert problem_as_json(problem)["library_answer"] == "3"


@pytest.mark.parametrize(("formats", "reason"), [("magistral", "right"), ("auto", "several_answers")])
def test_thinking_option_selects_the_thinking_format(
    folder: Path, capsys: pytest.CaptureFixture[str], formats: str, reason: str
) -> None:
    text = "[THINK]<answer>8</answer>[/THINK]<answer>21</answer>"
    assert score_command(["exact", "--seed", "7", text, "--thinking", formats, "--json"], folder) == 0
    assert json.loads(capsys.readouterr().out)["reason"] == reason


def test_score_command_reads_utf8_from_stdin_on_an_ascii_terminal(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    piped = io.BytesIO("<answer>schön</answer>".encode())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(piped, encoding="ascii"))
    assert main(["score", "exact", "-", "--json"], {}, environment_file=folder / "environment.py") == 0
    assert json.loads(capsys.readouterr().out)["read"] == "schön"


def test_score_command_escapes_control_characters_of_a_completion_read_from_a_pipe(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("<answer>\x1b[2J</answer>"))
    assert score_command(["generous", "-"], folder) == 0
    output = capsys.readouterr().out
    assert "First line of 42." in output
    assert r"\x1b[2J" in output
    assert "\x1b" not in output


@pytest.mark.parametrize(
    ("task", "error"), [("games", ConfigError), ("exat", ConfigError), ("broken", GenerationError)]
)
def test_score_command_raises_on_an_unknown_or_broken_task(folder: Path, task: str, error: type[Exception]) -> None:
    with pytest.raises(error, match=task):
        score_command([task, "<answer>1</answer>"], folder)


def test_score_command_reads_parameters_from_the_config_file(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "run.yaml"
    config.write_text("env: {tasks: 'exact,generous', task_params: {exact: {colour: red}}, thinking: magistral}")
    assert score_command(["exact", "<answer>8</answer>", "--json", "--config", str(config)], folder) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["params"]["colour"] == "red"
    assert "magistral" in result["thinking_formats"]
