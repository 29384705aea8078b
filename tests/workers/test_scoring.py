"""Whose turn it is among scoring jobs."""

from __future__ import annotations

import asyncio

from reasoning_env.records import Problem
from reasoning_env.workers.scoring import ScoringJob, ScoringQueue
from tests.records import make_problem

QUICK, SLOW = make_problem(), make_problem("slow")


async def take_slow(queue: ScoringQueue) -> ScoringJob:
    """Take a job, and find it slow."""
    queue.put(SLOW, ["1", "2"])
    job = await queue.take()
    queue.note_slow(job)
    return job


async def taken(queue: ScoringQueue) -> Problem | None:
    """The problem that is handed out now, if any is."""
    try:
        async with asyncio.timeout(0.01):
            return (await queue.take()).problem
    except TimeoutError:
        return None


async def test_jobs_of_a_task_that_was_slow_get_half_of_the_workers_at_most() -> None:
    queue = ScoringQueue(workers=4)
    queue.end_turn(await take_slow(queue))
    for each in [SLOW] * 4 + [QUICK] * 2:
        queue.put(each, ["1"])
    assert [await taken(queue) for _ in range(6)].count(SLOW) == 2


async def test_slow_jobs_are_served_beside_any_number_of_quick_ones() -> None:
    queue = ScoringQueue(workers=1)
    queue.end_turn(await take_slow(queue))
    for _ in range(4):
        queue.put(QUICK, ["1"])
    assert SLOW in [await taken(queue) for _ in range(2)]


async def test_slow_jobs_get_all_workers_where_there_are_no_quick_ones() -> None:
    queue = ScoringQueue(workers=2)
    queue.note_slow(ScoringJob(SLOW, ["1"], asyncio.get_running_loop().create_future(), slow=False))
    jobs = []
    for _ in range(2):
        queue.put(SLOW, ["1"])
        jobs.append(await queue.take())
    assert not queue.must_yield(jobs[0])
    queue.put(QUICK, ["1"])
    assert queue.must_yield(jobs[0])


async def test_slow_jobs_take_turns() -> None:
    queue = ScoringQueue(workers=1)
    first = await take_slow(queue)
    second = queue.put(SLOW, ["3"])
    assert queue.must_yield(first)
    queue.end_turn(first)
    job = await queue.take()
    assert job.result is second
    job.result.set_result([])
    queue.end_turn(job)
    assert await queue.take() is first


async def test_jobs_whose_caller_is_gone_are_not_handed_out() -> None:
    queue = ScoringQueue(workers=1)
    queue.put(QUICK, ["1"]).cancel()
    left = queue.put(QUICK, ["2"])
    assert (await queue.take()).result is left


async def test_what_looks_like_an_answer_that_timed_out_gets_less_time() -> None:
    job = ScoringJob(QUICK, [], asyncio.get_running_loop().create_future(), slow=False)
    job.note_timeout("(2 ** x)")
    assert job.deadline_s("2**[x]", 5.0) == 0.5
    assert job.deadline_s("2**y", 5.0) == 5.0
