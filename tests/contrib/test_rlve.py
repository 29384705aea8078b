"""Use all environments of the installed RLVE-Gym as tasks."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import RawTestServer

from reasoning_env import Bridge, JudgeClient, Problem, Session
from reasoning_env.commands.evaluate import evaluate_command
from reasoning_env.judging.server import JudgeServer
from reasoning_env.records import Reason
from reasoning_gym_testing.http_server import FaultyServer

pytest.importorskip("Gym", reason="needs rlve-gym: make contrib-rlve")

on_module_loop = pytest.mark.asyncio(loop_scope="module")
MODULE = str(Path(__file__).parents[2] / "examples" / "contrib" / "rlve_tasks.py")
EVALUATING = ("rlve/CountdownClose", "rlve/CountdownEqual", "rlve/Differentiate", "rlve/Integral")
"""Environments that pass the model's answer to `sympify` or `eval`."""


class ConstantModel(FaultyServer):
    """A chat server that gives the same answer to every question."""

    TEXT = "<answer>1</answer>"

    def make_app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self.complete)
        return app

    async def complete(self, request: web.Request) -> web.Response:
        choice = {"message": {"content": self.TEXT}, "finish_reason": "stop"}
        return web.json_response({"choices": [choice], "usage": {"completion_tokens": 5}})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session() -> AsyncIterator[Session[Problem]]:
    async with Session(tasks=["rlve/*"], task_modules=[MODULE], scoring_deadline_s=2.0) as started:
        yield started


@on_module_loop
async def test_right_answers_of_every_rlve_environment_earn_1(session: Session[Problem]) -> None:
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
async def test_rlve_scores_are_equal_in_every_way_of_judging(
    session: Session[Problem],
) -> None:
    """Compare the three with a right and a wrong answer to a problem of every environment."""
    problems = await asyncio.gather(*(session.make(task, 5, level=0.25) for task in session.plan.tasks))
    texts = {problem.reference: [f"<answer>{problem.answer}</answer>", "<answer>1</answer>"] for problem in problems}
    async with RawTestServer(JudgeServer(session).handle) as server:
        own = Bridge(tasks=["rlve/*"], task_modules=[MODULE], scoring_deadline_s=2.0, start=False)
        # All problems are queued at the same time, possibly on a busy machine.
        over_http = Bridge(judge=JudgeClient(str(server.make_url("/")), timeout_s=3600.0))
        ways = (session.judge, own.ajudge, over_http.ajudge)
        judged = [
            await asyncio.gather(*(judge(reference, of_one) for reference, of_one in texts.items())) for judge in ways
        ]
        for bridge in (own, over_http):
            await asyncio.to_thread(bridge.close)
    by_session, *others = [
        [[(verdict.score, verdict.reason) for verdict in of_one] for of_one in of_way] for of_way in judged
    ]
    assert len(by_session) == 400
    assert others == [by_session, by_session]


def test_scores_of_an_rlve_evaluation_equal_the_scores_of_direct_judging(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compare the scores of an evaluation of all environments with direct judging."""
    monkeypatch.chdir(tmp_path)
    with ConstantModel() as server:
        words = ["m", "--task-modules", MODULE, "--tasks", "rlve/*", "--limit", "1", "-n", "1"]
        assert evaluate_command([*words, "--base-url", f"{server.url}/v1"], tmp_path) == 0
    [samples] = tmp_path.glob("evals/m-*/samples.jsonl")
    lines = [json.loads(line) for line in samples.read_text().splitlines()]
    with Bridge(tasks=["rlve/*"], task_modules=[MODULE], scoring_deadline_s=2.0) as bridge:
        judged = [bridge.judge(line["reference"], [ConstantModel.TEXT]) for line in lines]
    assert len(lines) == 400
    assert [line["rollouts"][0]["score"] for line in lines] == [verdict.score for [verdict] in judged if verdict]


@on_module_loop
async def test_rlve_problem_is_made_again_from_its_problem_reference(session: Session[Problem]) -> None:
    for task in session.plan.tasks[::20]:
        problem = await session.make(task, 8, level=0.5)
        assert (await session.remake(problem.reference)).question == problem.question


@on_module_loop
@pytest.mark.parametrize("task", EVALUATING)
async def test_hostile_answers_score_zero_and_have_no_side_effect(
    task: str, session: Session[Problem], tmp_path: Path
) -> None:
    """Hostile answers open no file, process or socket, and do not affect the score of other answers."""
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
