"""Run a command's work: to its end or to a signal, over many items, with a progress bar."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

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


async def map_with_progress(
    title: str, items: Sequence[T], work: Callable[[T], Awaitable[R]], *, at_once: int
) -> list[R]:
    """Return the results of `work` in the items' order, at most `at_once` at a time, beside a bar named `title`.

    Raises the first error of `work`, after the other items were cancelled.
    """
    with progress_bar(title, len(items)) as advance:
        return await map_concurrently(work, items, at_once=at_once, on_done=advance)
