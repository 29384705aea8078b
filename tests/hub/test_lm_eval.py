"""The folder for lm-eval-harness, without the package; the last test needs it."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from reasoning_env import Bridge
from reasoning_env.tasks import TASKS

FOLDER = Path(__file__).parents[2] / "hub" / "lm_eval"


def load_utils() -> Any:
    spec = importlib.util.spec_from_file_location("lm_eval_utils", FOLDER / "utils.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_lm_eval_has_a_task_for_every_category() -> None:
    categories = {task.category for task in TASKS.values()} - {"other"}  # composite
    group = yaml.safe_load((FOLDER / "reasoning_gym.yaml").read_text())
    assert set(group["task"]) == {f"reasoning_gym_{category}" for category in categories}
    assert {path.stem for path in FOLDER.glob("*.yaml")} == {"reasoning_gym", *group["task"]}


@pytest.mark.parametrize("rewards", ["strict", "library"])
def test_lm_eval_scores_equal_a_direct_judge(monkeypatch: pytest.MonkeyPatch, rewards: str) -> None:
    settings = {"rewards": rewards, "num_eval_samples_per_task": 2, "num_generators": 1, "num_verifiers": 1}
    monkeypatch.setenv("REASONING_SETTINGS", json.dumps(settings))
    utils = load_utils()
    rows = utils.make_rows("probability")
    with utils.process_bridge(utils.SETTINGS), Bridge(tasks="category:probability", **settings) as direct:
        right = [f"<answer>{problem.answer}</answer>" for problem in direct.evaluation_problems()]
        for row, text in zip(rows, right, strict=True):
            for said in (text, "<answer>no</answer>"):
                [verdict] = direct.judge(row["reference"], [said])
                assert verdict is not None
                assert utils.process_results(row, [said]) == {"score": verdict.score, "acc": float(verdict.correct)}


@pytest.mark.slow
def test_lm_eval_harness_evaluates_the_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    lm_eval = pytest.importorskip("lm_eval", reason="needs lm-eval")
    from lm_eval.tasks import TaskManager

    monkeypatch.setenv("REASONING_SETTINGS", json.dumps({"num_eval_samples_per_task": 2}))
    manager = TaskManager(include_path=str(FOLDER))
    found = lm_eval.simple_evaluate("dummy", tasks=["reasoning_gym_probability"], task_manager=manager)
    [row] = found["results"].values()
    assert row["score,none"] == 0.0
    [config] = found["configs"].values()
    assert config["generation_kwargs"]["until"] == []
    assert config["metadata"]["version"] == 1.0
