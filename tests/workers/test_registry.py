"""Every task of the library through the workers, beside a direct call of the library in a process of its own."""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import pickle
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from reasoning_env.library_facts import FACTS, KNOWN_TASKS, Rebuild
from reasoning_env.records import LibraryInfo, Problem, ProblemSpec, Reason, Split, Verdict
from reasoning_env.tasks.sampling import composite_params
from reasoning_env.workers.pool import PoolSettings, WorkerPool

REBUILT_FOR_EACH_SEED = {task for task, known in FACTS.items() if known.rebuild is Rebuild.FOR_EACH_SEED}

pytestmark = pytest.mark.slow

DIRECT_CALLS = Path(__file__).with_name("direct_calls.py")
WRONG_ANSWER = "certainly not this"
SEEDS = (17, 3_000_002_002)
"""Far apart, one below and one above 2**31; the second moves every cached dataset on."""
COMPOSED = ("chain_sum", "composite", "leg_counting", "maze", "number_sorting", "word_ladder")
"""What the composite is made of, with members that are moved to another seed and one that is slow to build."""
KEYS = [(task, seed) for seed in SEEDS for task in sorted(KNOWN_TASKS)]


@dataclass(frozen=True)
class Outcome:
    """What the workers and the direct call made of one task and seed."""

    problem: Problem
    oracle: Verdict | None
    wrong: Verdict
    strict_oracle: Verdict | None
    direct: dict[str, Any]


@dataclass(frozen=True)
class Run:
    info: LibraryInfo
    outcomes: dict[tuple[str, int], Outcome]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("direct")
    params = composite_params(COMPOSED, sorted(KNOWN_TASKS))
    wanted = {(task, seed): dict(params.get(task, {})) for task, seed in KEYS}
    (folder / "wanted").write_bytes(pickle.dumps(wanted))
    with subprocess.Popen(
        [sys.executable, str(DIRECT_CALLS), str(folder / "wanted"), str(folder / "results"), WRONG_ANSWER],
        env={**os.environ, "PYTHONHASHSEED": "0"},
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as direct:
        try:
            info, made = asyncio.run(_through_workers(wanted))
            _, errors = direct.communicate(timeout=100)
        finally:
            direct.kill()
    assert direct.returncode == 0, errors.decode()
    results = pickle.loads((folder / "results").read_bytes())
    outcomes = {
        key: Outcome(problem, oracle, wrong, strict_oracle, results[key])
        for key, (problem, oracle, wrong, strict_oracle) in made.items()
    }
    return Run(info, outcomes)


async def _through_workers(
    wanted: dict[tuple[str, int], dict[str, Any]],
) -> tuple[LibraryInfo, dict[tuple[str, int], tuple[Problem, Verdict | None, Verdict, Verdict | None]]]:
    # One generator and one verifier worker, so that the same process serves both seeds of a task.
    pool = WorkerPool(PoolSettings(generators=1, verifiers=1, scoring_deadline_s=60.0, strict_rewards=False))
    strict_pool = WorkerPool(PoolSettings(generators=1, verifiers=1, scoring_deadline_s=60.0))
    try:
        info = await pool.start()
        await strict_pool.start()
        made = {}
        for (task, seed), params in wanted.items():
            problem = await pool.generate(ProblemSpec(task, seed, Split.TRAIN, 0, params=params), 60.0)
            (wrong,) = await pool.score(problem, [WRONG_ANSWER])
            oracle = strict_oracle = None
            if problem.answer is not None:
                (oracle,) = await pool.score(problem, [problem.answer])
                (strict_oracle,) = await strict_pool.score(problem, [problem.answer])
            made[task, seed] = problem, oracle, wrong, strict_oracle
        return info, made
    finally:
        await pool.close()
        await strict_pool.close()


def test_names_known_by_heart_are_those_of_the_registry(run: Run) -> None:
    assert [task.name for task in run.info.tasks] == sorted(KNOWN_TASKS)
    assert len(KNOWN_TASKS) == 106


def test_version_is_that_of_the_installed_distribution(run: Run) -> None:
    assert run.info.version == importlib.metadata.version("reasoning-gym")


def test_library_reports_no_warnings(run: Run) -> None:
    assert run.info.warnings == ()


def test_every_task_has_a_category(run: Run) -> None:
    categories = {task.name: task.category for task in run.info.tasks}
    assert categories["chain_sum"] == "arithmetic"
    assert categories["sudoku"] == "games"
    assert [name for name, category in categories.items() if category == "other"] == ["composite"]


def test_tasks_rebuilt_for_each_seed_are_in_the_registry() -> None:
    assert REBUILT_FOR_EACH_SEED < KNOWN_TASKS


@pytest.mark.parametrize(("task", "seed"), KEYS)
def test_question_answer_and_entry_are_those_of_a_direct_call(run: Run, task: str, seed: int) -> None:
    outcome = run.outcomes[task, seed]
    assert outcome.problem.question == outcome.direct["question"]
    assert outcome.problem.answer == outcome.direct["answer"]
    assert pickle.loads(outcome.problem.entry) == pickle.loads(outcome.direct["entry"])


@pytest.mark.parametrize(("task", "seed"), KEYS)
def test_plain_scores_are_the_better_form_of_a_direct_call(run: Run, task: str, seed: int) -> None:
    outcome = run.outcomes[task, seed]
    if outcome.problem.flaw is not None:
        pytest.skip(f"never served: {outcome.problem.flaw}")
    assert (outcome.oracle is None) == (outcome.direct["oracle_score"] is None)
    if outcome.oracle is not None:
        assert _score(outcome.oracle) == outcome.direct["oracle_score"]
        assert 0.0 <= outcome.oracle.score <= 1.0
    assert _score(outcome.wrong) == outcome.direct["wrong_score"]
    assert 0.0 <= outcome.wrong.score <= 1.0


def _score(verdict: Verdict) -> float | None:
    """The score, or None where the verifier failed, for which the verdict must say 0."""
    if verdict.reason is Reason.VERIFIER_ERROR:
        assert verdict.score == 0.0
        return None
    assert verdict.reason is Reason.SCORED
    return verdict.score


def test_seeds_give_different_problems(run: Run) -> None:
    first, second = SEEDS
    same = [
        task
        for task in KNOWN_TASKS
        if run.outcomes[task, first].problem.entry == run.outcomes[task, second].problem.entry
    ]
    assert same == []


def test_oracle_answers_score_full_marks(run: Run) -> None:
    served = {key: outcome for key, outcome in run.outcomes.items() if outcome.problem.flaw is None}
    assert {key for key, outcome in served.items() if outcome.oracle and outcome.oracle.score < 1.0} == set()
    assert {
        key for key, outcome in served.items() if outcome.strict_oracle and outcome.strict_oracle.score < 1.0
    } == set()
    assert len(served) > 0.9 * len(KEYS)
