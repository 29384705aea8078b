"""Use the installed reasoning-core through `task_modules`."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

import reasoning_env
from reasoning_env import Problem, Session

pytest.importorskip("reasoning_core", reason="needs reasoning-core: make contrib-reasoning-core")

on_module_loop = pytest.mark.asyncio(loop_scope="module")
ROOT = Path(reasoning_env.__file__).parents[1]
MODULE = str(ROOT / "examples" / "contrib" / "reasoning_core_tasks.py")
TASKS = (
    "arithmetics",
    "analogical_case_matching",
    "attribute_grammar",
    "code_runnability",
    "controlled_code_execution",
    "defeasible_nli",
    "finite_automaton_execution",
    "graph_successors",
    "lambda_reduction",
    "math_word_problem",
    "parsing_derivation",
    "planning",
    "process_inversion",
    "rewrite_system",
    "rule_switching",
    "set_expression",
    "shift_reduce_parsing",
    "string_transduction",
    "table_statistics",
    "unification_entailment",
)
"""Tasks without a time limit. Other tasks give up on a busy machine and then generate a different problem."""


def new_session() -> Session[Problem]:
    settings = {"tasks": list(TASKS), "task_modules": [MODULE], "num_generators": 1, "num_verifiers": 1}
    return Session(**settings, scoring_deadline_s=60.0)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session() -> AsyncIterator[Session[Problem]]:
    async with new_session() as started:
        yield started


@on_module_loop
async def test_right_answers_to_reasoning_core_tasks_earn_full_score(session: Session[Problem]) -> None:
    problems = [await session.make(task, 3, level=level) for task in TASKS for level in (None, 0.0, 0.5)]
    judged = [await session.judge(each, [f"<answer>{each.answer}</answer>", "<answer>~</answer>"]) for each in problems]
    assert {problem.task for problem, (right, _) in zip(problems, judged, strict=True) if right.score < 1.0} == set()
    assert {problem.task for problem, (_, wrong) in zip(problems, judged, strict=True) if wrong.score == 1.0} == set()


@on_module_loop
async def test_level_determines_parameters_of_reasoning_core_tasks(session: Session[Problem]) -> None:
    for level, steps in ((0.0, 0), (0.5, 2), (1.0, 4)):
        assert (await session.make("arithmetics", 3, level=level)).params == {"level": steps}


@on_module_loop
async def test_new_workers_recreate_problems_from_problem_references(session: Session[Problem]) -> None:
    """New workers generate the problems in reverse order."""
    problems = [await session.make(task, seed) for task in TASKS for seed in (5, 6)]
    async with new_session() as other:
        for problem in reversed(problems):
            assert (await other.remake(problem.reference)).question == problem.question
            [verdict] = await other.judge(problem.reference, [f"<answer>{problem.answer}</answer>"])
            assert verdict.score == 1.0


@on_module_loop
async def test_documented_reasoning_core_command_runs() -> None:
    command = "reasoning_gym_environment.py tasks arithmetics --task-modules examples/contrib/reasoning_core_tasks.py"
    words = [sys.executable, *command.split()]
    ended = await asyncio.to_thread(subprocess.run, words, cwd=ROOT, capture_output=True, text=True)
    assert ended.stdout.startswith("=== arithmetics: parameters"), ended.stderr
