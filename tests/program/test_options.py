from __future__ import annotations

import re

import pytest
from pydantic.fields import FieldInfo

from reasoning_env.atropos.cli import environment_options
from reasoning_env.program.options import ABOUT, OptionParser, help_text, option_parser, short_names
from reasoning_env.program.training import EvaluateSettings, TrainingSettings
from reasoning_env.settings import ReasoningSettings
from reasoning_gym_environment import ReasoningGymEnv


def parser(command: str = "process") -> OptionParser:
    fields = {name: FieldInfo(annotation=str) for name in ("group_size", "tasks", "eval_preset")}
    return option_parser("program", command, fields, {"timeout": FieldInfo(annotation=float)})


def test_switch_option_needs_no_value() -> None:
    assert parser().read(["--print-config", "--config", "x"]) == {"print-config": True, "config": ["x"]}


def test_parser_returns_both_files_of_a_config_option_given_twice() -> None:
    assert parser().read(["--config", "x", "--config=y"]) == {"config": ["x", "y"]}


def test_option_accepts_a_negative_number() -> None:
    assert parser().read(["--env.group_size", "-1"]) == {"env.group_size": "-1"}


def test_preset_option_sets_eval_preset() -> None:
    assert parser().read(["--preset", "rg-easy"]) == {"env.eval_preset": "rg-easy"}


@pytest.mark.parametrize(
    ("argv", "setting"),
    [
        (["--model", "7"], "openai.model_name"),
        (["7"], "openai.model_name"),
        (["--base-url", "7"], "openai.base_url"),
        (["--tasks", "7"], "env.eval_tasks"),
        (["--limit", "7"], "env.num_eval_samples_per_task"),
        (["-n", "7"], "env.eval_repeats"),
        (["--repeats=7"], "env.eval_repeats"),
        (["--temperature", "7"], "env.eval_temperature"),
        (["--max-tokens", "7"], "env.eval_max_completion_tokens"),
        (["--seed", "7"], "env.eval_seed"),
        (["--concurrency", "7"], "env.max_eval_workers"),
    ],
)
def test_settings_can_be_set_with_short_options_of_the_evaluate_command(argv: list[str], setting: str) -> None:
    assert parser("evaluate").read(argv) == {setting: "7"}


def test_settings_can_be_set_with_short_options_of_the_process_command() -> None:
    argv = ["--tasks", "a", "--seed=1", "-n", "2"]
    assert parser("process").read(argv) == {"env.tasks": "a", "env.seed": "1", "env.group_size": "2"}


def test_parser_records_which_option_name_the_user_typed_for_a_setting() -> None:
    assert parser("evaluate").typed(["-n", "3", "--tasks=gcd"]) == {
        "env.eval_repeats": "-n",
        "env.eval_tasks": "--tasks",
    }


@pytest.mark.parametrize("command", ["serve", "process", "evaluate"])
def test_command_help_fits_a_screen(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    lines = help_text("python reasoning_gym_environment.py", command).splitlines()
    assert len(lines) <= 36
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize("command", ["serve", "process", "evaluate"])
def test_options_mentioned_in_help_exist(command: str) -> None:
    known = environment_options(ReasoningGymEnv, command)._option_string_actions
    named = set(re.findall(r"(?<![\w-])--?[a-z](?:[\w.-]*\w)?", help_text("program", command)))
    assert named - known.keys() == {"--env.NAME", "--openai.NAME"}
    assert {"--config", "--tasks", "--model", "--base-url", "--seed"} <= named


def test_each_command_has_exactly_the_short_options_listed_here() -> None:
    common = {"--base-url", "--model", "--preset", "--temperature", "--tasks", "--seed"}
    of_sources = {"--task-modules", "--checkout", "--rewards"}
    assert {command: set(short_names(command)) - common - of_sources for command in ABOUT} == {
        "serve": set(),
        "process": {"-n"},
        "evaluate": {"--limit", "-n", "--repeats", "--concurrency", "--max-tokens"},
    }


@pytest.mark.parametrize("command", ["serve", "process", "evaluate"])
def test_command_help_points_to_the_settings_command(command: str) -> None:
    text = " ".join(help_text("program", command).split())
    assert "List all settings with `program settings`" in text


def test_help_of_the_evaluate_command_names_the_environment_variable_for_the_api_key() -> None:
    assert "Set the server's key in OPENAI_API_KEY." in " ".join(help_text("program", "evaluate").split())


@pytest.mark.parametrize(
    ("command", "settings"),
    [("serve", TrainingSettings), ("process", TrainingSettings), ("evaluate", EvaluateSettings)],
)
def test_command_help_shows_defaults(command: str, settings: type[ReasoningSettings]) -> None:
    defaults = {f"env.{name}": field.default for name, field in settings.model_fields.items()}
    shown = {
        action.dest: words[1]
        for action in option_parser("", command, (), ())._actions
        if (words := re.search(r"default: (.+)\)", action.help or "")) and defaults.get(action.dest)
    }
    assert shown and shown == {name: str(defaults[name]) for name in shown}
