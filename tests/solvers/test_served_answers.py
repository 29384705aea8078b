"""Confirm served answers with solvers that read only the question."""

from __future__ import annotations

import asyncio

import pytest

from reasoning_env import ReasoningSettings, Session
from reasoning_env.problems.evaluation_set import evaluation_spec
from reasoning_env.tasks import TASKS
from tests.solvers.opinions import Finding, Opinion, opinions_of
from tests.solvers.table import TABLE

LEVELS = (None, 0.5)
"""Levels at which each task is tested.

None means the library's default parameters. `tools/solve.py` tests many levels.
"""
GENERATION_DEADLINE_S = 60.0
SLOW = frozenset({"countdown", "cryptarithm", "figlet_font", "rectangle_count", "sokoban"})
"""Tasks whose solvers take a second per problem. `tools/solve.py` runs them for more problems."""


def test_solver_table_has_every_task_except_the_composite_task() -> None:
    assert set(TABLE) == set(TASKS) - {"composite"}
    assert [task for task, row in TABLE.items() if row.solve is None and row.check is None and not row.why] == []


@pytest.fixture(scope="module")
def opinions() -> list[Opinion]:
    """Solve a few problems of every task, with default parameters and at one level."""
    return asyncio.run(_ask_all())


async def _ask_all() -> list[Opinion]:
    settings = ReasoningSettings()
    async with Session(settings) as session:
        specs = [
            evaluation_spec(task, 0, 0, run_seed=20261124).with_request(level=level)
            for task in session.plan.tasks
            if task in TABLE and task not in SLOW
            for level in LEVELS
            if level is None or task in session.plan.adjustable
        ]
        problems = await asyncio.gather(*(session.pool.generate(spec, GENERATION_DEADLINE_S) for spec in specs))
        answers = await asyncio.gather(*(opinions_of(session, problem) for problem in problems))
    return [opinion for several in answers for opinion in several]


def _lines(opinions: list[Opinion], *findings: Finding) -> list[str]:
    return [str(opinion) for opinion in opinions if opinion.finding in findings]


def test_independent_solvers_confirm_the_reference_answers(opinions: list[Opinion]) -> None:
    assert _lines(opinions, Finding.DISAGREES) == []


def test_no_served_question_is_ambiguous_to_the_solvers(opinions: list[Opinion]) -> None:
    assert _lines(opinions, Finding.AMBIGUOUS) == []


def test_right_answers_found_by_solvers_earn_full_score(opinions: list[Opinion]) -> None:
    assert _lines(opinions, Finding.REFUSES) == []


def test_wrong_answers_earn_less_than_solver_answers(opinions: list[Opinion]) -> None:
    assert [str(opinion) for opinion in opinions if opinion.finding is Finding.OVERPAYS] == []


def test_solvers_solve_over_70_percent_of_the_problems(opinions: list[Opinion]) -> None:
    confirmed = sum(opinion.finding is Finding.AGREES for opinion in opinions)
    assert confirmed > 0.7 * len(opinions)
