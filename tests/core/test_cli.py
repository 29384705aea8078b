from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError, create_model, model_validator
from pydantic_cli import Cmd
from pydantic_cli.argparse import FailedExecutionException

from reasoning_env.commands import main as cli
from reasoning_env.commands.main import COMMANDS, describe_error, main
from reasoning_env.errors import ConfigError, ServerError, WorkerError
from reasoning_env.settings import ReasoningSettings
from reasoning_env.signals import Interrupted


class EnvConfig(ReasoningSettings):
    model_config = ConfigDict(extra="forbid")

    group_size: int = 4

    @model_validator(mode="after")
    def _check(self) -> EnvConfig:
        if self.group_size < 1:
            raise ValueError(f"group_size must be at least 1; got {self.group_size}")
        return self


class ServerConfig(BaseModel):
    base_url: str = "http://localhost"


Work = Callable[[Any], None]


def _make_env(work: Work) -> type:
    """As much of an environment class as the command line uses; each of its commands does `work` with its options."""

    class Working(Cmd):
        def run(self) -> None:
            work(self)

    # Options are named as Atropos names them, with dots.
    options: dict[str, Any] = {"env.number": (int, 0), "env.group_size": (int, 4), "config": (str | None, None)}
    command_cls = create_model("Command", __base__=Working, **options)

    class Env:
        env_config_cls = EnvConfig

        @classmethod
        def config_init(cls) -> tuple[EnvConfig, list[ServerConfig]]:
            return EnvConfig(), [ServerConfig()]

        @classmethod
        def get_cli_serve_config_cls(cls) -> type[BaseModel]:
            return command_cls

        get_cli_process_config_cls = get_cli_evaluate_config_cls = get_cli_serve_config_cls

    return Env


def _nothing(options: Any) -> None:
    pass


Env = _make_env(_nothing)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The commands write into sys.argv and set levels of other packages' loggers."""
    monkeypatch.setattr("sys.argv", ["environment.py"])
    loggers = [logging.getLogger(name) for name in ("httpx", "httpx2", "openai")]
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


def _run(folder: Path, *argv: str, work: Work = _nothing) -> int:
    return main(_make_env(work), argv, environment_file=folder / "environment.py")


def _raise(error: BaseException) -> Work:
    def work(options: Any) -> None:
        raise error

    return work


# ------------------------------------------------------------------ commands


@pytest.mark.parametrize("argv", [[], ["-h"], ["--help"], ["help"]])
def test_help_names_every_command(folder: Path, argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(folder, *argv) == 0
    output = capsys.readouterr().out
    assert output.startswith("usage: python environment.py COMMAND")
    assert all(f"\n  {command} " in output for command in COMMANDS)


def test_unknown_command_is_one_line_with_the_nearest(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(folder, "sevre") == 2
    assert capsys.readouterr().err == "environment sevre: there is no command 'sevre'; did you mean serve?\n"


def test_unknown_command_like_no_other_gets_no_guess(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(folder, "xyz") == 2
    assert capsys.readouterr().err == "environment xyz: there is no command 'xyz'\n"


@pytest.mark.parametrize("command", ["serve", "process", "evaluate"])
def test_command_that_ends_well_returns_zero(folder: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    numbers: list[int] = []
    work: Work = lambda options: numbers.append(getattr(options, "env.number"))  # noqa: E731
    assert _run(folder, command, "--env.number", "-7", work=work) == 0
    assert numbers == [-7]
    assert capsys.readouterr().err == ""


def test_arguments_are_left_where_atropos_reads_them_again(folder: Path) -> None:
    seen: list[list[str]] = []
    _run(folder, "serve", "--env.number", "-7", work=lambda options: seen.append(list(sys.argv)))
    assert seen == [["environment.py", "serve", "--env.number=-7"]]


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (ConfigError("bad setting"), 2, "bad setting"),
        (ServerError("no server"), 1, "no server"),
        (WorkerError("no workers"), 1, "no workers"),
        (Interrupted(15), 143, "stopped by SIGTERM"),
        (Interrupted(2), 130, "stopped by SIGINT"),
        (ConnectionRefusedError(111, "refused"), 1, "ConnectionRefusedError: [Errno 111] refused"),
    ],
)
def test_error_of_the_user_is_one_line_and_a_status(
    folder: Path, error: Exception, status: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(folder, "serve", work=_raise(error)) == status
    assert capsys.readouterr().err == f"environment serve: {words}\n"


def test_error_of_ours_keeps_its_traceback(folder: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        _run(folder, "serve", work=_raise(ZeroDivisionError()))


def test_ctrl_c_is_no_traceback(folder: Path) -> None:
    assert _run(folder, "serve", work=_raise(KeyboardInterrupt())) == 130


def test_unknown_option_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(folder, "serve", "--env.grup_size", "4") == 2
    error = capsys.readouterr().err
    assert error == "environment serve: there is no option --env.grup_size; did you mean --env.group_size?\n"


def test_option_of_the_wrong_type_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(folder, "serve", "--env.number", "many") == 2
    error = capsys.readouterr().err
    assert error.startswith("environment serve: ")
    assert "number" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("option", [["--config", "{}"], ["--config={}"]])
def test_config_file_is_checked_before_the_command(
    folder: Path, option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    missing = folder / "missing.yaml"
    assert _run(folder, "serve", *(part.format(missing) for part in option), work=_raise(AssertionError())) == 2
    assert capsys.readouterr().err == (
        f"environment serve: --config: {missing} cannot be read: No such file or directory\n"
    )


def test_settings_prints_the_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(folder, "settings") == 0
    assert "| `group_size` | `4` | at least 1 |" in capsys.readouterr().out


def test_recover_takes_the_dumps_beside_the_environment_by_default(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "data_dumps").mkdir()
    assert _run(folder, "recover") == 0
    assert capsys.readouterr().out == f"nothing to do in {folder / 'data_dumps'}\n"


def test_recover_without_a_folder_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(folder, "recover", str(folder / "missing")) == 2
    error = capsys.readouterr().err
    assert error.startswith("environment recover: ")
    assert error.count("\n") == 1


def test_demo_gets_its_arguments(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def demo_main(argv: list[str], *, environment_file: Path) -> int:
        calls.append((argv, environment_file))
        return 5

    monkeypatch.setattr(cli, "_demo", lambda environment_file: SimpleNamespace(main=demo_main))
    assert _run(folder, "demo", "--batches", "3") == 5
    assert calls == [(["--batches", "3"], folder / "environment.py")]


# ------------------------------------------------------------------ one line for each kind of error


def _validation_error(**values: Any) -> ValidationError:
    with pytest.raises(ValidationError) as refusal:
        EnvConfig(**values)
    return refusal.value


@pytest.mark.parametrize(
    ("values", "description"),
    [
        ({"temperature": 3}, "temperature: Input should be less than or equal to 2; got 3"),
        ({"group_size": 0}, "group_size must be at least 1; got 0"),
        ({"temprature": 1}, "there is no setting 'temprature'; did you mean temperature, eval_temperature?"),
        (
            {"top_p": 0, "num_generators": "x"},
            "top_p: Input should be greater than 0; got 0; "
            "num_generators: Input should be a valid integer, unable to parse string as an integer; got 'x'",
        ),
    ],
)
def test_validation_error_names_the_field_what_is_allowed_and_what_came(
    values: dict[str, Any], description: str
) -> None:
    assert describe_error(_validation_error(**values), Env) == description


def test_validation_error_of_the_tasks_names_the_field() -> None:
    description = describe_error(_validation_error(tasks=7), Env)
    assert description is not None
    assert description.startswith("tasks: ")


@pytest.mark.parametrize(
    ("message", "description"),
    [
        ("usage: x\nx: error: unrecognized arguments:\n  a", "unrecognized arguments: a"),
        ("usage: x\nx: error: argument --env.seed: invalid int value: 'y'", "argument --env.seed: invalid int value"),
    ],
)
def test_usage_error_is_its_last_line(message: str, description: str) -> None:
    described = describe_error(FailedExecutionException(2, message), Env)
    assert described is not None
    assert described.startswith(description)


def test_retries_that_were_given_up_name_the_cause() -> None:
    error = RuntimeError("RetryError")
    error.last_attempt = SimpleNamespace(exception=lambda: ConnectionError("gone"))  # type: ignore[attr-defined]
    assert describe_error(error, Env) == "gave up after several tries: ConnectionError: gone"


@pytest.mark.parametrize("error", [ZeroDivisionError(), AssertionError("impossible"), KeyError("x")])
def test_error_that_only_we_can_cause_has_no_description(error: Exception) -> None:
    assert describe_error(error, Env) is None
