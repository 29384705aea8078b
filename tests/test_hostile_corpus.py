"""The hostile corpus as completions: a session makes each problem from its reference and judges them.

`--whole-corpus` judges every answer to every task; without the option, each task gets one answer in `ONE_IN`, and each
task other answers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio

from reasoning_env import Problem, ReasoningSettings, Session, Verdict
from reasoning_env.tasks import COMPOSITE, TASKS

from .workers.hostile import Hostile, hostile_answers, ordinary_answer
from .workers.support import make
from .workers.traps import Traps

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
on_module_loop = pytest.mark.asyncio(loop_scope="module")

SETTINGS = ReasoningSettings(num_generators=1, num_verifiers=2, worker_niceness=0, scoring_deadline_s=60.0)
ONE_IN = 40


@dataclass(frozen=True)
class Judged:
    """The verdicts of a task's hostile answers, and the scores of its ordinary answer by problem and by reference."""

    task: str
    hostile: list[tuple[Hostile, Verdict]]
    by_problem: float
    by_reference: float


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def traps() -> AsyncIterator[Traps]:
    traps = Traps()
    yield traps
    traps.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def corpus(traps: Traps, pytestconfig: pytest.Config) -> list[Judged]:
    whole = bool(pytestconfig.getoption("--whole-corpus"))
    async with Session(SETTINGS) as session:
        return [
            await judge_task(session, task, traps, start=0 if whole else position % ONE_IN, step=1 if whole else ONE_IN)
            for position, task in enumerate(sorted(TASKS.keys() - {COMPOSITE}))
        ]


async def judge_task(session: Session[Problem], task: str, traps: Traps, *, start: int, step: int) -> Judged:
    problem = await make(session.pool, task)
    hostile = hostile_answers(problem, traps)[start::step]
    ordinary = f"<answer>{ordinary_answer(problem)}</answer>"
    [expected] = await session.judge(problem, [ordinary])
    completions = [ordinary, *(f"<answer>{one.answer}</answer>" for one in hostile)]
    first, *others = await session.judge(problem.reference, completions)
    return Judged(task, list(zip(hostile, others, strict=True)), expected.score, first.score)


@on_module_loop
async def test_no_hostile_answer_is_overpaid(corpus: list[Judged]) -> None:
    overpaid = [
        (judged.task, hostile.name, verdict.score)
        for judged in corpus
        for hostile, verdict in judged.hostile
        if verdict.score > hostile.most
    ]
    assert overpaid == []


@on_module_loop
async def test_references_are_judged_as_problems(corpus: list[Judged]) -> None:
    different = [judged.task for judged in corpus if judged.by_reference != judged.by_problem]
    assert different == []


@on_module_loop
async def test_nothing_is_executed(corpus: list[Judged], traps: Traps) -> None:
    # pytest itself sets a variable for each test.
    assert [event for event in traps.sprung() if event != "changed a variable"] == []
