"""Work on many items at the same time."""

from __future__ import annotations

import asyncio
import types
from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine, Generator, Iterable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")
R = TypeVar("R")

_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


async def cancel_all(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel tasks and wait until they have ended, in whatever way."""
    running = list(tasks)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def map_concurrently(
    work: Callable[[T], Awaitable[R]], items: Iterable[T], *, at_once: int, on_done: Callable[[], None] = lambda: None
) -> list[R]:
    """Return the results of `work` in the items' order; at most `at_once` items are under way at a time.

    `on_done` is called after each item. The first error is raised, after everything else was cancelled and has ended.
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
    """Do `work` with each item as soon as it is there; at most `at_once` items are under way at a time.

    The first error is raised, after everything else was cancelled and has ended.
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


async def own_turn() -> None:
    """Wait until the caller may hold the event loop for milliseconds, until its next wait.

    Between two callers' turns comes all else that is due on the loop. Needed before work that takes a millisecond or
    more and does not pay for a thread, since much of it can be due together.
    """
    async with _turns.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        await asyncio.sleep(0)


@types.coroutine
def take_turns(work: Coroutine[Any, Any, R]) -> Generator[Any, Any, R]:
    """Return what `work` returns; after each of its waits it goes on in its own turn.

    A cancellation reaches `work` where it waits, as it would without turns. `work` must not call `own_turn` itself: it
    would wait for a turn that it holds.
    """
    resume: Callable[[Any], Any] = work.send
    value: Any = None
    while True:
        try:
            waits_for = resume(value)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        try:
            resume, value = work.send, (yield waits_for)
            yield from own_turn().__await__()
        except BaseException as error:
            resume, value = work.throw, error
