from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from reasoning_env.errors import ConfigError
from reasoning_env.program.config_files import merge_settings, read_config_file, read_given
from reasoning_env.settings import ReasoningSettings
from reasoning_gym_environment import ReasoningGymEnvConfig


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"env: [unclosed", "not YAML"),
        (b"env: \xff\xfe", "not YAML"),
        (b"!!python/object/apply:os.getcwd []", "not YAML"),
        (b"", "empty"),
        (b"---\nenv: {}\n---\nenv: {}", "not YAML: line 3, column 1: expected a single document in the stream"),
        (b"env:\n\ttasks: gcd", "not YAML: line 2, column 1: while scanning for the next token, found character"),
        (b"- env", "list"),
        (b"env: gcd", "env: must be a mapping of names to values; got 'gcd'"),
        (b"env: {1: 2}", "env: every name must be a string; got 1"),
        (b"envv: {}", "'envv', which is not a section; did you mean env"),
        (b"envv: {}\nslrum: true", "'envv', which is not a section; did you mean env\\?; 'slrum', which is not"),
        (b"1: {}", "contains 1, which is not a section; the sections are env, openai"),
        (b"env:\n", "env: .*got None"),
        (b"openai: []", "openai: must have at least one server"),
        (b"env: {tasks: gcd}\nopenai: {}\nenv: {}", "the key 'env' appears twice, in lines 1 and 3; keep one of them"),
        (b"env:\n  tasks: gcd\n  'tasks': lcm", "the key 'tasks' appears twice, in lines 2 and 3"),
        (b"env: {task_params: {gcd: {a: 1, a: 1}}}", "the key 'a' appears twice, in lines 1 and 1"),
        (b"openai: x", "openai: entry 0 .*got 'x'"),
        (b"openai: [7]", "openai: entry 0 .*got 7"),
        (b"slurm: perhaps", "slurm: .*got 'perhaps'"),
    ],
)
def test_invalid_config_file_raises_a_one_line_error(tmp_path: Path, content: bytes, named: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=f"^--config: .*{named}") as refusal:
        read_config_file(path)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", ["none.yaml", "."])
def test_error_names_the_unreadable_config_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=f"--config: .*{name}"):
        read_config_file(tmp_path / name)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_config_file_in_utf_16_or_utf_32_raises(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("env: {tasks: gcd}", encoding=encoding)
    with pytest.raises(ConfigError, match=f"is not YAML: the text is {encoding[:6].upper()}, but must be UTF-8"):
        read_config_file(path)


# ------------------------------------------------------------------ the core's settings


def core_settings(
    paths: list[str], defaults: dict[str, object], given: dict[str, object]
) -> tuple[ReasoningSettings, Sequence[str]]:
    """Return the settings that `judge` reads, and the names of the settings that it ignores."""
    read = read_given("judge", paths, {})
    return merge_settings(ReasoningSettings, read.file.env, defaults, given), read.ignored


def write(folder: Path, content: str) -> list[str]:
    path = folder / "config.yaml"
    path.write_text(content)
    return [str(path)]


def test_command_line_overrides_the_config_file(tmp_path: Path) -> None:
    paths = write(tmp_path, "env: {tasks: gcd, num_verifiers: 3}")
    settings, _ = core_settings(paths, {"tasks": "lcm", "num_generators": 7}, {"num_verifiers": 4})
    assert (settings.tasks, settings.num_generators, settings.num_verifiers) == (["gcd"], 7, 4)


def test_ignored_trainer_settings_of_a_config_file_are_listed(tmp_path: Path) -> None:
    paths = write(tmp_path, "env: {group_size: 5, tasks: gcd}\nopenai: {model_name: a}\nslurm: false")
    settings, ignored = core_settings(paths, {}, {})
    assert (settings.tasks, ignored) == (["gcd"], ["env.group_size", "openai.model_name", "slurm"])


def test_config_file_accepts_every_trainer_setting(tmp_path: Path) -> None:
    names = sorted(ReasoningGymEnvConfig.model_fields.keys() - ReasoningSettings.model_fields.keys())
    paths = write(tmp_path, "env:\n" + "".join(f"  {name}: 1\n" for name in names))
    assert core_settings(paths, {}, {})[1] == [f"env.{name}" for name in names]


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("env: {reward: plain}", "env.reward: .*did you mean rewards"),
        ("env: {bonus: 3}", "env.bonus: there is no such setting; the command `settings` lists all settings$"),
        ("openai: {base_ur: x}", "openai.base_ur: there is no such setting; did you mean base_url"),
        (
            "env: {dataset: x, max_eval_samples: 3}",
            "env.dataset: .*generated, not downloaded.*; env.max_eval_samples: ",
        ),
        ("openai: [{modelname: x}, {foo: y}]", "openai.modelname: .*; openai.foo: "),
        ("env: {scoring_deadline_s: x}", "env.scoring_deadline_s: "),
        ("env: {num_verifiers: 0}", "env.num_verifiers: "),
        ("envv: {}", "--config: "),
    ],
)
def test_config_file_error_names_the_invalid_setting(tmp_path: Path, content: str, named: str) -> None:
    with pytest.raises(ConfigError, match=f"^{named}"):
        core_settings(write(tmp_path, content), {}, {})
