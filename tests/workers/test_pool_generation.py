"""Generation through a pool over the fake library: real processes, real kills."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from reasoning_env.errors import GenerationError, WorkerError
from reasoning_env.workers.pool import PoolSettings, WorkerPool
from reasoning_env.workers.protocol import Frame, ProtocolFault
from reasoning_env.workers.replies import read_problem

from .support import PATIENCE_S, is_gone, make, running_pool, spec, until


async def test_problem_carries_what_the_task_made(pool: WorkerPool) -> None:
    wanted = spec("ok", seed=5, level=3)
    problem = await pool.generate(wanted, PATIENCE_S)
    assert problem.spec is wanted
    assert problem.question == "question 5"
    assert problem.answer == "5"
    assert json.loads(problem.metadata_json) == {"level": 3}
    assert problem.generation_s >= 0.0


async def test_task_without_an_oracle_has_no_answer(pool: WorkerPool) -> None:
    assert (await make(pool, "no_answer")).answer is None


async def test_answer_that_is_a_number_arrives_as_text(pool: WorkerPool) -> None:
    assert (await make(pool, "number_answer")).answer == "7"


async def test_entry_without_metadata_has_an_empty_object(pool: WorkerPool) -> None:
    assert (await make(pool, "no_metadata")).metadata_json == "{}"


async def test_metadata_that_json_lacks_is_written_as_text(pool: WorkerPool) -> None:
    problem = await make(pool, "odd_metadata")
    assert json.loads(problem.metadata_json) == {
        "(1, 2)": [3],
        "nan": "nan",
        "deep": [[1.5, None, True]],
        "object": "(1+2j)",
    }


async def test_global_random_generator_starts_from_the_seed(pool: WorkerPool) -> None:
    first, again, other = [(await make(pool, "global_random", seed)).question for seed in (1, 1, 2)]
    assert first == again != other


async def test_printing_and_writing_files_harms_nobody(pool: WorkerPool) -> None:
    assert (await make(pool, "noisy", seed=4)).answer == "4"
    assert (await make(pool, "ok", seed=5)).answer == "5"
    assert pool.stats.workers_replaced == 0


@pytest.mark.parametrize(
    ("task", "cause"),
    [
        ("raise", "ValueError: no such puzzle"),
        ("exit", "SystemExit: leaving"),
        ("no_such_task", "KeyError"),
        ("unbuildable", "ValueError"),
    ],
)
async def test_task_that_raises_fails_with_its_cause(pool: WorkerPool, task: str, cause: str) -> None:
    with pytest.raises(GenerationError, match=rf"^{task}, seed 0: .*{cause}"):
        await make(pool, task, seed=0)
    assert pool.stats.generation_failures == 1
    assert pool.stats.workers_replaced == 0


@pytest.mark.parametrize(
    ("task", "how", "workers"),
    [("crash", "ended its worker twice", 2), ("memory", "ended its worker twice", 2), ("huge", "went wrong", 1)],
)
async def test_task_that_ends_its_worker_fails_and_the_next_one_is_made(
    pool: WorkerPool, task: str, how: str, workers: int
) -> None:
    with pytest.raises(GenerationError, match=f"^{task}, seed 1: generation {how}"):
        await make(pool, task)
    assert (await make(pool, "ok", seed=2)).answer == "2"
    assert pool.stats.generation_failures == 1
    assert pool.stats.workers_replaced == workers


async def test_maker_that_died_idle_costs_nobody_a_problem(pool: WorkerPool) -> None:
    generator = pool.worker_pids[0]
    os.kill(generator, signal.SIGKILL)
    await until(lambda: is_gone(generator))
    assert (await make(pool, "ok", seed=7)).answer == "7"
    assert pool.stats.generation_failures == 0


async def test_hanging_task_fails_at_its_deadline(pool: WorkerPool) -> None:
    with pytest.raises(GenerationError, match=r"^hang, seed 1: generation took over 0\.2 s"):
        await pool.generate(spec("hang"), 0.2)
    assert (await make(pool, "ok", seed=2)).answer == "2"


async def test_hanging_task_is_killed(pool: WorkerPool) -> None:
    generator = pool.worker_pids[0]
    with pytest.raises(GenerationError):
        await pool.generate(spec("hang"), 0.2)
    await until(lambda: is_gone(generator))


async def test_hanging_task_does_not_hold_up_the_others(fake_library: Path, tmp_path: Path) -> None:
    marker = tmp_path / "began"
    async with running_pool(fake_library, generators=2) as pool:
        hanging = asyncio.create_task(pool.generate(spec("hang", marker=str(marker)), PATIENCE_S))
        await until(marker.exists)
        made = [await make(pool, "ok", seed) for seed in range(10)]
        assert [problem.answer for problem in made] == [str(seed) for seed in range(10)]
        assert not hanging.done()
        hanging.cancel()


async def test_deadline_does_not_run_while_a_job_waits_in_the_queue(pool: WorkerPool) -> None:
    hanging = asyncio.create_task(pool.generate(spec("hang"), 2.0))
    await asyncio.sleep(0)
    # Waits about two seconds for the only generator: longer than its deadline, which is not counted from here.
    assert (await pool.generate(spec("ok", seed=3), 1.9)).answer == "3"
    with pytest.raises(GenerationError):
        await hanging


async def test_maker_killed_mid_item_twice_fails_that_item_only(pool: WorkerPool, tmp_path: Path) -> None:
    marker = tmp_path / "began"
    generating = asyncio.create_task(pool.generate(spec("hang", marker=str(marker)), PATIENCE_S))
    queued = asyncio.create_task(make(pool, "ok", seed=9))
    verifier = pool.worker_pids[1]
    for _ in range(2):
        await until(marker.exists)
        marker.unlink()
        [generator] = set(pool.worker_pids) - {verifier}
        os.kill(generator, signal.SIGKILL)
        await until(lambda generator=generator: generator not in pool.worker_pids)
    with pytest.raises(GenerationError, match="generation ended its worker twice"):
        await generating
    assert (await queued).answer == "9"
    assert pool.stats.workers_replaced == 2


async def test_cancelled_caller_does_not_stop_the_pool(pool: WorkerPool) -> None:
    waiting = [asyncio.create_task(make(pool, "ok", seed)) for seed in range(5)]
    await asyncio.sleep(0)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert (await make(pool, "ok", seed=6)).answer == "6"


async def test_queued_jobs_counts_those_without_a_worker(pool: WorkerPool, tmp_path: Path) -> None:
    marker = tmp_path / "began"
    waiting = [asyncio.create_task(pool.generate(spec("hang", marker=str(marker)), PATIENCE_S)) for _ in range(3)]
    await until(marker.exists)
    assert pool.queued_jobs == 2
    await pool.close()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert pool.queued_jobs == 0


async def test_closing_fails_what_is_queued_and_under_way(pool: WorkerPool, tmp_path: Path) -> None:
    marker = tmp_path / "began"
    waiting = [asyncio.create_task(pool.generate(spec("hang", marker=str(marker)), PATIENCE_S)) for _ in range(2)]
    await until(marker.exists)
    await pool.close()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [WorkerError, WorkerError]


async def test_closed_pool_refuses_work(pool: WorkerPool) -> None:
    problem = await make(pool)
    await pool.close()
    with pytest.raises(WorkerError, match="closed"):
        await pool.generate(spec(), PATIENCE_S)
    with pytest.raises(WorkerError, match="closed"):
        await pool.score(problem, ["1"])


async def test_pool_that_was_never_started_closes(fake_library: Path) -> None:
    pool = WorkerPool(PoolSettings(checkout=fake_library))
    await pool.close()
    assert pool.worker_pids == ()


async def test_generated_counts_only_what_succeeded(pool: WorkerPool) -> None:
    await make(pool)
    with pytest.raises(GenerationError):
        await make(pool, "raise")
    assert (pool.stats.generated, pool.stats.generation_failures) == (1, 1)


async def test_parameters_that_json_lacks_do_not_cost_a_worker(pool: WorkerPool) -> None:
    with pytest.raises(GenerationError):
        await pool.generate(spec("ok", odd={1, 2}), PATIENCE_S)
    assert (await asyncio.wait_for(make(pool, "ok", seed=2), PATIENCE_S)).answer == "2"


@pytest.mark.parametrize("header", [{}, {"metadata_bytes": 0}, {"metadata_bytes": "0", "question": "q"}])
def test_reply_that_is_no_problem_is_a_protocol_fault(header: dict[str, Any]) -> None:
    with pytest.raises(ProtocolFault, match="a problem that cannot be one"):
        read_problem(spec("ok"), Frame(header, b""))


async def test_unforeseen_failure_of_an_owner_ends_the_pool_loudly(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: Any) -> None:
        raise RuntimeError("unforeseen")

    monkeypatch.setattr(pool, "_generate_on", fail)
    for _ in range(2):
        with pytest.raises(WorkerError):
            await asyncio.wait_for(make(pool), PATIENCE_S)
    assert "unforeseen" in caplog.text
