"""Judge on a real Ray cluster with two nodes on this machine."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

ray = pytest.importorskip("ray", reason="needs the extra `ray`: make integrations")

from ray.cluster_utils import Cluster

import reasoning_env
from reasoning_env import ConfigError, InvalidReferenceError, Problem, ReasoningSettings, ScoringError, Session
from reasoning_env.commands.judge import judge_command
from reasoning_env.integrations.ray import RayJudges
from reasoning_env.records import Reason
from tests.three_completions import three_completions
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.slow
on_module_loop = pytest.mark.asyncio(loop_scope="module")

ROOT = Path(reasoning_env.__file__).parent.parent
Judge = Callable[[str, list[str]], Awaitable[list[float]]]
SETTINGS = ReasoningSettings(tasks=["gcd", "chain_sum", "maze"], seed=1, num_generators=1, num_verifiers=1)
GROUPS = 48


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A head node and a second node. A test may kill the second node."""
    # Without a dashboard, no port can be in use by another Ray on this machine.
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.second = cluster.add_node(num_cpus=1)
    cluster.connect()
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def problems() -> AsyncIterator[list[tuple[Problem, list[str], list[float]]]]:
    """Problems with completions, and their scores from a session in this process."""
    session = Session(SETTINGS)
    await session.start()
    found = []
    for _ in range(GROUPS):
        problem = await session.next()
        completions = [*three_completions(problem), "<answer>5</answer>", "none"]
        verdicts = await session.judge(problem, completions)
        found.append((problem, completions, [verdict.score for verdict in verdicts]))
    yield found
    await session.close()


@on_module_loop
async def test_invalid_problem_reference_raises_on_the_ray_cluster(cluster: Any) -> None:
    with pytest.raises(InvalidReferenceError, match="expected task:split"):
        await RayJudges(SETTINGS).judge("nonsense", ["<answer>1</answer>"])


async def judged_while_a_node_dies(cluster: Any, problems: Any, judge: Judge) -> list[list[float]]:
    """Judge all groups concurrently, and kill the second node after the first group is judged."""
    await asyncio.gather(*(judge(problem.reference, texts) for problem, texts, _ in problems[:4]))
    judging = [asyncio.create_task(judge(problem.reference, texts)) for problem, texts, _ in problems]
    await asyncio.wait(judging, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.to_thread(cluster.remove_node, cluster.second, allow_graceful=False)
    return await asyncio.gather(*judging)


@on_module_loop
async def test_no_verdict_is_lost_if_a_ray_node_is_killed(cluster: Any, problems: Any) -> None:
    judges = RayJudges(SETTINGS)

    async def judge(reference: str, texts: list[str]) -> list[float]:
        return [verdict.score for verdict in await judges.judge(reference, texts)]

    assert await judged_while_a_node_dies(cluster, problems, judge) == [expected for _, _, expected in problems]


@on_module_loop
async def test_dead_ray_node_is_skipped(cluster: Any, problems: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RayJudges, "REST_S", 0.0)  # the cluster is polled for the node
    judges = RayJudges(SETTINGS)
    cluster.remove_node(cluster.second, allow_graceful=False)
    for problem, texts, expected in problems[:4]:
        assert [verdict.score for verdict in await judges.judge(problem.reference, texts)] == expected


@on_module_loop
async def test_killed_ray_judge_restarts(cluster: Any, problems: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RayJudges, "REST_S", 0.0)
    judges = RayJudges(SETTINGS)
    problem, texts, expected = problems[0]
    for actor in judges._busy:
        pid = await actor.__ray_call__.remote(lambda _: os.getpid())
        os.kill(pid, signal.SIGKILL)
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with suppress(ScoringError):
                verdicts = await judges.judge(problem.reference, texts)
                break
    assert [verdict.score for verdict in verdicts] == expected


@asynccontextmanager
async def serving(*options: str) -> AsyncIterator[str]:
    """Run the command `judge` and yield its address. Afterwards, the command must exit with status 0."""
    command = [sys.executable, "reasoning_gym_environment.py", "judge", "--port", "0", *options]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield (await asyncio.to_thread(server.stdout.readline)).split()[-1]
        finally:
            server.terminate()
            await asyncio.to_thread(server.communicate)  # Ray writes to the process's output until it ends
    assert server.returncode == 0


@on_module_loop
async def test_judge_command_judges_on_a_ray_cluster_after_a_node_is_killed(cluster: Any, problems: Any) -> None:
    async with serving("--ray", cluster.address) as url, aiohttp.ClientSession() as client:

        async def judge(reference: str, texts: list[str]) -> list[float]:
            # One text has a lone surrogate, which UTF-8 cannot encode.
            body = json.dumps({"ref": reference, "texts": texts}, ensure_ascii=False).encode("utf-8", "replace")
            async with client.post(f"{url}/score", data=body) as reply:
                assert reply.status == 200, await reply.text()
                return [verdict["score"] for verdict in (await reply.json())["verdicts"]]

        scores = await judged_while_a_node_dies(cluster, problems, judge)
    assert scores == [expected for _, _, expected in problems]


SCORE = f"{ROOT}/tests/score_functions.py:score"
COMPLETIONS = ["42", "no", "crash", "raise", "parts"]


@on_module_loop
async def test_ray_cluster_runs_a_score_function(cluster: Any) -> None:
    """Both nodes judge rows. After the first node has ended, the second node still judges."""
    judges = RayJudges(ReasoningSettings(num_verifiers=1), score=SCORE)
    verdicts = await asyncio.gather(*(judges.judge({"answer": "42"}, COMPLETIONS) for _ in range(4)))
    cluster.remove_node(cluster.second, allow_graceful=False)
    verdicts.append(await judges.judge({"answer": "42"}, COMPLETIONS))
    for of_row in verdicts:
        assert [verdict.score for verdict in of_row] == [1.0, 0.0, 0.0, 0.0, 0.5]
        assert [verdict.reason for verdict in of_row[2:4]] == [Reason.CRASH, Reason.VERIFIER_ERROR]
        assert of_row[4].parts == {"length": 3.0, "style": 0.25}


@on_module_loop
async def test_judge_command_with_a_score_function_judges_on_a_ray_cluster(cluster: Any) -> None:
    options = ("--score", SCORE, "--verifiers", "1", "--ray", cluster.address)
    async with serving(*options) as url, aiohttp.ClientSession() as client:
        body = {"row": {"answer": "42"}, "texts": COMPLETIONS}
        async with client.post(f"{url}/score", json=body) as reply:
            assert [each["score"] for each in (await reply.json())["verdicts"]] == [1.0, 0.0, 0.0, 0.0, 0.5]


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_missing_ray_cluster_raises_a_one_line_error(scheme: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        host, port = free.getsockname()
    with pytest.raises(ConfigError, match=rf"--ray: no Ray cluster answers at {scheme}{host}:{port} "):
        judge_command(["--ray", f"{scheme}{host}:{port}"], ROOT)


def test_ray_example_judges_completions() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "examples.ray_judges"], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S
    )
    judged = [line for line in ended.stdout.splitlines() if line.endswith("[1.0, 0.0]")]
    assert len(judged) == 4, ended.stderr
