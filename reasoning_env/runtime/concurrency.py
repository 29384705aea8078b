"""Run coroutines in good order: many items at the same time, and to an orderly end at Ctrl-C or SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from typing import TypeVar

from ..errors import ReasoningEnvError

T = TypeVar("T")
R = TypeVar("R")


async def cancel_all(tasks: Iterable[asyncio.Future[T]]) -> None:
    """Cancel tasks and wait until all have ended. Their errors are ignored."""
    running = list(tasks)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def map_concurrently(
    work: Callable[[T], Awaitable[R]], items: Iterable[T], *, at_once: int, on_done: Callable[[], None] = lambda: None
) -> list[R]:
    """Return the results of `work` in the items' order, working on at most `at_once` items at a time.

    `on_done` is called after each item. On an error, all other work is cancelled and awaited; then the error is raised.
    """
    limit = asyncio.Semaphore(at_once)

    async def run(item: T) -> R:
        async with limit:
            result = await work(item)
        on_done()
        return result

    running = [asyncio.ensure_future(run(item)) for item in items]
    try:
        return await asyncio.gather(*running)
    finally:
        await cancel_all(running)


async def do_as_they_come(work: Callable[[T], Awaitable[None]], items: AsyncIterable[T], *, at_once: int) -> None:
    """Do `work` with each item as soon as the item arrives, on at most `at_once` items at a time.

    On an error, all other work is cancelled and awaited; then the error is raised.
    """
    limit = asyncio.Semaphore(at_once)

    async def run(item: T) -> None:
        try:
            await work(item)
        finally:
            limit.release()

    try:
        async with asyncio.TaskGroup() as running:
            async for item in items:
                await limit.acquire()
                running.create_task(run(item))
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None


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
