"""Inspect AI's own evaluation of the task, over the rig's server of streamed chats."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

inspect_ai = pytest.importorskip("inspect_ai", reason="needs the extra `inspect`: make integrations")

from inspect_ai.scorer import Target

from demo.policy import ScriptedPolicy
from reasoning_env.errors import ScoringError
from reasoning_env.integrations import inspect as adapter
from reasoning_gym_testing import InferenceServer
from tests.waiting import PATIENCE_S

from .shown import shown_commands

# The packages' own warnings are not this project's.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def bridges_end() -> Iterator[None]:
    yield
    adapter._bridge.cache_clear()


def evaluate(folder: Path, skill: float, **arguments: Any) -> Any:
    with InferenceServer(ScriptedPolicy(skill, seed=1)) as server:
        [log] = inspect_ai.eval(
            adapter.reasoning_gym(**arguments),
            model="openai-api/rig/rig",
            model_base_url=f"{server.url}/v1",
            model_args={"api_key": "x", "stream": True},
            log_dir=str(folder),
            display="none",
        )
    assert log.status == "success", log.error
    return log


@pytest.mark.parametrize("skill", [0.0, 1.0])
def test_every_sample_is_scored(tmp_path: Path, skill: float) -> None:
    log = evaluate(tmp_path, skill, tasks="gcd,chain_sum", limit=3)
    assert len(log.samples) == 6
    assert {sample.scores["judged"].value for sample in log.samples} == {skill}


def test_shown_command_scores_samples(tmp_path: Path) -> None:
    [shown] = shown_commands("inspect eval")
    shown[shown.index("--model") + 1] = "openai-api/rig/rig"
    with InferenceServer(ScriptedPolicy(1.0, seed=1)) as server:
        ended = subprocess.run(
            [Path(sys.executable).with_name(shown[0]), *shown[1:], "--log-dir", tmp_path, "-M", "stream=true"],
            env={**os.environ, "RIG_API_KEY": "x", "RIG_BASE_URL": f"{server.url}/v1", "PYTHONPATH": str(Path.cwd())},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
        )
    assert ended.returncode == 0, ended.stdout[-3000:]
    [path] = tmp_path.glob("*.eval")
    log = inspect_ai.log.read_eval_log(str(path))
    assert log.status == "success", log.error
    assert [sample.scores["judged"].value for sample in log.samples] == [1.0] * 10


def test_means_are_by_task(tmp_path: Path) -> None:
    log = evaluate(tmp_path, 1.0, tasks="gcd,chain_sum", limit=2)
    [score, *_] = log.results.scores
    assert {"gcd", "chain_sum"} <= set(score.metrics)


def test_own_tasks(tmp_path: Path) -> None:
    """The policy does not know the task; a judge without the module would fail the samples."""
    log = evaluate(tmp_path, 1.0, tasks="last_letter", limit=2, task_modules="examples/own_task.py")
    assert [sample.metadata["task"] for sample in log.samples] == ["last_letter"] * 2


def test_preset_brings_its_problems(tmp_path: Path) -> None:
    task = adapter.reasoning_gym(tasks="gcd", preset="rg-hard", limit=2)
    assert [sample.metadata["task"] for sample in task.dataset] == ["gcd"] * 2


async def test_fault_is_no_score(monkeypatch: pytest.MonkeyPatch) -> None:
    class Down:
        async def ajudge(self, reference: str, completions: list[str]) -> list[None]:
            return [None]

    class State:
        metadata = MappingProxyType({"reference": "x"})
        output = type("Output", (), {"completion": "<answer>1</answer>"})

    with pytest.raises(ScoringError, match="could not be judged"):
        await adapter.judged(Down())(State(), Target(""))
