from __future__ import annotations

import importlib
import importlib.metadata
import io
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from reasoning_env.commands.main import HELP, main
from reasoning_env.errors import ConfigError, ServerError
from reasoning_env.program.parser import program
from reasoning_env.storage import folders
from tests.reports.lines import group, rollout, write

ROOT = Path(__file__).resolve().parents[2]


def _run(tmp_path: Path, *argv: str, **serve: Any) -> int:
    """Run a command. `serve` is a Mock with these options, so it returns a value or raises."""
    return main(argv, {"serve": Mock(**serve)}, environment_file=tmp_path / "environment.py")


@pytest.mark.parametrize("argv", [[], ["-h"], ["--help"], ["help"]])
def test_help_of_the_program_lists_all_commands(
    tmp_path: Path, argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(tmp_path, *argv) == 0
    output = capsys.readouterr().out
    assert all(f"\n  {command} " in output for command in HELP)


@pytest.mark.parametrize("argv", [("evaluate", "help"), ("help", "serve"), ("settings", "help"), ("process", "help")])
def test_help_argument_before_or_after_a_command_prints_the_command_help(
    tmp_path: Path, argv: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(tmp_path, *argv) == 0
    command = argv[1] if argv[0] == "help" else argv[0]
    assert capsys.readouterr().out.startswith(f"usage: {program()} {command} ")


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_version_option_prints_versions(tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(tmp_path, option) == 0
    assert "reasoning-gym" in capsys.readouterr().out


def test_characters_that_the_terminal_cannot_encode_are_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding="latin-1"))
    assert main(["settings", "num_gen"], {}, environment_file=tmp_path / "environment.py") == 0
    sys.stdout.flush()
    assert b"\\u2265 1" in written.getvalue()


def test_command_receives_the_arguments_that_follow_the_command_name(tmp_path: Path) -> None:
    serve = Mock(return_value=5)
    assert main(["serve", "--env.seed", "-7"], {"serve": serve}, environment_file=tmp_path / "environment.py") == 5
    serve.assert_called_once_with(["--env.seed", "-7"])


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (ConfigError("bad setting"), 2, "bad setting"),
        (ServerError("no server"), 1, "no server"),
        (ConnectionRefusedError(111, "refused"), 1, "ConnectionRefusedError: [Errno 111] refused"),
    ],
)
def test_error_caused_by_the_user_prints_one_line(
    tmp_path: Path, error: Exception, status: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(tmp_path, "serve", side_effect=error) == status
    assert capsys.readouterr().err == f"{program()} serve: {words}\n"


def test_unexpected_error_keeps_its_traceback(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        _run(tmp_path, "serve", side_effect=ZeroDivisionError)


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        (["/bin/reasoning-gym-environment", "tasks"], "reasoning-gym-environment"),
        (["-u", "-m", "environments.my_env", "serve"], "python -m environments.my_env"),
        (["my env.py", "evaluate", "-m", "x"], "python 'my env.py'"),
    ],
)
def test_error_begins_with_the_command_that_the_user_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: list[str], shown: str
) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["python", *typed])
    monkeypatch.setattr(sys, "argv", typed)
    assert _run(tmp_path, "taks") == 2
    assert capsys.readouterr().err.startswith(f"{shown} taks: there is no command 'taks'")


def test_install_advice_lists_the_packages_of_the_missing_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = ["aiohttp>=3", 'pyarrow>=19; extra == "data"', 'ray[data]<3,>=2.60; extra == "ray"']
    monkeypatch.setattr(folders, "FOLDER", tmp_path)
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: needed)
    assert folders.install_command("ray") == "pip install 'ray[data]<3,>=2.60'"


def test_ctrl_c_ends_a_command_with_status_130(tmp_path: Path) -> None:
    assert _run(tmp_path, "serve", side_effect=KeyboardInterrupt) == 130


def test_closed_output_pipe_ends_a_command_with_status_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", sys.stdout)  # the command replaces sys.stdout
    assert _run(tmp_path, "serve", side_effect=BrokenPipeError) == 1
    sys.stdout.close()


def test_error_of_the_demo_command_names_a_missing_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = ModuleNotFoundError("No module named 'tokenizers'", name="tokenizers")
    monkeypatch.setattr(importlib, "import_module", Mock(side_effect=missing))
    assert _run(tmp_path, "demo") == 2
    said = f"{program()} demo: the package tokenizers is missing; run `pip install '{ROOT}[atropos]'`"
    assert capsys.readouterr().err == f"{said}\n"


def test_report_command_finds_dumps_that_the_demo_command_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "data_dumps" / "demo" / "reasoning_gym_environment_rollouts_a_0000.jsonl", group(rollout()))
    assert main(["report", "-o", "page.html"], {}, environment_file=tmp_path / "elsewhere" / "environment.py") == 0
