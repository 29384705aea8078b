"""Run the command line of verifiers with the taskset. The test inference server is the model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any, ClassVar

import pytest

vf = pytest.importorskip("verifiers.v1", reason="needs the extra `verifiers`: make integrations")

import reasoning_env
from demo.policy import ScriptedPolicy
from reasoning_env.bridge import Bridge
from reasoning_env.errors import ConfigError, ScoringError
from reasoning_env.integrations import verifiers as adapter
from reasoning_env.problems.references import Reference
from reasoning_env.records import Problem, Reason, Verdict
from reasoning_gym_testing import InferenceServer
from tests.certificates import environment_with_certificates
from tests.records import make_problem
from tests.waiting import PATIENCE_S

from .shown import shown_block, shown_commands

# The packages' own warnings are not this project's.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

ROOT = Path(reasoning_env.__file__).parent.parent


def evaluate(server: InferenceServer, output: Path) -> list[dict[str, Any]]:
    """Run the documented command with the test server's address, and return the traces of its episodes."""
    [shown] = shown_commands("vf-eval")
    address = shown.index("--client.base-url") + 1
    shown[address] = f"{server.url}/v1"
    command = [Path(sys.executable).with_name(shown[0]), *shown[1:], "-o", output]
    ended = subprocess.run(
        command,
        cwd=ROOT,
        # The `null` harness downloads its packages with uv.
        env={**environment_with_certificates(), "OPENAI_API_KEY": "x", "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=2 * PATIENCE_S,
    )
    assert ended.returncode == 0, ended.stdout[-3000:]
    [episodes] = output.rglob("traces.jsonl")
    return [trace for line in episodes.read_text().splitlines() for trace in json.loads(line)["traces"]]


@pytest.mark.parametrize("skill", [1.0, 0.0])
def test_documented_vf_eval_command_scores_rollouts(tmp_path: Path, skill: float) -> None:
    with InferenceServer(ScriptedPolicy(skill, seed=1)) as server:
        traces = evaluate(server, tmp_path)
    assert [error["message"] for trace in traces for error in trace["errors"]] == []
    assert len(traces) == 32
    scores = [trace["rewards"]["judged"]["score"] for trace in traces]
    assert all((score == 1.0) is (skill == 1.0) for score in scores)  # a wrong answer may earn partial credit
    assert all(trace["info"]["reason"] for trace in traces)
    assert [prod(trace["metrics"][part] for part in ("format", "answer", "length")) for trace in traces] == scores
    assert {trace["metrics"]["level"] for trace in traces} == {5 / 16}  # the levels next to 0.3 that both tasks have
    assert all(trace["task"]["key"] == trace["task"]["data"]["reference"] for trace in traces)


def validate(folder: Path, output: Path, *options: str) -> dict[str, Any]:
    """Run the documented command with the packages in `folder`, and return its summary."""
    [shown] = shown_commands("vf-validate")
    ended = subprocess.run(
        [Path(sys.executable).with_name(shown[0]), *shown[1:], *options, "--rich", "False", "-o", output],
        cwd=output,
        env={**os.environ, "PYTHONPATH": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=4 * PATIENCE_S,
    )
    assert ended.returncode == 0, ended.stdout[-3000:]
    [summary] = output.rglob("summary.json")
    checks: dict[str, Any] = json.loads(summary.read_text())["checks"]
    return {name: {reason: count for reason, count in found.items() if count} for name, found in checks.items()}


def test_every_task_passes_the_validate_command_of_the_verifiers_library(tmp_path: Path) -> None:
    """Two tasks are excluded, because their problems have neither a reference answer nor an example answer."""
    assert validate(ROOT, tmp_path) == {"gold": {"valid": 104, "unchecked": 2}, "noop": {"valid": 106}}


def test_environments_hub_wheel_works_without_the_repository(tmp_path: Path) -> None:
    """Build and install the wheel for the hub, and run its taskset outside the repository."""
    wheels, target, output = (tmp_path / name for name in ("wheels", "target", "output"))
    output.mkdir()
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", wheels]
    subprocess.run(build, cwd=ROOT / "hub" / "verifiers", check=True)
    [wheel] = wheels.iterdir()
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", target, wheel]
    subprocess.run(install, check=True)
    files = {str(path.relative_to(ROOT)) for path in (ROOT / "reasoning_env").rglob("*") if path.is_file()}
    missing = {path for path in files if not (target / path).exists()}
    assert {path for path in missing if "__pycache__" not in path} == set()
    found = validate(target, output, "--taskset.tasks", "gcd,graph_color")
    assert found == {"gold": {"valid": 2}, "noop": {"valid": 2}}


def taskset(**settings: Any) -> Any:
    return adapter.ReasoningGymTaskset(adapter.ReasoningGymConfig(**{"tasks": "gcd", "seed": 3, **settings}))


def test_taskset_prompt_contains_the_question() -> None:
    [task] = islice(taskset(), 1)
    assert "greatest common divisor" in task.data.prompt.lower()
    assert task.data.reference.startswith("gcd:train:")


def test_level_setting_of_a_taskset_sets_the_level_of_the_problems() -> None:
    [task] = islice(taskset(level=0.5), 1)
    assert task.data.reference.split(":")[3] == "0.5"


def test_evaluation_taskset_ends_after_its_last_problem() -> None:
    tasks = list(taskset(tasks="gcd,chain_sum", seed=None, evaluation=True, num_eval_samples_per_task=2))
    assert [Reference.parse(task.data.reference).split for task in tasks] == ["eval"] * 4
    with Bridge(tasks="gcd,chain_sum", num_eval_samples_per_task=2) as bridge:
        assert [task.key for task in tasks] == [problem.reference for problem in bridge.evaluation_problems()]


def test_preset_taskset_ends_after_the_last_preset_problem() -> None:
    assert len(list(taskset(seed=None, preset="rg-easy"))) == 50


@pytest.mark.parametrize(("message", "system"), [("Be brief.", "Be brief."), ("", None)])
def test_taskset_uses_the_configured_system_prompt(message: str, system: str | None) -> None:
    [task] = islice(taskset(system_message=message), 1)
    assert task.data.system_prompt == system


async def test_task_is_invalid_if_its_reference_answer_scores_below_1(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Harsh:
        def remake(self, reference: str) -> Problem:
            return make_problem(answer="2")

        async def averdict(self, reference: str, completion: str) -> Verdict:
            return Verdict(0.5, Reason.SCORED, completion)

    monkeypatch.setattr(adapter, "process_bridge", lambda *_: Harsh())
    [task] = islice(taskset(), 1)
    assert await task.validate(None) is False


async def test_taskset_judges_each_completion_once(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[str] = []

    class Judge:
        async def averdict(self, reference: str, completion: str) -> Verdict:
            judged.append(completion)
            return Verdict(0.4, Reason.SCORED)

    monkeypatch.setattr(adapter, "process_bridge", lambda *_: Judge())
    [task] = islice(taskset(level=0.5), 1)
    trace = vf.Trace(
        task=vf.TraceTask(type="ReasoningGymTask", data=task.data), agent=vf.AgentInfo(config=vf.AgentConfig())
    )
    await task.score(trace)
    assert trace.metrics == {"format": 1.0, "answer": 0.4, "length": 1.0, "level": 0.5}
    assert trace.reward == 0.4
    assert len(judged) == 1


async def test_taskset_judges_answers_to_user_tasks() -> None:
    class Trace:
        id = "1"
        last_reply = "<answer>none</answer>"
        info: ClassVar[dict[str, str]] = {}

    [task] = islice(taskset(tasks="last_letter", task_modules="examples/own_task.py"), 1)
    assert await task.judged(Trace()) == 0.0
    assert Trace.info == {"reason": "scored"}
    task._bridge().close()


async def test_taskset_of_the_verifiers_library_raises_infrastructure_errors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Down:
        async def averdict(self, reference: str, completion: str) -> None:
            raise ScoringError("a completion could not be judged")

    class Trace:
        id = "1"
        last_reply = "<answer>1</answer>"

    monkeypatch.setattr(adapter, "process_bridge", lambda *_: Down())
    [task] = islice(taskset(), 1)
    with pytest.raises(ScoringError, match="could not be judged"):
        await task.judged(Trace())


def test_taskset_with_random_levels_samples_different_levels() -> None:
    levels = {Reference.parse(task.data.reference).level for task in islice(taskset(level="random"), 8)}
    assert len(levels) > 1
    assert None not in levels


def test_evaluation_taskset_with_a_random_level_raises() -> None:
    with pytest.raises(ConfigError, match="level"):
        list(taskset(level="random", evaluation=True))


@pytest.mark.parametrize(("rewards", "score"), [("library", 1.0), ("plain", 1.0), ("strict", 0.0)])
async def test_taskset_scores_depend_on_the_rewards_setting(rewards: str, score: float) -> None:
    """With library rewards, the answer 0 to this problem of coin_flip earns a high score."""
    settings = {"rewards": rewards}
    with Bridge(tasks="coin_flip", seed=3, **settings) as bridge:
        [task] = islice(taskset(tasks="coin_flip", settings=settings), 1)
        [direct] = bridge.judge(task.data.reference, ["<answer>0</answer>"])
    judged = await task._verdict("<answer>0</answer>")
    assert direct is not None
    assert judged.score == direct.score
    assert (judged.score > 0.5) == (score > 0.5)


def test_documented_prime_rl_config_has_only_settings_that_the_taskset_accepts() -> None:
    """prime-rl is not on PyPI. It validates the table `taskset` with this class."""
    [source] = tomllib.loads(shown_block("toml", "orchestrator"))["orchestrator"]["train"]["source"]
    config = adapter.ReasoningGymConfig(**source["env"]["taskset"])
    assert (config.tasks, config.level) == ("gcd,chain_sum", "random")
