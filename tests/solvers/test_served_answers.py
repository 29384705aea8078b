"""Served answers, confirmed by solvers that read the question's text alone."""

from __future__ import annotations

import asyncio

import pytest

from reasoning_env import ReasoningSettings, Session
from reasoning_env.library_facts import FACTS
from tests.solvers.opinions import Finding, Opinion, opinions_of
from tests.solvers.table import TABLE

FEW = {None: 3, 0.0: 1, 0.5: 1, 1.0: 1}
"""Problems of each task, by level; None stands for the library's defaults."""
SLOW = frozenset({"countdown", "cryptarithm", "figlet_font", "rectangle_count", "sokoban"})
"""Tasks whose solvers take a second a problem: `tools/solve.py` runs them at length."""


def test_table_has_every_task() -> None:
    assert set(TABLE) == set(FACTS) - {"composite"}
    assert [task for task, row in TABLE.items() if row.solve is None and row.check is None and not row.why] == []


@pytest.fixture(scope="module")
def opinions() -> list[Opinion]:
    """Ask the solvers about a few problems of every task, at the defaults and at levels."""

    async def ask_all() -> list[Opinion]:
        return [opinion for level, count in FEW.items() for opinion in await _ask(level, count)]

    return asyncio.run(ask_all())


async def _ask(level: float | None, count: int) -> list[Opinion]:
    settings = ReasoningSettings(
        exclude_gameable=False,
        num_eval_samples_per_task=count,
        eval_seed=20261124,
        eval_level=level,
        max_answer_bytes=200_000,
    )
    async with Session(settings) as session:
        problems = [problem async for problem in session.evaluation_set.stream() if problem.task not in SLOW]
        return [opinion for problem in problems for opinion in await opinions_of(session, problem)]


def _lines(opinions: list[Opinion], *findings: Finding) -> list[str]:
    return [str(opinion) for opinion in opinions if opinion.finding in findings]


def test_served_answers_are_right(opinions: list[Opinion]) -> None:
    assert _lines(opinions, Finding.DISAGREES) == []


def test_questions_have_one_reading(opinions: list[Opinion]) -> None:
    assert _lines(opinions, Finding.AMBIGUOUS) == []


def test_other_right_answers_are_paid(opinions: list[Opinion]) -> None:
    assert _lines(opinions, Finding.REFUSES) == []


def test_wrong_answers_earn_less(opinions: list[Opinion]) -> None:
    assert [str(opinion) for opinion in opinions if opinion.finding is Finding.OVERPAYS] == []


def test_most_problems_are_solved(opinions: list[Opinion]) -> None:
    confirmed = sum(opinion.finding is Finding.AGREES for opinion in opinions)
    assert confirmed > 0.7 * len(opinions)
