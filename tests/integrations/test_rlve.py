"""The installed RLVE-Gym: every environment makes a problem, and no text of a model touches the machine."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from reasoning_env import Problem, Session
from reasoning_env.records import Reason

pytest.importorskip("Gym", reason="needs rlve-gym: make integrations-rlve")

on_module_loop = pytest.mark.asyncio(loop_scope="module")
EVALUATING = ("rlve/CountdownClose", "rlve/CountdownEqual", "rlve/Differentiate", "rlve/Integral")
"""Environments that hand a model's text to `sympify` or `eval`."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session() -> AsyncIterator[Session[Problem]]:
    async with Session(tasks=["rlve/*"], task_modules=["rlve"], scoring_deadline_s=2.0) as started:
        yield started


@on_module_loop
async def test_right_answers_earn_one(session: Session[Problem]) -> None:
    assert len(session.plan.tasks) == 400
    problems = await asyncio.gather(*(session.make(task, 3, level=0.25) for task in session.plan.tasks))
    answered = [problem for problem in problems if problem.answer and problem.answer.strip()]
    assert len(answered) >= 330
    judged = await asyncio.gather(
        *(session.judge(problem, [f"<answer>{problem.answer}</answer>", "<answer>~</answer>"]) for problem in answered)
    )
    assert {problem.task for problem, (right, _) in zip(answered, judged, strict=True) if not right.correct} == set()
    assert {problem.task for problem, (_, wrong) in zip(answered, judged, strict=True) if wrong.score > 0} == set()


@on_module_loop
async def test_references_make_the_same_problems(session: Session[Problem]) -> None:
    for task in session.plan.tasks[::20]:
        problem = await session.make(task, 8, level=0.5)
        assert (await session.remake(problem.reference)).question == problem.question


@on_module_loop
@pytest.mark.parametrize("task", EVALUATING)
async def test_hostile_text(task: str, session: Session[Problem], tmp_path: Path) -> None:
    """No file, no process, no socket; and the answer beside the hostile answers is scored."""
    problem = await session.make(task, 3, level=0.5)
    written = tmp_path / "written"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)
        hostile = [
            f"open({str(written)!r}, 'w').write('x')",
            f"__import__('os').system('touch {written}')",
            f"__import__('subprocess').run(['touch', {str(written)!r}])",
            f"__import__('socket').create_connection({listener.getsockname()!r})",
            "factorial(10**8)",
        ]
        verdicts = await session.judge(problem, [f"<answer>{text}</answer>" for text in [*hostile, problem.answer]])
        with pytest.raises(TimeoutError):
            listener.accept()
    assert [verdict.score for verdict in verdicts[:-1]] == [0.0] * len(hostile)
    assert verdicts[-1].reason is Reason.SCORED
    assert problem.answer is None or verdicts[-1].correct
    assert not written.exists()
