"""Judging on a real Ray cluster of two nodes on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

ray = pytest.importorskip("ray", reason="needs the extra `ray`: make integrations")

from ray.cluster_utils import Cluster

from reasoning_env import InvalidReferenceError, Problem, ReasoningSettings, Session
from reasoning_env.integrations.ray import RayJudges

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

SETTINGS = ReasoningSettings(
    tasks=["gcd", "chain_sum", "maze"], seed=1, num_generators=1, num_verifiers=1, worker_niceness=0
)
GROUPS = 48


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head without room for judges' work, and a second node that a test may kill."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    cluster.second = cluster.add_node(num_cpus=1)
    cluster.connect()
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def problems() -> AsyncIterator[list[tuple[Problem, list[str], list[float]]]]:
    """Problems, completions of them, and what a session here gives for these."""
    session = Session(SETTINGS)
    await session.start()
    found = []
    for _ in range(GROUPS):
        problem = await session.next()
        completions = [f"<answer>{problem.answer}</answer>", "<answer>5</answer>", "none"]
        verdicts = await session.judge(problem, completions)
        found.append((problem, completions, [verdict.score for verdict in verdicts]))
    yield found
    await session.close()


async def test_mistake_of_a_caller_is_raised(cluster: Any) -> None:
    with pytest.raises(InvalidReferenceError, match="expected task:split"):
        await RayJudges(SETTINGS).judge("nonsense", ["<answer>1</answer>"])


async def test_no_verdict_is_lost_with_a_node(cluster: Any, problems: Any) -> None:
    judges = RayJudges(SETTINGS)
    await asyncio.gather(*(judges.judge(problem.reference, texts) for problem, texts, _ in problems[:4]))
    judging = [asyncio.create_task(judges.judge(problem.reference, texts)) for problem, texts, _ in problems]
    await asyncio.wait(judging, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.to_thread(cluster.remove_node, cluster.second, allow_graceful=False)
    verdicts = await asyncio.gather(*judging)
    scores = [[verdict.score for verdict in group] for group in verdicts]
    assert scores == [expected for _, _, expected in problems]
