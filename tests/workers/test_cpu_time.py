"""Limits of CPU time, with real processes that signals suspend."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from reasoning_env.errors import GenerationError, ScoringError, WorkerError
from reasoning_env.records import Reason
from reasoning_env.workers import fork_server, scoring, worker
from reasoning_env.workers import pool as pool_module
from reasoning_env.workers.pool import WorkerPool
from tests.waiting import PATIENCE_S, until

from .fake_library import write_fake_library
from .support import kill, make, running_pool, spec

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells that a process is stopped")


async def test_generating_a_problem_raises_if_it_exceeds_the_cpu_time_limit(pool: WorkerPool) -> None:
    with pytest.raises(GenerationError, match=r"took over 0.2 s of processor time"):
        await pool.generate(spec("hang"), PATIENCE_S, cpu_s=0.2)
    await make(pool)


async def test_time_in_which_a_generator_sleeps_does_not_count_as_cpu_time(pool: WorkerPool) -> None:
    problem = await pool.generate(spec("slow_build"), PATIENCE_S, cpu_s=0.8)
    assert problem.answer == "1"


async def test_problem_is_generated_again_if_a_signal_suspended_the_worker(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "WORKER_STALL_S", 0.3)
    generator = pool.worker_pids[0]
    os.kill(generator, signal.SIGSTOP)
    await pool.generate(spec("ok"), PATIENCE_S, cpu_s=5.0)
    assert generator not in pool.worker_pids


async def test_generating_a_problem_raises_if_the_worker_gets_no_cpu_time(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "WORKER_STALL_S", 0.3)
    with pytest.raises(WorkerError, match="of processor time in"):
        await pool.generate(spec("hang"), 0.1, cpu_s=PATIENCE_S)


async def test_answer_is_scored_again_if_a_signal_suspended_the_worker(
    pool: WorkerPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "WORKER_STALL_S", 0.3)
    problem = await make(pool, seed=3)
    marker = tmp_path / "marker"
    scored = asyncio.create_task(pool.score(problem, [f"once {marker} hang"]))
    await until(marker.exists)
    os.kill(pool.worker_pids[1], signal.SIGSTOP)
    [verdict] = await scored
    assert verdict.reason is Reason.SCORED


async def test_long_lists_of_answers_are_sent_to_a_worker_in_several_requests(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "REQUEST_CHARACTERS", 10)
    problem = await make(pool, seed=7)
    answers = [f"wrong {number}" for number in range(20)] + ["7", "much too long for a part"]
    verdicts = await pool.score(problem, answers)
    assert [verdict.answer for verdict in verdicts] == answers
    assert [verdict.score for verdict in verdicts].index(1.0) == 20


async def test_scoring_raises_if_the_verifier_process_stays_suspended(
    fake_library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "WORKER_STALL_S", 0.3)
    async with running_pool(fake_library) as pool:
        problem = await make(pool)
        stopping = asyncio.create_task(_stop(pool, slice(1, 2)))
        with pytest.raises(ScoringError):
            await pool.score(problem, ["hang"])
        stopping.cancel()


@linux_only
async def test_generating_a_problem_raises_if_the_worker_process_stays_suspended(fake_library: Path) -> None:
    """A suspended generator exceeds its deadline. A retry may succeed, so the error is a WorkerError."""
    async with running_pool(fake_library) as pool:
        stopping = asyncio.create_task(_stop(pool, slice(0, 1)))
        with pytest.raises(WorkerError, match=r"a worker process was suspended .*, for the second time in a row"):
            await pool.generate(spec("hang"), 0.3)
        stopping.cancel()


@linux_only
@pytest.mark.parametrize("role", [0, 1])
async def test_pool_reports_an_error_if_all_workers_are_suspended(
    pool: WorkerPool, role: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "WORKER_STALL_S", 0.3)
    await make(pool)  # the pool uses the shorter time limit from now on
    await pool.score(await make(pool), ["1"])
    workers = pool.worker_pids
    os.kill(workers[role], signal.SIGSTOP)
    await until(lambda: pool.fault is not None)
    name = ("generator", "verifier")[role]
    assert pool.fault == f"a signal (SIGSTOP) stopped all {name} workers; the pool replaces them"
    await until(lambda: pool.fault is None)
    assert workers[role] not in pool.worker_pids


@linux_only
async def test_fork_server_suspended_by_a_signal_is_replaced(pool: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_server, "WORKER_STALL_S", 0.2)
    monkeypatch.setattr(fork_server.ForkServer, "STOP_TIMEOUT_S", 0.1)
    assert pool.fork_servers.current is not None
    os.kill(pool.fork_servers.current.process.pid, signal.SIGSTOP)
    os.kill(pool.worker_pids[0], signal.SIGKILL)
    assert (await make(pool, seed=2)).answer == "2"
    assert pool.stats.fork_servers_started == 2


STOPPED_AT_FORK = """
import os, signal
from pathlib import Path

def stop():
    try:
        Path(__file__).with_name("stop").unlink()
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGSTOP)

os.register_at_fork(after_in_child=stop)
"""


@linux_only
async def test_worker_suspended_at_its_start_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_server, "WORKER_STALL_S", 0.2)
    package = write_fake_library(tmp_path) / "reasoning_gym"
    (package / "__init__.py").write_text(STOPPED_AT_FORK + (package / "__init__.py").read_text())
    async with running_pool(tmp_path) as pool:
        (package / "stop").touch()
        os.kill(pool.worker_pids[0], signal.SIGKILL)
        await until(lambda: not (package / "stop").exists())
        assert (await make(pool, seed=2)).answer == "2"
        assert pool.stats.fork_servers_started == 1


async def _stop(pool: WorkerPool, which: slice) -> None:
    """Stop all workers repeatedly, including workers that replace stopped workers."""
    while True:
        kill(pool.worker_pids[which], signal.SIGSTOP)
        await asyncio.sleep(0.02)
