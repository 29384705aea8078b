from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from reasoning_env.workers.pool import Job, JobQueue


def job(*, urgent: bool = False) -> Job:
    def run(_: Any) -> Awaitable[Any]:
        raise NotImplementedError

    return Job(run, asyncio.get_running_loop().create_future(), urgent)


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


async def test_job_without_caller_leaves() -> None:
    gone = job()
    queue = queue_of(gone)
    gone.result.cancel()
    await asyncio.sleep(0)
    assert (queue.qsize(), queue.empty()) == (0, True)
