"""Limit how many files of the package run for a group, a completion, a request, an evaluation and a row."""

from __future__ import annotations

import asyncio
import re
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

import pytest
from aiohttp.test_utils import RawTestServer, TestClient

import reasoning_env
from reasoning_env import Problem, Session
from reasoning_env.commands.main import main
from reasoning_env.evaluations.run import Evaluation
from reasoning_env.inference.completer import ServerSettings
from reasoning_env.inference.failures import Timeouts
from reasoning_env.inference.formats.choices import CHAT, PlainChat
from reasoning_env.inference.served_model import ServedModel
from reasoning_env.inference.server import RequestOptions, Server
from reasoning_env.judging.server import JudgeServer
from reasoning_env.problems.stream import ProblemStream
from reasoning_env.program.training import EvaluateSettings
from reasoning_env.records import ProblemRequest
from reasoning_env.settings.cores import default_workers
from reasoning_env.storage.folders import find_checkout
from reasoning_env.workers.library import Library
from reasoning_gym_environment import ReasoningGymEnv
from reasoning_gym_testing import InferenceServer
from tests.commands.test_evaluate import RightAnswers
from tests.front_door.conftest import WRONG, make_config
from tests.small_library import write_small_library
from tests.waiting import until

ROOT = Path(reasoning_env.__file__).parent.parent
PAGE = ROOT / "docs" / "architecture.md"

# If a change exceeds a bound, simplify the call path. Lower the bounds with the code, and never raise them.
BOUNDS = {
    "group": 27,
    "mixed group": 28,
    "completion": 8,
    "answer": 7,
    "judge request": 14,
    "hosted evaluation": 29,
    "evaluation": 45,
    "row": 35,
}
"""The maximum number of files whose functions run on each call path. docs/architecture.md describes the paths."""
LINES = {"mixed group": 6_930}
"""The maximum number of lines of code in all files whose functions run on a call path."""


MOVES = 20
"""The maximum number of calls from one file to another while `Session.observe` updates estimates and metrics."""


class Trace:
    """Records the files of the core and the launcher whose functions are called, without test files.

    Functions that run during an import do not count, because an earlier test may have imported the module.
    """

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.moves = 0
        """Number of calls to a function in a different file than the previous call."""
        self._last = ""

    def __enter__(self) -> Self:
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call":
            return
        file = Path(frame.f_code.co_filename)
        if file.is_relative_to(ROOT):
            name = file.relative_to(ROOT).as_posix()
            is_ours = name.startswith("reasoning_env/") or name == "reasoning_gym_environment.py"
            if is_ours and (name in self.files or not _runs_for_import(frame)):
                self.files.add(name)
                self.moves += name != self._last
                self._last = name


def _runs_for_import(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def check_bound(way: str, trace: Trace) -> None:
    lines = {name: (ROOT / name).read_text().count("\n") for name in sorted(trace.files)}
    listed = "\n".join(f"{count:5} {name}" for name, count in lines.items())
    assert len(lines) <= BOUNDS[way], listed
    assert sum(lines.values()) <= LINES.get(way, sys.maxsize), listed


@pytest.fixture
async def session() -> AsyncIterator[Session[Problem]]:
    """A session whose workers and buffer are ready, so that no worker starts while a test traces."""
    async with Session(tasks=["gcd"], num_generators=1, num_verifiers=1) as session:
        await until(lambda: len(session.pool.worker_pids) == 2)
        yield session


async def next_problem(session: Session[Problem]) -> Problem:
    """Return the next problem after waiting until the buffer is full again."""
    problem = await session.next()
    await until_full(session)
    return problem


async def until_full(session: Session[Any]) -> None:
    """Wait until the buffer is full and all callbacks have run, so that the test does not trace them."""
    await until(lambda: session.stats.ready == ProblemStream.min_ahead)
    for _ in range(3):
        await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def no_checks_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable progress logs and checks of servers and workers, which depend on the time that the test takes."""
    for setting in (
        "atropos.report.PROGRESS_INTERVAL_S",
        "inference.server.REACH_POLL_S",
        "workers.pool.WORKER_STALL_S",
        "workers.worker.WORKER_CHECK_S",
        "workers.worker.WORKER_STALL_S",
    ):
        monkeypatch.setattr(f"reasoning_env.{setting}", 3600.0)


async def test_collecting_a_group_runs_code_from_few_source_files(tmp_path: Path) -> None:
    check_bound("group", await trace_groups(tmp_path, 1, tasks=["chain_sum", "gcd", "lcm"]))


async def test_collecting_groups_of_many_tasks_needs_few_source_files(tmp_path: Path) -> None:
    """Trace ten groups of different tasks, some of which repeat questions, at curriculum levels."""
    tasks = ["chain_sum", "gcd", "syllogism", "sudoku", "maze", "propositional_logic", "simple_equations"]
    check_bound("mixed group", await trace_groups(tmp_path, 10, tasks=tasks, complexity_mode="curriculum"))


async def trace_groups(folder: Path, count: int, **settings: Any) -> Trace:
    """Trace an environment that dumps groups, after its workers and buffer are ready."""
    async with InferenceServer() as server:
        config = make_config(
            num_eval_samples_per_task=2,
            dump_rollouts=True,
            rollout_save_score_threshold=0.0,
            data_dumps_dir=str(folder),
            **settings,
        )
        env: Any = ReasoningGymEnv(config, [server.config("vllm")])
        await env.setup()
        await env.get_next_item()
        await until_full(env._run.session)
        # No worker may start while the test traces.
        await until(lambda: len(env._run.session.pool.worker_pids) == config.generators + config.verifiers)
        with Trace() as trace:
            for _ in range(count):
                item = await env.get_next_item()
                right = f"<answer>{item.problem.known_answer}</answer>"
                server.policy = lambda request, right=right: [right, *[WRONG] * (request.n - 1)]
                group, _ = await env.collect_trajectories(item)
                assert max(group["scores"]) == 1.0
                await until_full(env._run.session)
        await env.close()
    return trace


async def test_scoring_a_completion_runs_code_from_few_source_files(session: Session[Problem]) -> None:
    problem = await next_problem(session)
    with Trace() as trace:
        [verdict] = await session.judge(problem, [f"<answer>{problem.answer}</answer>"])
    assert verdict.score == 1.0
    check_bound("completion", trace)


async def test_observe_method_makes_few_calls_between_source_files(session: Session[Problem]) -> None:
    problem = await next_problem(session)
    verdicts = await session.judge(problem, [f"<answer>{problem.answer}</answer>", WRONG, "nothing"])
    with Trace() as trace:
        session.observe(problem, verdicts)
    assert trace.moves <= MOVES


def test_verifying_an_answer_runs_code_from_few_source_files() -> None:
    """Trace a verifier in this process."""
    library = Library(None)
    problem = library.generate(ProblemRequest("gcd", 7, {}, None))
    with Trace() as trace:
        score = library.scorer("gcd", problem.params, problem.entry).score(rf"\boxed{{{problem.answer}}}")
    assert score == 1.0
    check_bound("answer", trace)


async def test_answering_a_judge_request_runs_code_from_few_source_files(session: Session[Problem]) -> None:
    problem = await next_problem(session)
    body = {"ref": problem.reference, "texts": [f"<answer>{problem.answer}</answer>"]}
    async with TestClient(RawTestServer(JudgeServer(session).handle)) as client:
        with Trace() as trace:
            reply = await client.post("/score", json=body)
            [verdict] = (await reply.json())["verdicts"]
    assert verdict["score"] == 1.0
    check_bound("judge request", trace)


def run_command(folder: Path, *words: str) -> Trace:
    default_workers()  # the cores are counted once per process, before tracing
    with Trace() as trace:
        assert main(words, {}, environment_file=folder / "reasoning_gym_environment.py") == 0
    return trace


def test_evaluating_a_model_runs_code_from_few_source_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_small_library(tmp_path)
    with RightAnswers() as server:
        words = ["--base-url", f"{server.url}/v1", "--tasks", "exact", "--limit", "1", "--fail-under", "1"]
        trace = run_command(tmp_path, "evaluate", "m", *words)
    check_bound("evaluation", trace)


async def test_evaluating_inside_a_session_runs_code_from_few_source_files(tmp_path: Path) -> None:
    """Trace an evaluation in a session whose workers are ready."""
    write_small_library(tmp_path)
    settings = EvaluateSettings(
        eval_tasks=["exact"],
        num_eval_samples_per_task=1,
        num_generators=1,
        num_verifiers=1,
        data_dir_to_save_evals=str(tmp_path / "evals"),
    )
    with RightAnswers() as server:
        settings_of_server = ServerSettings(base_url=f"{server.url}/v1", model_name="m", api_key="x")
        servers = [Server(settings_of_server, formats=[CHAT])]
        limits = Timeouts(None, 60.0)
        async with Session[Problem](settings, checkout=find_checkout(tmp_path)) as session:
            await until(lambda: len(session.pool.worker_pids) == 2)
            with Trace() as trace:
                async with ServedModel(
                    lambda: servers, PlainChat(), RequestOptions(), lambda: limits, model="m"
                ) as model:
                    await model.check(60.0)
                    evaluation = await Evaluation.open(session, model, settings, version="1")
                    await evaluation.run()
                    result = await evaluation.conclude()
    overall = result.results["overall"]
    assert overall is not None
    assert overall["mean_score"] == 1.0
    check_bound("hosted evaluation", trace)


def test_writing_a_row_with_the_problems_command_runs_code_from_few_source_files(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    trace = run_command(tmp_path, "problems", "--tasks", "gcd", "--count", "1", "--out", str(out))
    assert len(out.read_text().splitlines()) == 1
    check_bound("row", trace)


def test_architecture_page_lists_the_maximum_number_of_source_files_per_operation() -> None:
    published = re.findall(r"^\| ([a-z ]+) \| .* \| (\d+) \|$", PAGE.read_text(), flags=re.MULTILINE)
    assert {way: int(files) for way, files in published} == BOUNDS
