from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from unittest.mock import Mock

import pytest

from reasoning_env.evaluations.run import call_on_arrival
from reasoning_env.runtime.concurrency import map_concurrently


async def test_map_concurrently_limits_the_number_of_concurrent_calls() -> None:
    under_way = most = 0

    async def work(number: int) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        for _ in range(10 - number):
            await asyncio.sleep(0)
        under_way -= 1
        return number * number

    assert await map_concurrently(work, range(10), at_once=4) == [number * number for number in range(10)]
    assert most == 4


async def test_error_in_one_concurrent_call_cancels_the_others() -> None:
    before = asyncio.all_tasks()
    done, ended = Mock(), list[int]()

    async def work(number: int) -> None:
        if number == 1:
            raise ZeroDivisionError
        try:
            if number:
                await asyncio.Event().wait()
        finally:
            ended.append(number)

    with pytest.raises(ZeroDivisionError):
        await map_concurrently(work, range(3), at_once=3, on_done=done)
    assert ended == [0, 2]
    done.assert_called_once_with()
    assert asyncio.all_tasks() == before


async def test_no_more_items_are_read_after_an_error_in_concurrent_work() -> None:
    async def items() -> AsyncIterator[int]:
        yield 0
        yield 1
        await asyncio.Event().wait()

    begun: list[int] = []

    async def work(number: int) -> None:
        begun.append(number)
        await asyncio.sleep(0)
        if number == 1:
            raise ZeroDivisionError

    before = asyncio.all_tasks()
    with pytest.raises(ZeroDivisionError):
        await call_on_arrival(work, items(), at_once=1)
    assert begun == [0, 1]
    assert asyncio.all_tasks() == before
