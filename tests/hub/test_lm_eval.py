"""The folder for lm-evaluation-harness. Only the slow tests need its package."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from reasoning_env import Bridge
from reasoning_env.integrations import process_bridge
from reasoning_env.tasks import TASKS

FOLDER = Path(__file__).parents[2] / "hub" / "lm_eval"


def load_utils() -> Any:
    spec = importlib.util.spec_from_file_location("lm_eval_utils", FOLDER / "utils.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def members(path: Path) -> set[str]:
    """Return the names in a group's file, without the prefix that avoids name clashes with other benchmarks."""
    return {name.removeprefix("reasoning_gym_") for name in yaml.safe_load(path.read_text())["task"]}


def test_lm_eval_groups_contain_every_task() -> None:
    by_category: dict[str, set[str]] = {}
    for name, task in TASKS.items():
        if name != "composite":
            by_category.setdefault(task.category, set()).add(name)
    assert members(FOLDER / "reasoning_gym.yaml") == set(by_category)
    for category, names in by_category.items():
        assert members(FOLDER / category / f"_reasoning_gym_{category}.yaml") == names
        assert {path.stem.removeprefix("reasoning_gym_") for path in (FOLDER / category).glob("r*.yaml")} == names


def test_lm_eval_file_loads_the_task_named_in_its_file_name() -> None:
    for path in FOLDER.glob("*/r*.yaml"):
        config = yaml.safe_load(path.read_text())
        name = path.stem.removeprefix("reasoning_gym_")
        assert (config["task"], config["task_alias"], config["dataset_kwargs"]) == (path.stem, name, {"task": name})


@pytest.mark.parametrize("rewards", ["strict", "library"])
def test_lm_eval_gives_the_same_scores_as_the_bridge_class(monkeypatch: pytest.MonkeyPatch, rewards: str) -> None:
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
@pytest.mark.parametrize("rewards", ["strict", "library"])
def test_lm_eval_harness_reports_the_score_of_each_task(monkeypatch: pytest.MonkeyPatch, rewards: str) -> None:
    """The model answers every second problem right. The value of a group is the mean over its tasks."""
    settings = {"rewards": rewards, "num_eval_samples_per_task": 2, "num_verifiers": 1}
    said: dict[str, str] = {}
    scores: dict[str, list[float]] = {}
    with Bridge(tasks="category:induction", **settings) as direct:
        for number, problem in enumerate(direct.evaluation_problems()):
            text = f"<answer>{'no' if number % 2 else problem.answer}</answer>"
            said["\n\n".join(message["content"] for message in direct.messages(problem))] = text
            scores.setdefault(problem.task, []).append(direct.verdict(problem, text).score)
    expected = {task: sum(values) / len(values) for task, values in scores.items()}

    found = run_harness(monkeypatch, said, settings, "reasoning_gym_induction")
    assert {name: row["score,none"] for name, row in found["results"].items() if name in found["configs"]} == {
        f"reasoning_gym_{task}": pytest.approx(score) for task, score in expected.items()
    }
    assert found["groups"]["reasoning_gym_induction"]["score,none"] == pytest.approx(sum(expected.values()) / 2)


@pytest.mark.slow
def test_lm_eval_harness_does_not_stop_completions_at_a_blank_line(monkeypatch: pytest.MonkeyPatch) -> None:
    found = run_harness(monkeypatch, {}, {"num_eval_samples_per_task": 1}, "reasoning_gym_coin_flip")
    [config] = found["configs"].values()
    assert config["generation_kwargs"]["until"] == []
    assert config["metadata"]["version"] == 1.0


def run_harness(
    monkeypatch: pytest.MonkeyPatch, said: dict[str, str], settings: dict[str, object], task: str
) -> dict[str, Any]:
    """Return the results of the harness for a model that answers the prompts in `said` with the given strings."""
    lm_eval = pytest.importorskip("lm_eval", reason="needs the extra `lm-eval`: make integrations-lm-eval")
    from lm_eval.api.model import LM
    from lm_eval.tasks import TaskManager

    class Model(LM):  # type: ignore[misc]
        loglikelihood = loglikelihood_rolling = None

        def generate_until(self, requests: list[Any], **_: object) -> list[str]:
            return [said.get(request.args[0], "") for request in requests]

    monkeypatch.setenv("REASONING_SETTINGS", json.dumps(settings))
    # The module reads the settings at import, and the harness would reuse an imported module.
    monkeypatch.delitem(sys.modules, str(FOLDER / "utils"), raising=False)
    manager = TaskManager(include_path=str(FOLDER), include_defaults=False)
    with process_bridge(json.dumps(settings)):
        found: dict[str, Any] = lm_eval.simple_evaluate(Model(), tasks=[task], task_manager=manager)
    return found
