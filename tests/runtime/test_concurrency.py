from __future__ import annotations

import asyncio
import types
from collections.abc import AsyncIterator
from unittest.mock import Mock

import pytest

from reasoning_env.evaluations.run import do_as_they_come
from reasoning_env.runtime import concurrency
from reasoning_env.runtime.concurrency import AdaptiveLimit, map_concurrently


async def test_map_concurrently() -> None:
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


async def test_error_cancels_other_work() -> None:
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


async def test_do_as_they_come() -> None:
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
        await do_as_they_come(work, items(), at_once=1)
    assert begun == [0, 1]
    assert asyncio.all_tasks() == before


class Limited:
    """A server that takes 3 requests a second, under a clock that only sleeping moves."""

    def __init__(self, asks_for_s: float | None) -> None:
        self.asks_for_s = asks_for_s
        self.now_s = 0.0
        self.began_s = 0.0
        self.in_second = 0
        self.refusals = 0

    async def sleep(self, seconds: float) -> None:
        self.now_s += max(seconds, 1e-6)

    def takes(self) -> bool:
        if self.now_s - self.began_s >= 1.0:
            self.began_s, self.in_second = self.now_s, 0
        self.in_second += 1
        return self.in_second <= 3


@pytest.mark.parametrize("asks_for_s", [1.0, None])
async def test_limit_finds_the_rate_of_a_server(asks_for_s: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Limited(asks_for_s)
    monkeypatch.setattr(concurrency, "asyncio", types.SimpleNamespace(sleep=server.sleep))
    limit = AdaptiveLimit(clock=lambda: server.now_s)
    taken = 0
    while taken < 100:
        sent_s = await limit.wait()
        server.now_s += 0.01
        if server.takes():
            taken += 1
        else:
            server.refusals += 1
            limit.refused(sent_s, asks_for_s)
    assert server.now_s < 1.3 * 100 / 3
    assert server.refusals < 120


async def test_requests_sent_together_are_refused_once(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Limited(1.0)
    monkeypatch.setattr(concurrency, "asyncio", types.SimpleNamespace(sleep=server.sleep))
    limit = AdaptiveLimit(clock=lambda: server.now_s)
    sent_s = [await limit.wait() for _ in range(16)]
    server.now_s += 0.1
    for each in sent_s[3:]:
        limit.refused(each, 1.0)
    began = [await limit.wait() for _ in range(4)]
    assert began[0] == began[2] == pytest.approx(1.15)
    assert began[3] == pytest.approx(1.15 + 1.05)


async def test_no_limit_without_a_refusal() -> None:
    limit = AdaptiveLimit(clock=lambda: 0.0)
    assert [await limit.wait() for _ in range(10_000)] == [0.0] * 10_000
