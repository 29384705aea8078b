from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from reasoning_env.commands.arguments import check_config_file, describe_validation, join_options, nearest, option_value
from reasoning_env.errors import ConfigError

KNOWN = ("env.group_size", "env.tasks", "env.temperature", "config")


class ServerConfig(BaseModel):
    base_url: str = "http://localhost"
    timeout: int = Field(default=10, ge=1)


# ------------------------------------------------------------------ options


@pytest.mark.parametrize(
    ("argv", "joined"),
    [
        ([], []),
        (["--env.group_size", "8"], ["--env.group_size=8"]),
        (["--env.group_size=8"], ["--env.group_size=8"]),
        (["--env.group_size", "-1", "--config", "a.yaml"], ["--env.group_size=-1", "--config=a.yaml"]),
        (["--env.tasks", "a,b c"], ["--env.tasks=a,b c"]),
        (["--env.tasks", ""], ["--env.tasks="]),
        (["--env.tasks="], ["--env.tasks="]),
        (["--env.tasks=a=b"], ["--env.tasks=a=b"]),
        (["-h"], ["--help"]),
        (["--config", "x", "--help"], ["--config=x", "--help"]),
    ],
)
def test_options_are_joined_with_their_values(argv: list[str], joined: list[str]) -> None:
    assert join_options(argv, KNOWN) == joined


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--env.grup_size", "8"], "there is no option --env.grup_size; did you mean --env.group_size?"),
        (["--xyz"], "there is no option --xyz"),
        (["group_size=8"], "'group_size=8' is not an option; options begin with --, as in --env.group_size 8"),
        (
            ["--config", "a.yaml", "b.yaml"],
            "'b.yaml' is not an option; options begin with --, as in --env.group_size 8",
        ),
        (["--config"], "the option --config needs a value, as in --config=VALUE"),
        (["--config", "--env.tasks", "a"], "the option --config needs a value, as in --config=VALUE"),
        (["-x"], "'-x' is not an option; options begin with --, as in --env.group_size 8"),
    ],
)
def test_mistake_on_the_command_line_is_named(argv: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        join_options(argv, KNOWN)
    assert str(refusal.value) == message


VALUES = st.text().filter(lambda value: not value.startswith("--"))


@given(st.lists(st.tuples(st.sampled_from(KNOWN), VALUES, st.booleans()), max_size=5))
def test_both_ways_to_write_an_option_are_joined_alike(options: list[tuple[str, str, bool]]) -> None:
    argv = [
        word
        for name, value, together in options
        for word in ([f"--{name}={value}"] if together else [f"--{name}", value])
    ]
    assert join_options(argv, KNOWN) == [f"--{name}={value}" for name, value, _ in options]


def test_last_of_several_values_counts() -> None:
    joined = ["--config=a", "--env.tasks=x", "--config=b=c"]
    assert option_value(joined, "config") == "b=c"
    assert option_value(joined, "env.group_size") is None


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
    ("content", "message"),
    [
        ("env: [unclosed", "is not YAML: "),
        ("env:\n\t- tab", "is not YAML: "),
        (b"env: \xff\xfe", "is not YAML: "),
        (b"env: \x00", "is not YAML: "),
        ("!!python/object/apply:os.getcwd []", "is not YAML: "),
        ("", r"must hold sections \(env, openai, slurm, testing\); it holds a NoneType"),
        ("just text", "it holds a str"),
        ("- env", "it holds a list"),
        ("envv: {}", "has an unknown section 'envv'; did you mean env"),
        ("1: {}", "has an unknown section 1; allowed are"),
        ("env: 7", "the section env of .* must hold settings"),
        ("env:\n", "the section env of .* must hold settings"),
        ("openai: x", "the section openai of .* must hold the settings of a server, or a list of such; it holds 'x'"),
        ("openai: [7]", "it holds 7"),
        ("openai:\n", "it holds None"),
        ("openai:\n  - base_ulr: x", "there is no setting 'base_ulr'; did you mean base_url"),
        ("openai:\n  - {}\n  - timeout: 0", "timeout: Input should be greater than or equal to 1; got 0"),
    ],
)
def test_config_file_that_cannot_work_is_refused_in_one_line(
    tmp_path: Path, content: str | bytes, message: str
) -> None:
    with pytest.raises(ConfigError, match=f"^--config: .*{message}") as refusal:
        _check(tmp_path, content)
    assert "\n" not in str(refusal.value)


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--config: .*none\.yaml cannot be read: No such file or directory"):
        check_config_file(tmp_path / "none.yaml", ServerConfig)


def test_folder_is_no_config_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        check_config_file(tmp_path, ServerConfig)


# ------------------------------------------------------------------ mistakes in words


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")

    temperature: float = Field(default=1.0, le=2.0)
    tasks: list[str] | str = ""


@pytest.mark.parametrize(
    ("values", "description"),
    [
        ({"temperature": 3}, "temperature: Input should be less than or equal to 2; got 3"),
        ({"temprature": 1}, "there is no setting 'temprature'; did you mean temperature?"),
        (
            {"temperature": "x", "xyz": 1},
            "temperature: Input should be a valid number, unable to parse string as a number; got 'x'; "
            "there is no setting 'xyz'",
        ),
        (
            {"tasks": 7},
            "tasks: Input should be a valid list; got 7; tasks: Input should be a valid string; got 7",
        ),
    ],
)
def test_mistakes_name_the_setting_what_is_allowed_and_what_came(values: dict[str, Any], description: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        Strict(**values)
    assert describe_validation(refusal.value, list(Strict.model_fields)) == description


@pytest.mark.parametrize(("word", "hint"), [("tsks", "; did you mean tasks?"), ("xyz", ""), ("", "")])
def test_hint_names_what_is_near(word: str, hint: str) -> None:
    assert nearest(word, ["tasks", "temperature"]) == hint
