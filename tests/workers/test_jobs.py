from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

from reasoning_env.records import Split
from reasoning_env.runtime.clients import CLIENT
from reasoning_env.workers.jobs import Job, JobQueue
from reasoning_env.workers.pool import WorkerPool
from tests.waiting import PATIENCE_S

from .support import spec


def job(client: str = "", *, urgent: bool = False) -> Job:
    def run(_: Any) -> Awaitable[Any]:
        raise NotImplementedError

    return Job(run, asyncio.get_running_loop().create_future(), client, urgent)


def queue_of(*jobs: Job) -> JobQueue:
    queue = JobQueue()
    for waiting in jobs:
        queue.put_nowait(waiting)
    return queue


async def test_order_of_arrival() -> None:
    jobs = [job() for _ in range(3)]
    queue = queue_of(*jobs)
    assert [queue.get_nowait() for _ in jobs] == jobs


async def test_urgent_first() -> None:
    first, urgent = job(), job(urgent=True)
    assert queue_of(first, urgent).get_nowait() is urgent


async def test_clients_take_turns() -> None:
    queue = queue_of(job("a"), job("a"), job("a"), job("b"), job("b"))
    assert [queue.get_nowait().client for _ in range(5)] == ["a", "b", "a", "b", "a"]


async def test_idle_client_first() -> None:
    queue = queue_of(job("a"), job("a"), job("a"))
    under_way = [queue.get_nowait(), queue.get_nowait()]
    queue.put_nowait(job("b"))
    assert queue.get_nowait().client == "b"
    assert [waiting.client for waiting in under_way] == ["a", "a"]


async def test_ended_job_counts_no_more() -> None:
    queue = queue_of(job("a"))
    queue.end(queue.get_nowait())
    queue.put_nowait(job("a"))
    queue.put_nowait(job("b"))
    assert queue.get_nowait().client == "a"


async def test_clients_take_turns_at_one_worker() -> None:
    queue = queue_of(*(job("a") for _ in range(4)))
    served = []
    for _ in range(6):
        under_way = queue.get_nowait()
        served.append(under_way.client)
        if len(served) == 1:
            queue.put_nowait(job("b"))
            queue.put_nowait(job("b"))
        queue.end(under_way)
    assert served == ["a", "b", "a", "b", "a", "a"]


async def test_absent_clients_are_forgotten() -> None:
    queue = queue_of(job("a"), job("b"))
    queue.end(queue.get_nowait())
    queue.end(queue.get_nowait())
    assert not queue._under_way
    assert not queue._last_served


async def test_job_without_caller_leaves() -> None:
    gone = job("a")
    queue = queue_of(gone)
    gone.result.cancel()
    await asyncio.sleep(0)
    assert (queue.qsize(), queue.empty()) == (0, True)


async def test_clients_of_a_pool(pool: WorkerPool) -> None:
    made: list[str] = []

    async def generate(client: str, split: Split = Split.TRAIN) -> None:
        CLIENT.set(client)
        await pool.generate(replace(spec(), split=split), PATIENCE_S)
        made.append(f"{client} {split}")

    await asyncio.gather(generate("a"), generate("a"), generate("a", Split.EVAL), generate("b"))
    assert made == ["a train", "b train", "a train", "a eval"]
