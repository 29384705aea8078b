from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

import reasoning_env
from reasoning_env.program.running import Interrupted, run_until_signal
from tests.waiting import PATIENCE_S

SCRIPT = """
import asyncio, sys
from reasoning_env.program.running import Interrupted, run_until_signal

async def work():
    print("working", flush=True)
    await asyncio.sleep(600)

async def close():
    print("closing", flush=True)
    await asyncio.sleep(float(sys.argv[1]))
    print("closed", flush=True)

try:
    asyncio.run(run_until_signal(work, close))
except Interrupted as end:
    print(end, flush=True)
    sys.exit(end.exit_code)
"""


@pytest.fixture
def process(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """A working process whose `close` takes `request.param` seconds."""
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(request.param)],
        env={**os.environ, "PYTHONPATH": str(Path(reasoning_env.__file__).parents[1])},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert _line(process) == "working"
        yield process
        process.kill()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("process", [0.0], indirect=True)
def test_signal_cancels_work_and_sets_the_exit_status(process: subprocess.Popen[str], number: signal.Signals) -> None:
    process.send_signal(number)
    assert [_line(process), _line(process)] == ["closing", "closed"]
    assert number.name in _line(process)
    assert process.wait(PATIENCE_S) == 128 + number


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("process", [600.0], indirect=True)
def test_second_signal_kills_the_process(process: subprocess.Popen[str], number: signal.Signals) -> None:
    process.send_signal(signal.SIGTERM)
    assert _line(process) == "closing"
    process.send_signal(number)
    assert process.wait(PATIENCE_S) == 128 + number
    assert _line(process) == ""


async def test_cleanup_callback_runs_before_the_result_of_the_work_is_returned() -> None:
    closer = AsyncMock()

    async def work() -> int:
        return 7 // (1 - closer.await_count)

    assert await run_until_signal(work, closer) == 7
    with pytest.raises(ZeroDivisionError):
        await run_until_signal(work, closer)
    assert closer.await_count == 2


@pytest.mark.parametrize(("by", "raised"), [("a signal", Interrupted), ("its caller", asyncio.CancelledError)])
async def test_cleanup_callback_runs_after_cancelled_work_has_ended(by: str, raised: type[BaseException]) -> None:
    order: list[str] = []

    async def work() -> None:
        try:
            if by == "a signal":
                os.kill(os.getpid(), signal.SIGTERM)
            else:
                running.cancel()
            await asyncio.sleep(600)
        finally:
            await asyncio.sleep(0.01)
            order.append("work ended")

    async def close() -> None:
        order.append("closed")

    running = asyncio.create_task(run_until_signal(work, close))
    with pytest.raises(raised):
        await running
    assert order == ["work ended", "closed"]


async def test_signal_handlers_are_removed_when_the_work_ends() -> None:
    async def work() -> None:
        assert signal.getsignal(signal.SIGTERM) is not before

    before = signal.getsignal(signal.SIGTERM)
    await run_until_signal(work, AsyncMock())
    assert signal.getsignal(signal.SIGTERM) is before


def test_work_runs_even_if_its_thread_cannot_set_signal_handlers() -> None:
    closer = AsyncMock()
    with ThreadPoolExecutor() as thread:
        work = thread.submit(lambda: asyncio.run(run_until_signal(AsyncMock(return_value=7), closer)))
        assert work.result(PATIENCE_S) == 7
    assert closer.await_count == 1
