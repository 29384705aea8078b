from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model, model_validator
from pydantic_cli import Cmd
from pydantic_cli.argparse import FailedExecutionException

from reasoning_env.atropos.cli import (
    CHATTY_LOGGERS,
    check_config_file,
    commands,
    describe_validation,
    explain,
    join_options,
)
from reasoning_env.errors import ConfigError, ServerError

KNOWN = ("env.group_size", "env.tasks", "env.temperature", "config")


class EnvConfig(BaseModel):
    model_config = ConfigDict(extra="forbid")

    temperature: float = Field(default=1.0, le=2.0)
    group_size: int = 4
    tasks: list[str] | str = ""

    @model_validator(mode="after")
    def _check(self) -> EnvConfig:
        if self.group_size < 1:
            raise ValueError(f"group_size must be at least 1; got {self.group_size}")
        return self


class ServerConfig(BaseModel):
    base_url: str = "http://localhost"
    timeout: int = Field(default=10, ge=1)


# ------------------------------------------------------------------ options


@pytest.mark.parametrize(
    ("argv", "joined"),
    [
        (["--env.group_size", "-1", "--config", "a.yaml"], ["--env.group_size=-1", "--config=a.yaml"]),
        (["--env.tasks", "a,b c"], ["--env.tasks=a,b c"]),
        (["--env.tasks", ""], ["--env.tasks="]),
        (["--env.tasks=a=b"], ["--env.tasks=a=b"]),
        (["-h"], ["--help"]),
        (["--config", "x", "--help"], ["--config=x", "--help"]),
    ],
)
def test_options_are_joined_with_their_values(argv: list[str], joined: list[str]) -> None:
    assert join_options(argv, KNOWN) == joined


VALUES = st.text().filter(lambda value: not value.startswith("--"))


@given(st.lists(st.tuples(st.sampled_from(KNOWN), VALUES, st.booleans()), max_size=5))
def test_both_ways_to_write_an_option_are_joined_alike(options: list[tuple[str, str, bool]]) -> None:
    argv = [
        word
        for name, value, together in options
        for word in ([f"--{name}={value}"] if together else [f"--{name}", value])
    ]
    assert join_options(argv, KNOWN) == [f"--{name}={value}" for name, value, _ in options]


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["--env.grup_size", "8"], "no option --env.grup_size; did you mean --env.group_size"),
        (["--xyz"], "no option --xyz"),
        (["group_size=8"], "'group_size=8'"),
        (["--config", "a.yaml", "b.yaml"], "'b.yaml'"),
        (["-x"], "'-x'"),
        (["--config"], "--config needs a value"),
        (["--config", "--env.tasks", "a"], "--config needs a value"),
    ],
)
def test_mistake_on_the_command_line_is_named(argv: list[str], named: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        join_options(argv, KNOWN)
    assert named in str(refusal.value)


# ------------------------------------------------------------------ config files


def _check(folder: Path, content: str | bytes) -> None:
    path = folder / "config.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    check_config_file(path, ServerConfig)


@pytest.mark.parametrize(
    "content",
    [
        "env:\n  group_size: 8\nopenai:\n  - base_url: x\n  - timeout: 5\nslurm: false\ntesting: true\n",
        "openai:\n  base_url: x\n",
        "env: {}",
        "openai: []",
        "{}",
        "env:\n  system_prompt: é\n",
    ],
)
def test_config_file_with_known_parts_passes(tmp_path: Path, content: str) -> None:
    _check(tmp_path, content)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("env: [unclosed", "not YAML"),
        ("env:\n\t- tab", "not YAML"),
        (b"env: \xff\xfe", "not YAML"),
        (b"env: \x00", "not YAML"),
        ("!!python/object/apply:os.getcwd []", "not YAML"),
        ("", "NoneType"),
        ("just text", "str"),
        ("- env", "list"),
        ("envv: {}", "'envv'; did you mean env"),
        ("1: {}", "section 1"),
        ("env: 7", "section env"),
        ("env:\n", "section env"),
        ("openai: x", "'x'"),
        ("openai: [7]", "7"),
        ("openai:\n", "None"),
        ("openai:\n  - base_ulr: x", "'base_ulr'; did you mean base_url"),
        ("openai:\n  - {}\n  - timeout: 0", "timeout: .*greater than or equal to 1; got 0"),
    ],
)
def test_config_file_that_cannot_work_is_refused_in_one_line(tmp_path: Path, content: str | bytes, named: str) -> None:
    with pytest.raises(ConfigError, match=f"^--config: .*{named}") as refusal:
        _check(tmp_path, content)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", ["none.yaml", "."])
def test_file_that_is_missing_or_a_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r"--config: .* cannot be read"):
        check_config_file(tmp_path / name, ServerConfig)


# ------------------------------------------------------------------ mistakes in words


@pytest.mark.parametrize(
    ("values", "description"),
    [
        ({"temperature": 3}, "temperature: Input should be less than or equal to 2; got 3"),
        ({"group_size": 0}, "group_size must be at least 1; got 0"),
        ({"temprature": 1}, "there is no setting 'temprature'; did you mean temperature?"),
        (
            {"temperature": "x", "xyz": 1},
            "temperature: Input should be a valid number, unable to parse string as a number; got 'x'; "
            "there is no setting 'xyz'",
        ),
        ({"tasks": 7}, "tasks: Input should be a valid list; got 7; tasks: Input should be a valid string; got 7"),
    ],
)
def test_mistakes_name_the_setting_what_is_allowed_and_what_came(values: dict[str, Any], description: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        EnvConfig(**values)
    assert describe_validation(refusal.value, list(EnvConfig.model_fields)) == description


@pytest.mark.parametrize(
    ("message", "description"),
    [
        ("usage: x\nx: error: unrecognized arguments:\n  a", "unrecognized arguments: a"),
        ("usage: x\nx: error: argument --env.seed: invalid int value: 'y'", "argument --env.seed: invalid int value"),
    ],
)
def test_usage_error_is_its_last_line(message: str, description: str) -> None:
    explained = explain(FailedExecutionException(2, message), EnvConfig)
    assert isinstance(explained, ConfigError)
    assert str(explained).startswith(description)


def test_retries_that_were_given_up_name_the_cause() -> None:
    error = RuntimeError("RetryError")
    error.last_attempt = SimpleNamespace(exception=lambda: ConnectionError("gone"))  # type: ignore[attr-defined]
    explained = explain(error, EnvConfig)
    assert isinstance(explained, ServerError)
    assert "ConnectionError: gone" in str(explained)


# ------------------------------------------------------------------ commands

Work = Callable[[Any], None]


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The commands write into sys.argv and set levels of other packages' loggers."""
    monkeypatch.setattr("sys.argv", ["environment.py"])
    loggers = [logging.getLogger(name) for name in CHATTY_LOGGERS]
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


def _run(*argv: str, work: Work = lambda options: None) -> int:
    """Run a command of an environment class that does `work` with its options."""

    class Working(Cmd):
        def run(self) -> None:
            work(self)

    # Options are named as Atropos names them, with dots.
    options: dict[str, Any] = {"env.number": (int, 0), "config": (str | None, None)}
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

    name, *arguments = argv
    return commands(Env)[name](arguments)


def _raise(error: BaseException) -> Work:
    def work(options: Any) -> None:
        raise error

    return work


@pytest.mark.parametrize("command", ["serve", "process", "evaluate"])
def test_command_gets_its_options_and_returns_zero(command: str) -> None:
    numbers: list[int] = []
    assert _run(command, "--env.number", "-7", work=lambda options: numbers.append(getattr(options, "env.number"))) == 0
    assert numbers == [-7]


def test_arguments_are_left_where_atropos_reads_them_again() -> None:
    seen: list[list[str]] = []
    _run("serve", "--env.number", "-7", work=lambda options: seen.append(list(sys.argv)))
    assert seen == [["environment.py", "serve", "--env.number=-7"]]


@pytest.mark.parametrize("error", [ServerError("no server"), ConnectionRefusedError(111, "refused"), KeyError("x")])
def test_error_that_ends_a_command_is_raised_as_it_is(error: Exception) -> None:
    with pytest.raises(type(error)) as raised:
        _run("serve", work=_raise(error))
    assert raised.value is error


def test_option_of_the_wrong_type_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="number"):
        _run("serve", "--env.number", "many")


def test_setting_out_of_its_range_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="temperature"):
        _run("serve", work=lambda options: [EnvConfig(temperature=3)])  # type: ignore[arg-type]


@pytest.mark.parametrize("option", [["--config", "{}"], ["--config={}"], ["--config=other", "--config={}"]])
def test_config_file_that_counts_is_checked_before_the_command(tmp_path: Path, option: list[str]) -> None:
    missing = tmp_path / "missing.yaml"
    with pytest.raises(ConfigError, match=r"missing\.yaml cannot be read"):
        _run("serve", *(part.format(missing) for part in option), work=_raise(AssertionError()))
