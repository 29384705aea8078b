"""verifiers' own command line over the taskset, with the rig in a model's place."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import pytest

vf = pytest.importorskip("verifiers.v1", reason="needs the extra `verifiers`: make integrations")

import reasoning_env
from demo.policy import ScriptedPolicy
from reasoning_env.errors import ScoringError
from reasoning_env.integrations import verifiers as adapter
from reasoning_gym_testing import InferenceServer
from tests.waiting import PATIENCE_S

from .shown import shown_commands

# The packages' own warnings are not this project's.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

ROOT = Path(reasoning_env.__file__).parent.parent


def evaluate(server: InferenceServer, output: Path) -> list[dict[str, Any]]:
    """Run the command that the page shows, at the rig's address, and return the traces of its episodes."""
    [shown] = shown_commands("vf-eval")
    address = shown.index("--client.base-url") + 1
    shown[address] = f"{server.url}/v1"
    command = [Path(sys.executable).with_name(shown[0]), *shown[1:], "-o", output]
    ended = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "OPENAI_API_KEY": "x", "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=2 * PATIENCE_S,
    )
    assert ended.returncode == 0, ended.stdout[-3000:]
    [episodes] = output.rglob("traces.jsonl")
    return [trace for line in episodes.read_text().splitlines() for trace in json.loads(line)["traces"]]


@pytest.mark.parametrize(("skill", "expected"), [(1.0, {1.0}), (0.0, {0.0})])
def test_command_scores_rollouts(tmp_path: Path, skill: float, expected: set[float]) -> None:
    with InferenceServer(ScriptedPolicy(skill, seed=1)) as server:
        traces = evaluate(server, tmp_path)
    assert len(traces) == 32
    assert {trace["rewards"]["judged"]["score"] for trace in traces} == expected
    assert all(trace["info"]["reason"] for trace in traces)


def taskset(**settings: Any) -> Any:
    return adapter.ReasoningGymTaskset(adapter.ReasoningGymConfig(**{"tasks": "gcd", "seed": 3, **settings}))


def test_problem_is_the_prompt() -> None:
    [task] = islice(taskset(), 1)
    assert "greatest common divisor" in task.data.prompt.lower()
    assert task.data.reference.startswith("gcd:train:")


def test_level_of_settings() -> None:
    [task] = islice(taskset(level=0.5), 1)
    assert task.data.reference.split(":")[3] == "0.5"


async def test_own_task() -> None:
    class Trace:
        last_reply = "<answer>none</answer>"
        info: ClassVar[dict[str, str]] = {}

    [task] = islice(taskset(tasks="last_letter", task_modules="examples/own_task.py"), 1)
    assert await task.judged(Trace()) == 0.0
    assert Trace.info == {"reason": "scored"}
    adapter._judge(task.data.task_modules, None).close()


async def test_fault_is_no_score(monkeypatch: pytest.MonkeyPatch) -> None:
    class Down:
        async def ajudge(self, reference: str, completions: list[str]) -> list[None]:
            return [None]

    class Trace:
        last_reply = "<answer>1</answer>"

    monkeypatch.setattr(adapter, "_judge", lambda *_: Down())
    [task] = islice(taskset(), 1)
    with pytest.raises(ScoringError, match="could not be judged"):
        await task.judged(Trace())
