"""Each command uses exactly the settings that declare it, and reports other settings of the user as ignored."""

from __future__ import annotations

import argparse
import json
import os
import signal
import threading
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from reasoning_audit.command import audit_command
from reasoning_env.commands.evaluate import evaluate_command, read_request
from reasoning_env.commands.judge import judge_command
from reasoning_env.commands.problems import problems_command
from reasoning_env.commands.rescore import rescore_command
from reasoning_env.commands.score import score_command
from reasoning_env.commands.tasks import tasks_command
from reasoning_env.program.shared_options import file_settings
from reasoning_env.program.training import USED_BY, EvaluateSettings
from reasoning_env.settings import ReasoningSettings
from tests.commands.test_evaluate import RightAnswers
from tests.setting_reads import recorded_reads
from tests.small_library import write_small_library
from tests.test_settings import FROM_TEXT, other_value
from tests.waiting import PATIENCE_S, wait_until

OF_FILES: list[Any] = ["problems", "problems --evaluation", "score", "tasks", "audit", "rescore", "judge"]
"""Commands that take settings from config files, because they have no option for each setting."""
REFERENCE = "reference.txt"


def write_rows(folder: Path) -> None:
    """Write the reference of a problem, and a row with this reference and a completion."""
    reference = json.loads((folder / "rows.jsonl").read_text().splitlines()[0])["reference"]
    (folder / REFERENCE).write_text(reference)
    (folder / "completions.jsonl").write_text(json.dumps({"reference": reference, "completion": "<answer>1</answer>"}))


def judge_once(folder: Path, printed: Callable[[], str]) -> None:
    """Run `judge` until it has judged one completion."""

    def request() -> None:
        wait_until(lambda: "judging on" in printed(), "the start of the judge")
        body = json.dumps({"ref": (folder / REFERENCE).read_text(), "texts": ["<answer>1</answer>"]}).encode()
        try:
            urllib.request.urlopen(f"{printed().split()[-1]}/score", body, timeout=PATIENCE_S).close()
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    client = threading.Thread(target=request)
    client.start()
    judge_command(["--port", "0"], folder)
    client.join()


@pytest.fixture(scope="module")
def read_by(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, set[str]]:
    """The names of the settings that each command reads."""
    folder = write_small_library(tmp_path_factory.mktemp("library"))
    path = folder / "printed.txt"
    found: dict[str, set[str]] = {}

    def run(command: str, work: Callable[[], object]) -> None:
        with recorded_reads() as found[command]:
            work()

    with pytest.MonkeyPatch.context() as patch, RightAnswers() as server, path.open("w") as printed:
        patch.chdir(folder)
        patch.setattr("sys.stdout", printed)
        exact = ["--tasks", "exact"]
        url = f"{server.url}/v1"
        run("evaluate", lambda: evaluate_command(["m", "--base-url", url, *exact, "--limit", "1"], folder))
        run("problems", lambda: problems_command([*exact, "--count", "2", "--out", "rows.jsonl"], folder))
        run("problems --evaluation", lambda: problems_command([*exact, "--evaluation", "--out", "e.jsonl"], folder))
        run("score", lambda: score_command(["exact", "<answer>1</answer>"], folder))
        run("tasks", lambda: tasks_command(["exact", "--prompt"], folder))
        run("audit", lambda: audit_command(["--items", "2", "--levels", "defaults"], folder))
        write_rows(folder)
        run("rescore", lambda: rescore_command(["completions.jsonl", "--out", "scored.jsonl"], folder))
        run("judge", lambda: judge_once(folder, path.read_text))
    return found


@pytest.mark.parametrize("command", ["evaluate", *OF_FILES])
def test_command_reads_exactly_its_declared_settings(read_by: Mapping[str, set[str]], command: str) -> None:
    used = {name for name in EvaluateSettings.model_fields if command in USED_BY[f"env.{name}"]}
    assert read_by[command] == used


def options_of(folder: Path, settings: Mapping[str, object]) -> argparse.Namespace:
    """Return the options of a command whose config file has these settings."""
    (folder / "c.yaml").write_text(yaml.safe_dump({"env": settings}))
    return argparse.Namespace(config=[str(folder / "c.yaml")], rewards=None, task_modules=None, checkout=None)


@pytest.mark.parametrize("command", OF_FILES)
def test_command_drops_and_logs_settings_that_it_does_not_use(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, command: Any
) -> None:
    """The ignored settings contradict each other. A command that ignores them must still run."""
    fields = ReasoningSettings.model_fields
    ignored = [name for name in fields if command not in USED_BY[f"env.{name}"]]
    settings = {name: FROM_TEXT[name][1] if name in FROM_TEXT else other_value(name) for name in ignored}
    assert file_settings(command, options_of(tmp_path, settings), {}, {}) == ReasoningSettings()
    names = ", ".join(f"env.{name}" for name in sorted(ignored))
    assert caplog.messages == [f"`{command}` ignores these settings: {names}"]


@pytest.mark.parametrize(
    ("settings", "ignored"),
    [
        ({"tasks": "gcd"}, []),
        ({"tasks": "gcd", "exclude_tasks": "lcm", "eval_tasks": "gcd"}, ["env.tasks", "env.exclude_tasks"]),
        ({"task_params": "{}", "complexity_level": 0.5}, ["env.task_params", "env.complexity_level"]),
        ({"task_params": "{}", "complexity_level": 0.5, "eval_level": "training"}, []),
        ({"eval_preset": "rg-easy", "system_prompt": "Think."}, ["env.system_prompt"]),
    ],
)
def test_evaluate_command_reports_settings_that_have_no_effect(settings: Mapping[str, Any], ignored: list[str]) -> None:
    assert read_request({f"env.{name}": value for name, value in settings.items()}).ignored == ignored
