"""Call `evaluate` from Python, as in a notebook, with a running inference server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import reasoning_gym_environment
from reasoning_env import ConfigError, read_evaluation
from reasoning_env.commands.evaluate import evaluate
from reasoning_env.errors import ServerError
from reasoning_gym_testing import Processes

EXAMPLES = Path(__file__).parents[2] / "examples"


def run_notebook(path: Path) -> dict[str, Any]:
    """Run the code cells of a notebook in order, and return the variables that they define."""
    names: dict[str, Any] = {}
    for cell in json.loads(path.read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    return names


@pytest.fixture(scope="module")
def url(processes: Processes) -> str:
    words = ["-m", "reasoning_gym_testing"]
    server = processes.start("inference", words, python=True, cwd=Path(__file__).parents[2])
    return f"{server.announcement()['url']}/v1"


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def test_evaluate_function_returns_the_results_that_it_writes_to_its_folder(url: str, tmp_path: Path) -> None:
    result = evaluate("m", base_url=url, tasks=["gcd", "lcm"], limit=2, repeats=3, folder=tmp_path / "kept")
    assert result.folder.parent == tmp_path / "kept"
    assert read_evaluation(result.folder) == result
    assert [(row["task"], row["completions"]) for row in result.rows()] == [("gcd", 6), ("lcm", 6), ("ALL TASKS", 12)]


def test_evaluate_function_needs_no_model_name(url: str) -> None:
    result = evaluate(base_url=url, tasks=["gcd"], limit=1, stream="always", timeout=60)
    assert result.results["model"]


def test_evaluate_function_works_inside_a_running_event_loop(url: str) -> None:
    async def in_a_notebook() -> Any:
        return evaluate("m", base_url=url, tasks=["gcd"], limit=1)

    assert asyncio.run(in_a_notebook()).finished


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"tasks": ["gdc"]}, "tasks: there is no task 'gdc'"),
        ({"limit": 0}, "limit: must be at least 1; got 0"),
        ({"taks": "gcd"}, "taks: there is no such setting; did you mean tasks?"),
        ({"preset": "hard"}, "preset: must be one of 'rg-easy', 'rg-hard'; got 'hard'"),
        ({"temperature": "warm"}, "temperature: must be a number; got 'warm'"),
    ],
)
def test_error_of_the_evaluate_function_says_which_argument_is_wrong(
    url: str, wrong: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError) as error:
        evaluate("m", **{"base_url": url, "tasks": ["gcd"], **wrong})
    assert str(error.value).startswith(said)
    assert len(str(error.value).splitlines()) == 1


def test_package_exports_the_evaluate_function() -> None:
    assert reasoning_gym_environment.evaluate is evaluate


def test_evaluate_function_raises_if_no_server_is_reachable() -> None:
    with pytest.raises(ServerError, match=r"no inference server was ready within 0\.3 s"):
        evaluate("m", base_url="http://127.0.0.1:9/v1", tasks=["gcd"], startup_timeout_s=0.3)


def test_evaluation_notebook_runs(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    monkeypatch.setenv("OPENAI_BASE_URL", url)

    async def run_cells() -> dict[str, Any]:
        return run_notebook(EXAMPLES / "evaluation.ipynb")

    names = asyncio.run(run_cells())
    assert len(names["completions"]) == 30
    assert names["unsolved"], "the policy knows no answer"
    assert set(names["changes"]["task"]) == {"mean over tasks", "chain_sum", "gcd", "leg_counting"}


def test_curriculum_notebook_runs() -> None:
    names = run_notebook(EXAMPLES / "curriculum.ipynb")
    assert len(names["scores"]) == names["STEPS"]
    assert names["levels"]["gcd"][-1] > names["levels"]["spell_backward"][-1]
    assert names["following"].level is not None
