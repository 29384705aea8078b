"""The README's commands, run in a new folder as they stand there.

Only what a test cannot have is replaced: the servers' addresses, the model with its tokenizer, and large numbers.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from reasoning_gym_testing import TOKENIZER, Process, Processes, RunApi, Trainer
from tests.waiting import PATIENCE_S, wait_until

from .processes import REPOSITORY, SCRIPT

README = (REPOSITORY / "README.md").read_text()
COMMAND = re.compile(r"^(?:\w+=\S+ )?python reasoning_gym_environment\.py (.*)$", re.MULTILINE)
MODEL = "Qwen/Qwen2.5-1.5B-Instruct"


def shown_commands() -> list[list[str]]:
    """The words of every command that a shell block of the README shows, without those that start the script."""
    blocks = re.findall(r"^```bash\n(.*?)^```", README.replace("\\\n", " "), re.DOTALL | re.MULTILINE)
    return [shlex.split(line, comments=True) for block in blocks for line in COMMAND.findall(block)]


class Newcomer:
    """Somebody who types the README's commands in one folder, before servers of their own."""

    def __init__(self, processes: Processes, folder: Path) -> None:
        self._processes = processes
        self.folder = folder
        self.inference_url = self._start_inference()
        (folder / "configs").mkdir()

    def _start_inference(self) -> str:
        words = ["-m", "reasoning_gym_testing", "--policy", "demo.policy:ScriptedPolicy"]
        words += ["--options", json.dumps({"skill": 0.6, "seed": 1})]
        server = self._processes.start("inference", words, python=True, cwd=REPOSITORY)
        return f"{server.announcement()['url']}/v1"

    def write_config(self, run_api_url: str = "http://localhost:8000") -> None:
        """Write the config file that the README shows, for the servers that there are."""
        shown = README.split("```yaml\n")[1].split("```")[0]
        for there, here in (
            ("http://localhost:9001/v1", self.inference_url),
            ("http://localhost:8000", run_api_url),
            (MODEL, TOKENIZER),
            ("env:\n", f"env:\n  use_wandb: false\n  data_dumps_dir: {self.folder}/data_dumps\n"),
        ):
            assert there in shown
            shown = shown.replace(there, here)
        (self.folder / "configs" / "vllm.yaml").write_text(shown)

    def start(self, command: str, replaced: Mapping[str, str] | None = None, *more: str, number: int = 0) -> Process:
        """Start the README's command of this name, the first one or the one with this `number`."""
        words = [words for words in shown_commands() if words[0] == command][number]
        for there, here in (replaced or {}).items():
            assert there in words
            words = [here if word == there else word for word in words]
        return self._processes.start(f"{command}-{number}", [SCRIPT, *words, *more], python=True, cwd=self.folder)

    def run(self, command: str, replaced: Mapping[str, str] | None = None, *more: str, number: int = 0) -> str:
        """Run the command to its end, which must be a success, and return what it printed."""
        process = self.start(command, replaced, *more, number=number)
        assert process.end() == 0, process.stderr
        return process.stdout


@pytest.fixture(scope="module")
def newcomer(processes: Processes, tmp_path_factory: pytest.TempPathFactory) -> Newcomer:
    return Newcomer(processes, tmp_path_factory.mktemp("newcomer"))


@pytest.fixture(scope="module")
def groups(newcomer: Newcomer) -> Path:
    """What `process` writes; others look at it."""
    newcomer.write_config()
    newcomer.run("process", {"1000": "3"})
    return newcomer.folder / "data" / "first.jsonl"


@pytest.fixture(scope="module")
def evaluation(newcomer: Newcomer) -> Path:
    """The folder of the README's evaluation."""
    replaced = {"https://api.openai.com/v1": newcomer.inference_url, "10": "1"}
    newcomer.run("evaluate", replaced, "--openai.api_key", "x")
    [folder] = (newcomer.folder / "evals").iterdir()
    return folder


def test_every_command_is_run_here() -> None:
    run = ["serve", "judge", "evaluate", "compare", "process", "report", "tasks", "tasks", "score"]
    assert [words[0] for words in shown_commands()] == run


def test_process_makes_data(groups: Path) -> None:
    assert len(groups.read_text().splitlines()) == 3
    assert groups.with_name("first-correct.jsonl").is_file()


def test_report_shows_the_data(newcomer: Newcomer, groups: Path) -> None:
    newcomer.run("report")
    assert "</html>" in (newcomer.folder / "report.html").read_text()


def test_evaluation_asks_each_task_of_the_preset(evaluation: Path) -> None:
    results = json.loads((evaluation / "results.json").read_text())
    assert len(results["tasks"]) > 90


def test_evaluations_are_compared(newcomer: Newcomer, evaluation: Path) -> None:
    again = shutil.copytree(evaluation, newcomer.folder / "again")
    printed = newcomer.run("compare", {"evals/A": str(evaluation), "evals/B": str(again)})
    assert printed.startswith(f"FIRST: {evaluation}\nSECOND: {again}\n")


@pytest.mark.parametrize(
    ("command", "number", "replaced", "said"),
    [
        ("tasks", 0, {}, "gcd"),
        ("tasks", 1, {"Qwen/Qwen3-8B": TOKENIZER}, "<answer>"),
        ("score", 0, {}, "reason    wrong"),
    ],
)
def test_looking_at_tasks(newcomer: Newcomer, command: str, number: int, replaced: Any, said: str) -> None:
    assert said in newcomer.run(command, replaced, number=number)


def test_judge_answers_until_it_is_stopped(newcomer: Newcomer) -> None:
    judge = newcomer.start("judge", {"8400": "0"})
    wait_until(lambda: "judging on" in judge.stdout or not judge.check(), "the judge's line")
    with urllib.request.urlopen(f"{judge.stdout.split()[-1]}/health", timeout=PATIENCE_S) as reply:
        assert reply.status == 200
    assert judge.end(signal.SIGTERM) == 0


def test_serve_feeds_a_trainer(processes: Processes, newcomer: Newcomer) -> None:
    run_api = RunApi(processes)
    run_api.start()
    newcomer.write_config(run_api.url)
    with Trainer(run_api.url, max_batches=1) as trainer:
        serve = newcomer.start("serve")
        wait_until(lambda: trainer.batches or not serve.check(), "a batch")
        assert serve.end(signal.SIGTERM) == 128 + signal.SIGTERM
    assert len(list((newcomer.folder / "data_dumps").glob("*.jsonl"))) > 0
