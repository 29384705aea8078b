"""Run a command's work: to its end or to a signal, over many items, with a progress bar."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from ..runtime.concurrency import map_concurrently
from ..runtime.signals import run_until_signal
from ..runtime.terminal import progress_bar

T = TypeVar("T")
R = TypeVar("R")


def run_to_end(work: Callable[[], Awaitable[R]]) -> R:
    """Run a coroutine and return its result.

    Raises Interrupted when Ctrl-C or SIGTERM ended the coroutine, after its clean-up.
    """

    async def close_nothing() -> None:
        pass

    return asyncio.run(run_until_signal(work, close_nothing))


def run_on_thread(work: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine on a thread of its own and return the result; the calling thread may have a running event loop.

    Ctrl-C cancels the coroutine, waits for its end, then raises KeyboardInterrupt.
    """
    started = threading.Event()
    running: list[asyncio.Task[Any]] = []

    async def run() -> R:
        task = asyncio.current_task()
        assert task is not None
        running.append(task)
        started.set()
        return await work

    with ThreadPoolExecutor(1) as executor:
        future = executor.submit(asyncio.run, run())
        try:
            return future.result()
        except KeyboardInterrupt:
            started.wait()
            running[0].get_loop().call_soon_threadsafe(running[0].cancel)
            raise


async def map_with_progress(
    title: str, items: Sequence[T], work: Callable[[T], Awaitable[R]], *, at_once: int
) -> list[R]:
    """Return the results of `work` in the items' order, at most `at_once` at a time, beside a bar named `title`.

    Raises the first error of `work`, after the other items were cancelled.
    """
    with progress_bar(title, len(items)) as advance:
        return await map_concurrently(work, items, at_once=at_once, on_done=advance)
