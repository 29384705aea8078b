"""`process` writes each group once, whatever fails or interrupts the run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from reasoning_env.problems.sampling import TaskSampler
from reasoning_gym_testing import GenerationRequest, InferenceServer, refuse
from tests.waiting import until

from .conftest import Env, make_env_object

TOTAL = 12

Process = Callable[..., Awaitable[list[dict[str, Any]]]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "groups.jsonl"


@pytest_asyncio.fixture(loop_scope="package")
async def process(workers: Any, server: InferenceServer, path: Path) -> AsyncIterator[Process]:
    """Runs `process` with a new environment, and returns the groups in its file."""

    async def process(total: int = TOTAL, **settings: Any) -> list[dict[str, Any]]:
        settings = {"total_steps": total, "max_num_workers": 4, **settings}
        env = make_env_object(
            [server.config()],
            pool=workers,
            **{"data_path_to_save_groups": str(path), "include_messages": True, **settings},
        )
        made.append(env)
        await env.process_manager()
        return groups(path)

    made: list[Env] = []
    yield process
    for env in made:
        await env.close()


def groups(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def positions(written: list[dict[str, Any]]) -> list[int]:
    return sorted(group["index"] for group in written)


async def test_process_command_generates_groups_concurrently(process: Process, server: InferenceServer) -> None:
    under_way, most = 0, 0

    async def answer(request: GenerationRequest) -> list[str]:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        # The server answers only after the maximum number of requests has arrived.
        await until(lambda: len(server.requests) >= 4)
        await asyncio.sleep(0.05 if len(server.requests) % 4 == 1 else 0.0)
        under_way -= 1
        return [f"<answer>wrong{'!' * number}</answer>" for number in range(request.n)]

    server.policy = answer
    written = await process()
    assert positions(written) == list(range(TOTAL))
    assert most == 4
    assert {len(set(group["scores"])) for group in written} == {1}, "groups with equal scores are kept"


async def test_slow_group_does_not_block_other_groups(process: Process, server: InferenceServer, path: Path) -> None:
    async def hold_the_first(request: GenerationRequest) -> list[str]:
        if len(server.requests) == 1:
            await until(lambda: path.read_bytes().count(b"\n") == TOTAL - 1)
        return ["<answer>?</answer>"] * request.n

    server.policy = hold_the_first
    written = await process()
    assert positions(written) == list(range(TOTAL))
    assert positions(written) != [group["index"] for group in written]


async def test_changed_scoring_settings_start_a_new_output_file(process: Process, path: Path) -> None:
    for number, setting in enumerate(({}, {"thinking": "none"}, {"rewards": "plain"})):
        await process(1, **setting)
        assert len(list(path.parent.glob("*.jsonl"))) == number + 1


@pytest.mark.parametrize("steered", [{}, {"complexity_mode": "curriculum", "task_sampling": "adaptive"}])
async def test_resumed_process_command_writes_only_missing_groups(
    process: Process, server: InferenceServer, path: Path, steered: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reasoning_env.atropos.modes.shutdown.SHUTDOWN_GRACE_S", 0.1)

    async def hold_the_fourth(request: GenerationRequest) -> list[str]:
        if len(server.requests) == 4:
            await asyncio.sleep(600)
        return ["<answer>?</answer>"] * request.n

    server.policy = hold_the_fourth
    running = asyncio.ensure_future(process(**steered))
    await until(lambda: len(server.requests) >= 10 and path.stat().st_size)
    running.cancel()
    await asyncio.wait([running])
    begun = groups(path)
    assert begun
    server.requests.clear()
    server.policy = lambda request: ["<answer>?</answer>"] * request.n
    written = await process(**steered)
    assert written[: len(begun)] == begun
    assert positions(written) == list(range(TOTAL))
    assert len(server.requests) == TOTAL - len(begun)


async def test_process_command_needs_no_server_if_its_output_file_is_complete(
    process: Process, server: InferenceServer
) -> None:
    await process(1)
    server.fail(refuse)
    assert len(await process(1, startup_timeout_s=0.01)) == 1


async def test_resumed_process_command_samples_the_same_problems_as_an_unbroken_run(
    process: Process, path: Path
) -> None:
    settings = {"task_sampling": "weighted", "task_weights": {"chain_sum": 3.0}, "tasks": "chain_sum,gcd,lcm"}
    whole = await process(**settings)
    path.unlink()
    await process(5, **settings)
    resumed = await process(**settings)
    facts = [{(group["index"], group["item_id"], group["seed"]) for group in run} for run in (whole, resumed)]
    assert facts[0] == facts[1]


async def test_resumed_process_command_updates_the_curriculum_from_groups_in_the_file(
    process: Process, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"complexity_mode": "curriculum", "tasks": "chain_sum"}
    await process(5, **settings)
    seen: list[Any] = []
    observe = TaskSampler.observe
    monkeypatch.setattr(TaskSampler, "observe", lambda self, *args: (seen.append(args), observe(self, *args)))
    written = await process(6, **settings)
    assert seen[:5] == [(group["item_id"], group["level"], group["scores"]) for group in written[:5]]


async def test_process_command_writes_groups_to_a_parquet_file(process: Process, path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow.parquet")
    table = path.with_suffix(".parquet")
    for total in (1, 2):
        written = await process(total, data_path_to_save_groups=str(table))
        rows = pyarrow.read_table(table).to_pylist()
        assert [row["index"] for row in rows] == [group["index"] for group in written]
        assert [row["tokens"] for row in rows] == [group["tokens"] for group in written]
    assert len(rows) == 2
    assert rows[0]["group_size"] == len(rows[0]["completions"]) == len(rows[0]["scores"])
    assert rows[0]["model"] is not None
    path.write_bytes(2 * path.read_bytes())  # repeated lines count once
    await process(2, data_path_to_save_groups=str(table))
    assert pyarrow.read_table(table).to_pylist() == rows


async def test_process_command_replaces_failed_groups_by_groups_of_other_problems(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def score(env: Env, group: Any) -> Any:
        if group.problem.spec.index in (3, 5):
            raise ValueError("a fault")
        return await scored(env, group)

    scored = Env.score
    monkeypatch.setattr(Env, "score", score)
    assert positions(await process()) == [*range(3), 4, *range(6, TOTAL + 2)]
