"""Use RLVE-Gym environments as tasks, with a fake package in place of RLVE-Gym."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from reasoning_env import Session
from reasoning_env.records import ProblemRequest, ProblemSpec, Reason, Split
from tests.waiting import PATIENCE_S

on_module_loop = pytest.mark.asyncio(loop_scope="module")
MODULE = str(Path(__file__).parents[2] / "examples" / "contrib" / "rlve_tasks.py")

GYM = {
    "environment.py": """
import torch


def timeout(seconds):
    raise AssertionError("a thread of the package's own")


class VerifiableEnvironment:
    passing_reward_threshold = 1.0

    def __init__(self):
        self.seed = self.parameter = None
""",
    "environments/__init__.py": """
import random
from Gym.environment import VerifiableEnvironment, timeout


class Doubling(VerifiableEnvironment):
    def _generate(self):
        self.parameter["number"] = random.randrange(10 ** self.parameter["digits"])
        self.parameter["reference_answer"] = str(2 * self.parameter["number"])

    def _prompt_generate(self):
        return f"What is twice {self.parameter['number']}?"

    def _process(self, answer):
        return int(answer)

    @timeout(10)
    def scorer(self, output):
        try:
            given = self.processor(output)
        except ValueError:
            return -1.0
        if given == 2 * self.parameter["number"]:
            return 1.0
        return {-1: -0.5, -2: 0.25, -3: 7.0}.get(given, 0.0)


class Emptying(Doubling):
    def _generate(self):
        super()._generate()
        if self.seed < 100:
            self.parameter["reference_answer"] = ""


class Evaluating(Doubling):
    def _process(self, answer):
        return eval(answer, {})


identifier2environment = {"Doubling": Doubling, "Emptying": Emptying, "Evaluating": Evaluating}
""",
    "parameter_controllers/__init__.py": """
class Digits:
    def __init__(self):
        self.digits = 2

    def update(self):
        self.digits += 1

    def get_parameter_list(self):
        return [{"digits": self.digits}]


identifier2controller = dict.fromkeys(("Doubling", "Emptying", "Evaluating"), Digits)
""",
    "__init__.py": "",
}
METADATA = "Metadata-Version: 2.1\nName: rlve-gym\nVersion: 0.0.0\n"


def rlve_session(**settings: Any) -> Session[Any]:
    small = {"num_generators": 1, "num_verifiers": 1, "task_modules": [MODULE]}
    return Session(**{**small, "scoring_deadline_s": 0.5, **settings})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session[Any]]:
    """A session with two environments of the fake package."""
    folder = tmp_path_factory.mktemp("rlve")
    for name, text in GYM.items():
        (folder / "Gym" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "Gym" / name).write_text(text)
    (folder / "rlve_gym-0.0.0.dist-info").mkdir()
    (folder / "rlve_gym-0.0.0.dist-info" / "METADATA").write_text(METADATA)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        async with rlve_session(tasks=["rlve/*", "gcd", "composite"]) as started:
            yield started


@on_module_loop
async def test_rlve_task_names_begin_with_rlve(session: Session[Any]) -> None:
    assert session.plan.tasks == ("composite", "gcd", "rlve/Doubling", "rlve/Emptying", "rlve/Evaluating")
    assert session.plan.all_params["composite"] == {"datasets": [{"name": "gcd"}]}
    assert session.plan.adjustable >= {"rlve/Doubling", "rlve/Evaluating"}


@on_module_loop
@pytest.mark.parametrize(("level", "digits", "told"), [(None, 2, None), (0.0, 2, 0.0), (0.3, 4, 0.25), (1.0, 10, 1.0)])
async def test_level_determines_parameters_of_rlve_tasks(
    level: float | None, digits: int, told: float | None, session: Session[Any]
) -> None:
    problem = await session.make("rlve/Doubling", 5, level=level)
    assert (problem.params, problem.level) == ({"digits": digits}, told)


@on_module_loop
async def test_rewards_of_an_rlve_verifier_are_clipped_to_the_range_from_0_to_1(session: Session[Any]) -> None:
    problem = await session.make("rlve/Doubling", 5, level=0.5)
    answers = [problem.answer, "0", "-1", "-2", "prose", "-3"]
    verdicts = await session.judge(problem, [f"<answer>{answer}</answer>" for answer in answers])
    assert [verdict.score for verdict in verdicts] == [1.0, 0.0, 0.0, 0.25, 0.0, 0.0]
    assert [verdict.reason for verdict in verdicts] == [Reason.SCORED] * 5 + [Reason.VERIFIER_ERROR]


@on_module_loop
async def test_rlve_problem_with_an_empty_answer_is_rejected(session: Session[Any]) -> None:
    served = ProblemSpec(ProblemRequest("rlve/Emptying", 5), Split.TRAIN, 0)
    problem = await session.pool.generate(served, PATIENCE_S)
    assert (problem.flawed, bool(problem.answer)) == ({"wrong": 1}, True)
    assert (await session.make("rlve/Emptying", 5)).answer == ""


@on_module_loop
async def test_rlve_problem_reference_contains_the_release_of_the_package(session: Session[Any]) -> None:
    problem = await session.make("rlve/Doubling", 5, level=0.5)
    assert problem.reference.split(":")[:5] == ["rlve/Doubling", "train", "5", "0.5", "rlve@0.0.0"]
    assert (await session.remake(problem.reference)).question == problem.question


@on_module_loop
async def test_invalid_rlve_parameters_raise(session: Session[Any]) -> None:
    problem = await session.make("rlve/Doubling", 5, params={"digits": 1})
    assert problem.params == {"digits": 1}
    faults = await session.pool.check([("rlve/Doubling", {"digit": 1}, None)])
    assert faults == ["rlve/Doubling: there is no parameter 'digit'; choose from: digits"]


@on_module_loop
async def test_code_in_an_answer_runs_only_inside_the_sandbox(session: Session[Any], tmp_path: Path) -> None:
    """The verifier evaluates the answer as code; the sandbox denies files, processes and sockets."""
    if "seccomp" not in session.pool.fork_servers.sandbox.partition("; not by")[0]:
        pytest.skip("no sandbox here")
    problem = await session.make("rlve/Evaluating", 5)
    written = tmp_path / "written"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)
        hostile = [
            f"__import__('os').open({str(written)!r}, 65)",
            f"__import__('os').system('touch {written}')",
            f"__import__('os').kill({os.getpid()}, 0) or 4",
            f"__import__('socket').create_connection({listener.getsockname()!r})",
            f"open({str(Path(__file__))!r}).read() and {problem.answer}",
            "[0 for _ in iter(int, 1)]",
        ]
        verdicts = await session.judge(problem, [f"<answer>{text}</answer>" for text in [*hostile, problem.answer]])
        with pytest.raises(TimeoutError):
            listener.accept()
    assert [verdict.score for verdict in verdicts] == [0.0] * len(hostile) + [1.0]
    assert verdicts[-2].reason is Reason.TIMEOUT
    assert not written.exists()
