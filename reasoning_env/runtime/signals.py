"""Turn Ctrl-C and SIGTERM into an orderly end of the running coroutine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ..errors import ReasoningEnvError

T = TypeVar("T")


class Interrupted(ReasoningEnvError):
    """A signal stopped the run. All accepted groups were written before."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.exit_code = 128 + number


async def run_until_signal(work: Callable[[], Awaitable[T]], close: Callable[[], Awaitable[None]]) -> T:
    """Run `work`, then `close`, also after an error. Raises Interrupted if a signal ended `work`.

    A second signal ends the process at once, like a kill. Where signals cannot be handled (outside the main thread,
    without POSIX), their handlers stay unchanged.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work())
    received: list[int] = []
    signals = (signal.SIGINT, signal.SIGTERM)

    def stop(number: int) -> None:
        if received:
            os._exit(128 + number)
        received.append(number)
        task.cancel()

    with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
        for number in signals:
            loop.add_signal_handler(number, stop, number)
    try:
        return await task
    except asyncio.CancelledError:
        if received:
            raise Interrupted(received[0]) from None
        raise
    finally:
        task.cancel()
        await asyncio.wait([task])
        await close()
        with contextlib.suppress(NotImplementedError):
            for number in signals:
                loop.remove_signal_handler(number)
