from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from reasoning_env.atropos.cli import (
    commands,
    environment_options,
)
from reasoning_env.dumps.format import Keep, encode_group, kept_path
from reasoning_env.errors import ConfigError, InvalidReferenceError, ReasoningEnvError, ServerError
from reasoning_env.program.parser import errors_for_user
from reasoning_env.runtime.text import redact
from reasoning_gym_environment import APIServerConfig, ReasoningGymEnv, ReasoningGymEnvConfig
from tests.records import make_group, make_rollout

KEY = "sk-very-secret"
Work = Callable[[Any], None]


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Restore what commands change: sys.argv, log levels of other packages, and a log handler."""
    monkeypatch.setattr("sys.argv", ["environment.py"])
    monkeypatch.setattr(logging.root, "handlers", list(logging.root.handlers))
    for name in ("httpx", "httpx2", "openai", "huggingface_hub", "py.warnings"):
        caplog.set_level(logging.NOTSET, name)  # the fixture restores the earlier value at the end
    yield
    logging.captureWarnings(False)


def _run(*argv: str, work: Work = lambda env: None) -> int:
    """Run a command of an environment class whose work is the function `work`."""

    class Env(ReasoningGymEnv):
        def __init__(self, config: Any, servers: Any, slurm: bool, testing: bool) -> None:
            self.servers = servers

        async def env_manager(self) -> None:
            work(self)

        process_manager = env_manager
        groups_path = None

        def print_summary(self) -> None:
            print("summary")

    name, *arguments = argv
    without_server = [] if name == "settings" else ["--testing=true"]
    return commands(Env)[name]([*arguments, *without_server])


@pytest.mark.parametrize("error", [ServerError("no server"), ConnectionRefusedError(111, "refused"), KeyError("x")])
def test_failed_command_prints_the_summary_of_the_run(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(type(error)) as raised:
        _run("process", work=Mock(side_effect=error))
    assert raised.value is error
    assert capsys.readouterr().out == "summary\n"


def test_process_command_with_the_keep_option_prints_the_number_of_training_rows(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    groups = tmp_path / "groups.jsonl"
    groups.write_bytes(encode_group(make_group([make_rollout(0.0), make_rollout(1.0)])))

    def finish(env: Any) -> None:
        env.groups_path = groups

    assert _run("process", "--keep", "best", work=finish) == 0
    out = kept_path(groups, Keep.BEST)
    assert capsys.readouterr().out == f"summary\nwrote 1 training row to {out}\n"
    assert out.read_text().count("\n") == 1


def _never_built(env: Any) -> None:
    raise AssertionError("the environment is built, with its tokenizer, before the settings are checked")


def test_unwritable_evaluations_folder_raises_before_the_tokenizer_is_loaded() -> None:
    with pytest.raises(ConfigError, match=r"--env\.data_dir_to_save_evals: /proc/x cannot be written to"):
        _run("serve", "--env.data_dir_to_save_evals=/proc/x", "--env.steps_per_eval=10", work=_never_built)


def test_printing_the_config_reports_ignored_settings(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run("process", "--env.batch_size=8", "--openai.num_requests_for_eval=2", "--print-config") == 0
    ignored = "env.batch_size, openai.num_requests_for_eval"
    assert caplog.messages == [f"`process` ignores these settings: {ignored}"]
    assert "batch_size: 8" in capsys.readouterr().out


def test_output_and_log_hide_api_keys(capsys: pytest.CaptureFixture[str]) -> None:
    logging.root.handlers.clear()

    def work(env: Any) -> None:
        assert env.servers[0].api_key == KEY
        logging.getLogger("openai").warning("the server says: %s is no key", KEY, exc_info=ValueError(KEY))
        raise ServerError(f"401: {KEY} is no key")

    with pytest.raises(ServerError) as raised:
        _run("serve", f"--openai.api_key={KEY}", work=work)
    captured = capsys.readouterr()
    assert "is no key" in captured.err
    assert "ValueError" in captured.err
    assert KEY not in f"{captured.out}{captured.err}{raised.value}{sys.argv}"


def test_error_message_hides_api_keys() -> None:
    with pytest.raises(InvalidReferenceError) as raised, errors_for_user({}, [KEY]):
        raise InvalidReferenceError(f"gcd:{KEY}", "no such task")
    assert str(raised.value) == "reference 'gcd:<key>': no such task"


def test_api_key_that_contains_another_key_is_hidden_completely() -> None:
    assert redact(f"x {KEY}-more me:pass-word@host", ["x", "pass-word", KEY, f"{KEY}-more"]) == "x <key> me:<key>@host"


def test_evaluate_command_uses_defaults_of_the_environment_class(monkeypatch: pytest.MonkeyPatch) -> None:
    class Env(ReasoningGymEnv):
        @classmethod
        def config_init(cls) -> tuple[Any, Any]:
            return ReasoningGymEnvConfig(tasks=["gcd"], group_size=2), super().config_init()[1]

    evaluate = Mock(return_value=0)
    monkeypatch.setattr("reasoning_env.commands.evaluate.evaluate_command", evaluate)
    monkeypatch.setattr("sys.argv", ["environment.py", "evaluate", "m"])
    with pytest.raises(SystemExit):
        Env.cli()
    assert (evaluate.call_args.args, evaluate.call_args.kwargs["defaults"]["tasks"]) == ((["m"],), ["gcd"])


@pytest.mark.parametrize("command", ["serve", "process"])
def test_every_setting_is_a_command_line_option(command: str) -> None:
    names = [f"env.{name}" for name in ReasoningGymEnvConfig.model_fields]
    names += [f"openai.{name}" for name in APIServerConfig.model_fields]
    argv = [f"--{name}=text" for name in names]
    assert environment_options(ReasoningGymEnv, command).read(argv) == dict.fromkeys(names, "text")


def test_printing_the_config_starts_no_environment(capsys: pytest.CaptureFixture[str]) -> None:
    keys = ["--openai.api_key", KEY, "--openai.headers", f"api-key={KEY}"]
    assert _run("serve", "--print-config", *keys, work=Mock(side_effect=AssertionError)) == 0
    text = capsys.readouterr().out
    assert "group_size: 4" in text
    assert KEY not in text


def test_serve_command_with_the_log_json_option_prints_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    logging.root.handlers.clear()

    def work(env: Any) -> None:
        logging.getLogger("demo").warning("the server\nsays: %s is no key", KEY, exc_info=ValueError(KEY))

    _run("serve", "--log-json", f"--openai.api_key={KEY}", work=work)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    [told] = [line for line in lines if line["logger"] == "demo"]
    assert (told["level"], told["message"].splitlines()[:2]) == ("WARNING", ["the server", "says: <key> is no key"])
    assert told["message"].endswith("ValueError: <key>")
    assert told["time"].endswith("+00:00")


def test_quiet_and_verbose_options_set_the_log_level(capsys: pytest.CaptureFixture[str]) -> None:
    def work(env: Any) -> None:
        logging.getLogger("demo").info("a line")
        logging.getLogger("demo").info("a detail", extra={"detail": True})
        logging.getLogger("demo").warning("a warning")

    shown = {}
    for option in ("--quiet", "--seed=1", "-v"):
        logging.root.handlers.clear()
        _run("serve", option, work=work)
        shown[option] = re.findall(r"\d (\w+(?: demo)?: a .*)", capsys.readouterr().err)
    assert shown == {
        "--quiet": ["WARNING: a warning"],
        "--seed=1": ["INFO: a line", "WARNING: a warning"],
        "-v": ["INFO demo: a line", "INFO demo: a detail", "WARNING demo: a warning"],
    }


@pytest.mark.parametrize(
    ("argv", "error", "shown"),
    [
        (["--tasks=a"], ConfigError("no task", setting="tasks"), "--tasks: no task"),
        ([], ConfigError("no task", setting="tasks"), "env.tasks: no task"),
        (["--seed", "1"], ConfigError("is wrong", setting="env.seed"), "--seed: is wrong"),
        (
            ["--base-url=x"],
            ServerError("no server", remedy="correct {openai.base_url}"),
            "no server; correct --base-url",
        ),
        ([], ConfigError("holds nothing", setting="evals/a"), "evals/a: holds nothing"),
    ],
)
def test_error_names_a_setting_as_the_user_typed_it(argv: list[str], error: ReasoningEnvError, shown: str) -> None:
    names = environment_options(ReasoningGymEnv, "serve").setting_names(argv)
    with pytest.raises(type(error)) as raised, errors_for_user(names):
        raise error
    assert str(raised.value) == shown


# ------------------------------------------------------------------ settings


Show = Callable[..., str]


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Show:
    def show(*argv: str) -> str:
        assert _run("settings", *argv) == 0
        return capsys.readouterr().out

    return show


def test_settings_command_prints_a_json_schema(show: Show) -> None:
    schema = json.loads(show("--json"))
    env = schema["properties"]["env"]["properties"]
    assert env["task_sampling"]["enum"] == ["uniform", "weighted", "adaptive"]
    assert env["eval_preset"]["default"] is None
    assert (env["top_p"]["exclusiveMinimum"], env["top_p"]["maximum"]) == (0.0, 1.0)
    assert env["seed"]["type"] == "integer"
    assert env["group_size"]["minimum"] == 1
    assert "at least 1" in env["batch_size"]["description"]


@pytest.mark.parametrize("word", ["Group_Size", "eval_seed", "base_url"])
def test_settings_command_filters_by_name(show: Show, word: str) -> None:
    found, every = (re.findall(r"^\| `(\w+)`", show(*words, "--markdown"), re.MULTILINE) for words in ([word], []))
    assert word.lower() in found
    assert len(found) < len(every)
