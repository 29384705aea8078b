from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reasoning_env.commands.samples import QUESTION_CHARACTERS
from reasoning_env.commands.tasks import tasks_command
from reasoning_env.errors import ConfigError
from reasoning_env.problems.references import hash_question
from reasoning_env.settings import NATIVE_SYSTEM_PROMPT, SYSTEM_PROMPT
from reasoning_env.tasks import TASKS, Task

Show = Callable[..., str]


@pytest.fixture
def show(folder: Path, capsys: pytest.CaptureFixture[str]) -> Show:
    """Runs the command and returns what it prints."""

    def show(*argv: str) -> str:
        assert tasks_command(argv, folder) == 0
        return capsys.readouterr().out

    return show


def test_tasks_command_lists_an_error_for_a_task_that_cannot_be_generated(show: Show) -> None:
    lines = show().splitlines()
    categories = {"broken": "family", "composite": "family", "exact": "family", "generous": "games"}
    assert dict(line.split()[:2] for line in lines[1:6]) == {**categories, "open_ended": "games"}
    assert "cannot be generated: broken, seed 42: ValueError: no such puzzle" in lines[1]


def test_tasks_command_shortens_questions_in_the_list_of_tasks(show: Show) -> None:
    question = show().splitlines()[3].split(maxsplit=2)[2]
    assert question.startswith("First line of 42. More of it.")
    assert len(question) == QUESTION_CHARACTERS


def test_tasks_command_prints_the_list_of_tasks_as_json(show: Show) -> None:
    listing = json.loads(show("--json"))
    assert listing["categories"] == {"family": 3, "games": 2}
    assert [task["task"] for task in listing["tasks"]][2:] == ["exact", "generous", "open_ended"]


def test_tasks_command_shows_whole_questions_of_tasks_named_as_arguments(show: Show) -> None:
    output = show("exact", "broken", "games/*", "--samples", "2", "--seed", "5")
    assert output.count("More of it. " * 30) == 6
    assert "(many answers are right)" in output
    assert "cannot be generated: broken, seed 5: ValueError: no such puzzle" in output
    for seed, answer in ((5, 15), (1005, 3015)):
        assert f"=== exact (family), seed {seed}\n" in output
        assert f"\n--- answer\n{answer}\n" in output


def test_tasks_command_shows_problem_and_prompt_for_a_problem_reference(show: Show) -> None:
    question = json.loads(show("exact", "--samples", "1", "--seed", "5", "--json"))["samples"][0]["question"]
    reference = f"exact:eval:5:-:0:{hash_question(question)}:{{}}"
    output = show(reference, "--prompt", "--system_prompt", "Be brief.")
    assert "--- system\nBe brief.\n" in output
    assert question in output


def test_prompt_option_of_the_tasks_command_shows_the_messages(show: Show) -> None:
    argv = ("exact", "--prompt", "--level", "0.5", "--params", "{colour: red}")
    assert SYSTEM_PROMPT in show(*argv, "--seed", str(2**32 - 1))
    (sample,) = json.loads(show(*argv, "--json"))["samples"]
    assert [message["role"] for message in sample["prompt"]] == ["system", "user"]
    assert (sample["seed"], sample["level"], sample["params"]) == (42, 0.5, {"terms": 4, "colour": "red"})


def test_prompt_shown_by_the_tasks_command_uses_the_system_prompt_of_the_config_file(
    show: Show, tmp_path: Path
) -> None:
    config = tmp_path / "run.yaml"
    config.write_text("env: {system_prompt: My rules., tasks: exact}")
    assert "My rules." in show("exact", "--prompt", "--config", str(config))


def test_tasks_command_shows_a_prompt_with_the_configured_thinking_format(
    show: Show, tmp_path: Path, tokenizer: Any
) -> None:
    config = tmp_path / "run.yaml"
    config.write_text("env: {thinking: kimi, tasks: exact}")
    output = show("exact", "--prompt", "--tokenizer_name", tokenizer.name_or_path, "--config", str(config))
    assert NATIVE_SYSTEM_PROMPT in output
    assert "◁think▷ ... ◁/think▷ (kimi)" in output


def test_tasks_command_with_a_tokenizer_shows_the_exact_prompt_text(show: Show, tokenizer: Any) -> None:
    output = show("exact", "--prompt", "--tokenizer_name", tokenizer.name_or_path)
    assert f"<|im_start|>system\n{SYSTEM_PROMPT}<|im_end|>\n<|im_start|>user\n" in output
    text = output[output.index("<|im_start|>") : output.index("\n\n--- prompt")]
    tokens = len(tokenizer.encode(text))
    assert f"--- prompt\nlength         {tokens} tokens\n" in output
    (sample,) = json.loads(show("exact", "--prompt", "--tokenizer_name", tokenizer.name_or_path, "--json"))["samples"]
    assert sample["prompt_tokens"] == tokens
    assert "thinking tags  <think> ... </think> (think)\nend of turn    <|im_end|>\n" in output


def test_prompt_shown_by_the_tasks_command_uses_the_chat_template_options(show: Show, tokenizer: Any) -> None:
    options = ("--chat_template", "plain", "--thinking", "kimi", "--chat_template_kwargs", "{a: 1}")
    output = show("exact", "--prompt", "--tokenizer_name", tokenizer.name_or_path, *options)
    assert f"{NATIVE_SYSTEM_PROMPT}\n\nUser: " in output
    assert "◁think▷ ... ◁/think▷ (kimi)" in output


def test_tasks_command_raises_with_install_advice_if_transformers_is_missing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ConfigError, match="pip install transformers"):
        tasks_command(["exact", "--prompt", "--tokenizer_name", "x"], folder)


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        ([], "\nTraining excludes generous unless you name it (it pays everything)\n"),
        (["generous"], "Training excludes generous unless you name it (it pays everything)\n=== generous (games)"),
        (["generous", "--json"], '"left_out_of_training": "it pays everything"'),
    ],
)
def test_tasks_command_says_that_a_task_is_left_out_of_training(
    show: Show, monkeypatch: pytest.MonkeyPatch, argv: list[str], shown: str
) -> None:
    monkeypatch.setitem(TASKS, "generous", Task("generous", "games", answer_leak="it pays everything"))  # type: ignore[arg-type]
    assert shown in show(*argv)


def test_tasks_command_does_not_mark_a_task_as_excluded_if_training_includes_it(show: Show) -> None:
    assert "Training excludes" not in show() + show("exact")
    assert "left_out_of_training" not in show("exact", "--json")


def test_tasks_command_reads_parameters_from_the_config_file(show: Show, tmp_path: Path) -> None:
    config = tmp_path / "run.yaml"
    config.write_text("env: {tasks: exact, task_params: {exact: {colour: red}}}")
    (sample,) = json.loads(show("exact", "--samples", "1", "--json", "--config", str(config)))["samples"]
    assert sample["params"]["colour"] == "red"
    assert [task["task"] for task in json.loads(show("--json", "--config", str(config)))["tasks"]] == ["exact"]


def test_tasks_command_shows_the_levels_of_a_task_named_as_argument(show: Show) -> None:
    shown = json.loads(show("exact", "--json"))
    assert [sample["level"] for sample in shown["samples"]] == [None, 0.0, 0.5, 1.0]
    terms = {"default": None, "levels": {"0.0": 2, "0.5": 4, "1.0": 6}}
    assert shown["parameters"] == {"exact": {"terms": terms}}


@pytest.mark.parametrize(("rewards", "default"), [("strict", "1.0 (reasoning-gym: 0.5)"), ("library", "0.5")])
def test_tasks_command_shows_library_defaults_replaced_by_strict_rewards(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rewards: str, default: str
) -> None:
    """Here the library is reasoning-gym, because the small library has no task with another default."""
    assert tasks_command(["codeio", "--samples", "1", "--rewards", rewards], tmp_path) == 0
    [row] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("input_prediction_probability")]
    assert row.split(maxsplit=1)[1] == default


def test_tasks_command_shows_one_sample_of_a_task_without_levels(show: Show) -> None:
    shown = json.loads(show("generous", "--json"))
    assert [sample["level"] for sample in shown["samples"]] == [None]
    assert shown["parameters"] == {"generous": {}}


def test_tasks_command_names_tasks_for_which_the_level_option_has_no_effect(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tasks_command(["exact,generous", "--level", "0.5"], folder) == 0
    told = "--level has no effect on tasks without levels: generous"
    assert told in capsys.readouterr().err.splitlines()


def test_tasks_command_shows_a_table_of_parameters_by_level(show: Show) -> None:
    output = show("exact")
    assert "terms      null     2        4          6" in output
    assert "=== exact (family), seed 42, level 0.5\n" in output


def test_tasks_command_shows_the_number_of_different_questions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tasks_command(["coin_flip", "chain_sum", "gcd", "bf"], tmp_path) == 0
    told = [part.splitlines()[1] for part in capsys.readouterr().out.split("=== ") if "different questions" in part]
    coin_flip, chain_sum, gcd, slow = told
    assert coin_flip.count("about") == 6
    assert chain_sum == "about 200 at level 0; 10000 or more at defaults, level 0.25, level 0.5, level 0.75, level 1"
    assert gcd.startswith("10000 or more at defaults, level 0, ")
    assert "level 1" not in slow


def test_tasks_command_shows_the_default_parameters_of_the_library(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tasks_command(["chain_sum", "--json"], tmp_path) == 0
    parameters = json.loads(capsys.readouterr().out)["parameters"]["chain_sum"]
    assert "seed" not in parameters
    assert parameters["allow_negation"] == {"default": False}
    assert parameters["min_terms"]["default"] == 2
    assert parameters["max_terms"]["levels"].keys() == {"0.0", "0.5", "1.0"}
