"""Generate problems through a pool with a fake library, and kill real processes."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

from reasoning_env.errors import ClosedError, GenerationError, GeneratorFaultError, WorkerError
from reasoning_env.records import Split
from reasoning_env.workers.pool import PoolSettings, WorkerPool, read_problem
from reasoning_env.workers.protocol import Frame, ProtocolFault
from tests.waiting import PATIENCE_S, until

from .support import is_gone, kill, make, running_pool, spec


async def test_generated_problem_has_spec_and_question_and_answer_and_metadata(pool: WorkerPool) -> None:
    wanted = spec("ok", seed=5, width=3)
    problem = await pool.generate(wanted, PATIENCE_S)
    assert problem.spec == wanted
    assert (problem.question, problem.answer) == ("question 5", "5")
    assert json.loads(problem.metadata_json) == {"width": 3}
    assert problem.generation_s >= 0.0


ODD_ENTRIES = {
    "no_answer": (None, "{}"),
    "number_answer": ("7", "{}"),
    "no_metadata": ("1", "{}"),
    "odd_metadata": ("1", '{"(1, 2)": [3], "nan": "nan", "deep": [[1.5, null, true]], "object": "(1+2j)"}'),
    "noisy": ("1", "{}"),
}


async def test_dataset_items_with_unusual_answers_or_metadata_become_problems(pool: WorkerPool) -> None:
    for task, (answer, metadata) in ODD_ENTRIES.items():
        problem = await make(pool, task)
        assert (problem.answer, json.loads(problem.metadata_json)) == (answer, json.loads(metadata)), task
        assert (await make(pool, "ok", seed=5)).answer == "5"
    assert pool.stats.workers_replaced == 0


async def test_queued_evaluation_problems_are_generated_before_training_problems(pool: WorkerPool) -> None:
    made: list[Split] = []

    async def note(split: Split) -> None:
        made.append((await pool.generate(replace(spec("ok"), split=split), PATIENCE_S)).spec.split)

    await asyncio.gather(*(note(split) for split in (Split.TRAIN, Split.TRAIN, Split.EVAL)))
    assert made == [Split.EVAL, Split.TRAIN, Split.TRAIN]


# ------------------------------------------------------------------ failures


async def test_error_of_a_generator_is_raised(pool: WorkerPool) -> None:
    for task, cause in (
        ("raise", "ValueError: no such puzzle"),
        ("exit", "SystemExit: leaving"),
        ("no_such_task", "KeyError"),
        ("unbuildable", "ValueError"),
    ):
        with pytest.raises(GenerationError, match=rf"^{task}, seed 0: .*{cause}"):
            await make(pool, task, seed=0)
    await make(pool)
    assert pool.stats.workers_replaced == 0


async def test_pool_raises_if_a_generator_ends_its_worker_process(pool: WorkerPool) -> None:
    replaced = 0
    for task, workers in (("crash", 2), ("abort", 2), ("memory", 2), ("huge", 1)):
        replaced += workers
        with pytest.raises(GenerationError, match=f"^{task}, seed 1: "):
            await make(pool, task)
        assert (await make(pool, "ok", seed=2)).answer == "2"
        assert pool.stats.workers_replaced == replaced


async def test_pool_raises_if_a_generator_is_killed_repeatedly(pool: WorkerPool) -> None:
    with pytest.raises(
        WorkerError, match=r"^killed, seed 1: 3 generators died; the last was killed by another process or the kernel"
    ):
        await make(pool, "killed")
    assert (await make(pool, "ok", seed=2)).answer == "2"


async def test_killed_idle_worker_is_replaced(pool: WorkerPool) -> None:
    workers = pool.worker_pids
    kill(workers)
    await until(lambda: len(pool.worker_pids) == 2 and not set(pool.worker_pids) & set(workers))
    assert pool.fault is None


async def test_idle_workers_that_died_are_replaced_before_scoring(pool: WorkerPool) -> None:
    workers = pool.worker_pids
    kill(workers)
    await until(lambda: all(map(is_gone, workers)))
    problem = await make(pool, "ok", seed=7)
    assert [verdict.score for verdict in await pool.score(problem, ["7", "8"])] == [1.0, 0.0]


async def test_non_json_params_raise(pool: WorkerPool) -> None:
    with pytest.raises(GenerationError):
        await make(pool, odd={1, 2})
    with pytest.raises(WorkerError, match="TypeError"):
        await pool.check([("ok", {"width": {1, 2}}, None)])
    assert (await make(pool, "ok", seed=2)).answer == "2"


@pytest.mark.parametrize("header", [{}, {"metadata_bytes": 0}, {"metadata_bytes": "0", "question": "q"}])
def test_worker_reply_that_contains_no_problem_is_a_protocol_fault(header: dict[str, Any]) -> None:
    with pytest.raises(ProtocolFault):
        read_problem(spec("ok"), Frame(header, b""))


# ------------------------------------------------------------------ deadlines


async def test_hanging_generator_is_killed(pool: WorkerPool) -> None:
    generator = pool.worker_pids[0]
    with pytest.raises(GenerationError, match=r"^hang, seed 1: .* 0\.2 s"):
        await pool.generate(spec("hang"), 0.2)
    await until(lambda: is_gone(generator))
    assert (await make(pool, "ok", seed=2)).answer == "2"


async def test_hanging_generator_does_not_delay_other_jobs(fake_library: Path, tmp_path: Path) -> None:
    marker = tmp_path / "began"
    async with running_pool(fake_library, num_generators=2) as pool:
        hanging = asyncio.create_task(pool.generate(spec("hang", marker=str(marker)), PATIENCE_S))
        await until(marker.exists)
        assert [(await make(pool, "ok", seed)).answer for seed in range(10)] == [str(seed) for seed in range(10)]
        assert not hanging.done()
        hanging.cancel()


async def test_generation_deadline_excludes_the_time_in_the_queue(pool: WorkerPool, tmp_path: Path) -> None:
    """A job waits behind a hanging job for longer than its own deadline, and then succeeds."""
    marker = tmp_path / "began"
    hanging = asyncio.create_task(pool.generate(spec("hang", marker=str(marker)), 2.0))
    await until(marker.exists)
    assert (await pool.generate(spec("ok", seed=3), 1.5)).answer == "3"
    with pytest.raises(GenerationError):
        await hanging


# ------------------------------------------------------------------ the pool


async def test_queued_job_of_a_cancelled_caller_is_removed(pool: WorkerPool, tmp_path: Path) -> None:
    marker = tmp_path / "began"
    hanging = asyncio.create_task(pool.generate(spec("hang", marker=str(marker)), PATIENCE_S))
    await until(marker.exists)
    waiting = asyncio.create_task(make(pool))
    await until(lambda: pool.queued_jobs == 1)
    waiting.cancel()
    await until(lambda: pool.queued_jobs == 0)
    assert not hanging.done()
    hanging.cancel()


async def test_worker_is_not_killed_if_the_caller_of_a_short_job_is_cancelled(pool: WorkerPool) -> None:
    """The worker finishes a short job of a cancelled caller, and the pool drops the result."""
    workers = pool.worker_pids
    problem = await make(pool, seed=3)
    for number in range(20):
        calls = [asyncio.create_task(call) for call in (make(pool, seed=number), pool.score(problem, [str(number)]))]
        for _ in range(number % 4):
            await asyncio.sleep(0)
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)
    assert (await make(pool, seed=6)).answer == "6"
    assert [verdict.score for verdict in await pool.score(problem, ["3"])] == [1.0]
    assert (pool.worker_pids, pool.stats.workers_replaced) == (workers, 0)


async def test_closing_the_pool_ends_all_jobs_with_closed_error(pool: WorkerPool, tmp_path: Path) -> None:
    marker = tmp_path / "began"
    waiting = [asyncio.create_task(pool.generate(spec("hang", marker=str(marker)), PATIENCE_S)) for _ in range(3)]
    await until(marker.exists)
    assert pool.queued_jobs == 2
    await pool.close()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [ClosedError] * 3
    assert pool.queued_jobs == 0


async def test_closed_pool_rejects_jobs(pool: WorkerPool) -> None:
    problem = await make(pool)
    await pool.close()
    for refused in (make(pool), pool.score(problem, ["1"])):
        with pytest.raises(ClosedError):
            await refused
    assert pool.fault == "the worker pool is closed"


async def test_closing_a_pool_before_it_starts_raises_no_error() -> None:
    pool = WorkerPool(PoolSettings())
    await pool.close()
    assert pool.worker_pids == ()


async def test_worker_is_replaced_after_an_unexpected_error_in_the_pool(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    worker = pool.worker_pids[0]
    with monkeypatch.context() as patch:
        patch.setattr(pool, "_generate", AsyncMock(side_effect=RuntimeError("unforeseen")))
        with pytest.raises(GeneratorFaultError, match="RuntimeError: unforeseen"):
            await make(pool)
    assert (await make(pool, "ok", seed=2)).answer == "2"
    assert worker not in pool.worker_pids
    assert "unforeseen" in caplog.text


# ------------------------------------------------------------------ checks of parameters


async def test_check_method_returns_an_error_for_each_task_with_invalid_params(pool: WorkerPool) -> None:
    first, second = await pool.check([("raise", {}, None), ("ok", {}, 0.5), ("ok", {"self": 1}, None)])
    assert first.startswith("raise: the library failed to make a problem with the parameters {}")
    assert second.startswith("ok: the library rejects")
    assert await pool.check([]) == []
    await until(lambda: len(pool.worker_pids) == 2)
