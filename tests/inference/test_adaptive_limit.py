from __future__ import annotations

import types

import pytest

from reasoning_env.inference import adaptive_limit as module
from reasoning_env.inference.adaptive_limit import AdaptiveLimit


class Limited:
    """A server that accepts 3 requests per second. Only `sleep` advances its clock."""

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
async def test_request_rate_converges_to_the_server_limit(
    asks_for_s: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Limited(asks_for_s)
    monkeypatch.setattr(module, "asyncio", types.SimpleNamespace(sleep=server.sleep))
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


async def test_request_rate_recovers_after_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway replies 503 for a minute while the server restarts. The server has no rate limit."""
    server = Limited(None)
    monkeypatch.setattr(module, "asyncio", types.SimpleNamespace(sleep=server.sleep))
    limit = AdaptiveLimit(clock=lambda: server.now_s)
    taken = 0
    while taken < 300:
        sent_s = await limit.wait()
        server.now_s += 0.01
        if 1.0 <= server.now_s < 61.0:
            limit.refused(sent_s, None, is_limit=False)
        else:
            taken += 1
    assert server.now_s < 61.0 + 25.0


async def test_request_rate_rises_again_after_a_pause_that_a_retry_after_header_requested(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Limited(30.0)
    monkeypatch.setattr(module, "asyncio", types.SimpleNamespace(sleep=server.sleep))
    limit = AdaptiveLimit(clock=lambda: server.now_s)
    for sent_s in [await limit.wait() for _ in range(16)]:
        limit.refused(sent_s, 30.0, is_limit=False)
    for _ in range(300):
        await limit.wait()
    assert 30.0 <= server.now_s < 30.0 + 25.0


async def test_simultaneous_refusals_lower_the_request_rate_once(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Limited(1.0)
    monkeypatch.setattr(module, "asyncio", types.SimpleNamespace(sleep=server.sleep))
    limit = AdaptiveLimit(clock=lambda: server.now_s)
    sent_s = [await limit.wait() for _ in range(16)]
    server.now_s += 0.1
    for each in sent_s[3:]:
        limit.refused(each, 1.0)
    began = [await limit.wait() for _ in range(4)]
    assert began[0] == began[2] == pytest.approx(1.15)
    assert began[3] == pytest.approx(1.15 + 1.05)


async def test_no_request_is_delayed_before_the_first_refusal() -> None:
    limit = AdaptiveLimit(clock=lambda: 0.0)
    assert [await limit.wait() for _ in range(10_000)] == [0.0] * 10_000


def test_request_rate_is_reported_after_ten_replies() -> None:
    times = iter([0.0, 0.0, 4.0])
    limit = AdaptiveLimit(clock=lambda: next(times))
    assert [limit.replied() for _ in range(11)] == [*[None] * 9, 2.5, None]
