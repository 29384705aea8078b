"""Evaluate with Inspect AI, with the test inference server that streams chats."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest

inspect_ai = pytest.importorskip("inspect_ai", reason="needs the extra `inspect`: make integrations")

from inspect_ai.scorer import Target

from demo.policy import ScriptedPolicy
from reasoning_env.errors import ScoringError
from reasoning_env.integrations import inspect as adapter
from reasoning_gym_testing import InferenceServer
from tests.waiting import PATIENCE_S

from .direct_judge import ARMS, arm, judge_directly
from .shown import shown_commands

# The packages' own warnings are not this project's.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def bridges_end() -> Iterator[None]:
    yield
    adapter._bridge.cache_clear()
    gc.collect()  # A failed evaluation leaves streams open. Free them here, where warnings are ignored.


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
def test_every_sample_of_the_inspect_framework_is_scored(tmp_path: Path, skill: float) -> None:
    log = evaluate(tmp_path, skill, tasks="gcd,chain_sum", limit=3)
    assert len(log.samples) == 6
    assert {sample.scores["judged"].value for sample in log.samples} == {skill}


def test_documented_command_for_the_inspect_framework_scores_samples(tmp_path: Path) -> None:
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


def test_inspect_framework_reports_the_mean_score_of_each_task(tmp_path: Path) -> None:
    log = evaluate(tmp_path, 1.0, tasks="gcd,chain_sum", limit=2)
    [score, *_] = log.results.scores
    assert {"gcd", "chain_sum"} <= set(score.metrics)


def test_tasks_of_user_modules_are_evaluated_in_the_inspect_framework(tmp_path: Path) -> None:
    """The policy answers wrong; a judge without the module would fail the samples."""
    log = evaluate(tmp_path, 1.0, tasks="last_letter", limit=2, task_modules="examples/own_task.py")
    assert [sample.metadata["task"] for sample in log.samples] == ["last_letter"] * 2


def test_inspect_framework_gets_problems_of_a_preset(tmp_path: Path) -> None:
    task = adapter.reasoning_gym(tasks="gcd", preset="rg-hard", limit=2)
    assert [sample.metadata["task"] for sample in task.dataset] == ["gcd"] * 2


@pytest.mark.parametrize("rewards", ARMS)
async def test_scores_in_the_inspect_framework_equal_the_scores_that_the_bridge_gives(rewards: str) -> None:
    task = adapter.reasoning_gym(settings=arm(rewards), tasks="coin_flip,gcd", limit=2, seed=123)
    expected = judge_directly(rewards)
    assert [sample.id for sample in task.dataset] == list(dict.fromkeys(one.reference for one in expected))
    for reference, completion, score in expected:
        state = SimpleNamespace(metadata={"reference": reference}, output=SimpleNamespace(completion=completion))
        [judge] = task.scorer
        assert (await judge(state, Target(""))).value == score


class FailingMock:
    """Inspect's mock model with right answers. The completions with these numbers fail."""

    def __init__(self, task: Any, *failing: int) -> None:
        self.asked = 0
        self.model = inspect_ai.model.get_model("mockllm/model", custom_outputs=self._output)
        self._failing = failing
        self._answers = {sample.input[-1].text: sample.target for sample in task.dataset}

    def _output(self, messages: Any, *_: Any) -> Any:
        self.asked += 1
        if self.asked in self._failing:
            raise RuntimeError("the connection is lost")
        answer = self._answers[messages[-1].text]
        return inspect_ai.model.ModelOutput.from_content("mockllm/model", f"<answer>{answer}</answer>")


@pytest.fixture
def six(monkeypatch: pytest.MonkeyPatch) -> Any:
    """An Inspect task with six problems.

    The mock model counts no tokens, because Inspect would download a tokenizer.
    """

    async def count(*_: Any) -> int:
        return 1

    monkeypatch.setattr(inspect_ai.model.ModelAPI, "count_tokens", count)
    return adapter.reasoning_gym(tasks="gcd,chain_sum", limit=3)


QUIET: Any = {"display": "none", "max_samples": 1}


def values(log: Any) -> dict[str, float]:
    return {sample.id: sample.scores["judged"].value for sample in log.samples}


def test_retry_by_the_inspect_framework_keeps_judged_samples(tmp_path: Path, six: Any) -> None:
    """The retry creates a new mock model, which gives no answers."""
    [log] = inspect_ai.eval(six, model=FailingMock(six, 4).model, log_dir=str(tmp_path), **QUIET)
    assert log.status == "error"
    [retried] = inspect_ai.eval_retry(log.location, log_dir=str(tmp_path), display="none")
    assert retried.status == "success"
    references = [sample.metadata["reference"] for sample in six.dataset]
    assert values(retried) == dict(zip(references, [1.0] * 3 + [0.0] * 3, strict=True))


def test_eval_set_function_of_inspect_retries_only_missing_problems(tmp_path: Path, six: Any) -> None:
    mock = FailingMock(six, 4)
    done, [header] = inspect_ai.eval_set(
        six, model=mock.model, log_dir=str(tmp_path), retry_attempts=2, retry_wait=0.1, **QUIET
    )
    assert done
    log = inspect_ai.log.read_eval_log(header.location)
    assert [*values(log).values()] == [1.0] * 6
    assert mock.asked == 7


def test_scores_of_epochs_in_the_inspect_framework_are_averaged(tmp_path: Path, six: Any) -> None:
    mock = FailingMock(six)
    for question in [sample.input[-1].text for sample in six.dataset][:3]:
        mock._answers[question] = "wrong"
    epochs = inspect_ai.Epochs(2, "mean")
    [log] = inspect_ai.eval(six, model=mock.model, epochs=epochs, log_dir=str(tmp_path), **QUIET)
    [reduction] = log.reductions
    assert {sample.sample_id: sample.value for sample in reduction.samples} == dict(
        zip([sample.id for sample in six.dataset], [0.0] * 3 + [1.0] * 3, strict=True)
    )


async def test_scorer_for_the_inspect_framework_raises_infrastructure_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    class Down:
        async def averdict(self, reference: str, completion: str) -> None:
            raise ScoringError("a completion could not be judged")

    class State:
        metadata = MappingProxyType({"reference": "x"})
        output = type("Output", (), {"completion": "<answer>1</answer>"})

    with pytest.raises(ScoringError, match="could not be judged"):
        await adapter.judged(Down())(State(), Target(""))
