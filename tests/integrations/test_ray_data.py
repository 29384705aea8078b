"""Problems and verdicts in Ray Data, on a real cluster with two nodes on this machine."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ray = pytest.importorskip("ray", reason="needs the extra `ray`: make integrations")

import pyarrow
import pyarrow.parquet
from ray.cluster_utils import Cluster

import reasoning_env
from reasoning_env import ReasoningSettings, Session
from reasoning_env.data.problems import RowPlan, problems
from reasoning_env.data.verdicts import verdicts
from reasoning_env.integrations.ray import JudgeRows, problem_rows
from reasoning_gym_testing import InferenceServer
from tests.waiting import PATIENCE_S

# The packages' own warnings are not this project's.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

ROOT = Path(reasoning_env.__file__).parent.parent
# Ray's processes cannot import the tests.
ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
SETTINGS = ReasoningSettings(tasks=["gcd", "chain_sum"], num_generators=1, num_verifiers=1)
WANTED = RowPlan(count=200, levels=(0.25, 0.5))


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A head node and a second node. A test may kill the second node."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    cluster.second = cluster.add_node(num_cpus=2)
    cluster.connect()
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def complete(row: dict[str, Any]) -> list[str]:
    return [f"<answer>{row['answer']}</answer>", "<answer>5</answer>", "no answer"]


def complete_slowly(batch: pyarrow.Table) -> pyarrow.Table:
    time.sleep(0.5)
    completions = pyarrow.array([complete(row) for row in batch.to_pylist()])
    return batch.append_column("completions", completions)


async def judged_here() -> list[dict[str, Any]]:
    """The rows judged in one process, in the order of the file."""
    async with Session(SETTINGS) as session:
        rows = [{**row, "completions": complete(row)} async for row in problems(session, WANTED)]
        return sorted([row async for row in verdicts(session, rows)], key=lambda row: row["index"])


def test_no_row_is_lost_if_a_ray_node_is_killed(cluster: Any) -> None:
    two = ray.data.ActorPoolStrategy(size=2)
    made = problem_rows(SETTINGS, WANTED, parts=2, compute=two, num_cpus=0.5)
    sampled = made.map_batches(complete_slowly, batch_size=5, batch_format="pyarrow", num_cpus=0.5)
    judged = sampled.map_batches(
        JudgeRows, fn_constructor_args=(SETTINGS,), batch_size=5, batch_format="pyarrow", compute=two, num_cpus=0.5
    )
    rows = iter(judged.iter_rows())
    found = [next(rows)]
    cluster.remove_node(cluster.second, allow_graceful=False)
    found += rows
    assert sorted(found, key=lambda row: row["index"]) == asyncio.run(judged_here())


def test_ray_data_column_types_are_unchanged_by_judging() -> None:
    """Ray pickles the values of some columns, and an earlier stage may have added score columns."""

    async def judge() -> tuple[pyarrow.Table, pyarrow.Table]:
        async with Session(SETTINGS) as session:
            reference = (await session.make("gcd", 7)).reference
        batch = pyarrow.table(
            {
                "reference": ["nonsense", reference],
                "completions": [["none"], ["none"]],
                "mine": pyarrow.array(["a", "b"]).dictionary_encode(),
                "scores": [[1], [1]],
            }
        )
        actor = JudgeRows(SETTINGS)
        try:
            return batch, await anext(actor(batch))
        finally:
            await (await actor._session()).close()

    batch, judged = asyncio.run(judge())
    assert judged.column_names == ["reference", "completions", "mine", "scores", "reasons", "pass_rate"]
    assert judged.schema.field("mine").type == batch.schema.field("mine").type
    assert (judged["mine"].to_pylist(), judged["scores"].to_pylist()) == (["b"], [[0.0]])


def test_ray_data_example_writes_parquet(tmp_path: Path) -> None:
    with InferenceServer() as server:
        words = [sys.executable, "-m", "examples.ray_data", f"{server.url}/v1", "model", str(tmp_path / "rows")]
        subprocess.run(words, cwd=ROOT, check=True, timeout=PATIENCE_S)
    rows = pyarrow.parquet.read_table(tmp_path / "rows").to_pylist()
    assert len({row["question"] for row in rows}) == len(rows) == 100
    assert all(len(row["scores"]) == 4 for row in rows)
