"""Run work on an event loop with a thread of its own, for callers without an event loop or whose loop must not wait."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Self, TypeVar

from ..errors import ClosedError
from .concurrency import cancel_all

T = TypeVar("T")


class LoopThread(ABC):
    """Runs coroutines on its thread, from any number of threads. It belongs to the process that made it.

    A subclass starts its work in `_start_work` and ends it in `_end_work`. The work starts once: at `start_now`, or
    with the first call that awaits `_start`.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._lock = threading.RLock()
        self._calls: set[asyncio.Task[object]] = set()
        self._closed = False
        self._closing: Future[None] | None = None
        self._starting: asyncio.Task[None] | None = None
        # A daemon, so that a program without `close` can end. Then atexit ends the workers.
        name = f"reasoning-{type(self).__name__}"
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def start_now(self) -> None:
        """Start the work, or close the thread and raise the errors of the start."""
        try:
            self._run(self._start())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the work and the thread; calls under way raise RuntimeError.

        Any number of threads may call this, at the same time or again. Without effect in a forked child.
        """
        atexit.unregister(self.close)
        if os.getpid() != self._pid:
            return
        with self._lock:
            self._closed = True
            if self._closing is None:
                self._closing = asyncio.run_coroutine_threadsafe(self._close(), self._loop)
        self._closing.result()
        with self._lock:
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join()
                self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_class: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # ---- on the thread

    @abstractmethod
    async def _start_work(self) -> None:
        """Start the work."""

    @abstractmethod
    async def _end_work(self) -> None:
        """End the work, whether it was started or not."""

    async def _start(self) -> None:
        if self._starting is None:
            self._starting = asyncio.create_task(self._start_work())
        await asyncio.shield(self._starting)

    async def _close(self) -> None:
        await cancel_all(self._calls.copy())
        if self._starting is not None:
            await cancel_all([self._starting])
        await self._end_work()

    async def _until_closed(self, work: Coroutine[object, object, T]) -> T:
        """Return the result of a call. Raises RuntimeError when `close` ends the call."""
        call = asyncio.current_task()
        assert call is not None
        self._calls.add(call)
        try:
            return await work
        except (asyncio.CancelledError, ClosedError):
            if self._closed:
                raise self._closed_error() from None
            raise
        finally:
            self._calls.discard(call)

    # ---- from other threads

    def _submit(self, work: Coroutine[object, object, T]) -> Future[T]:
        if os.getpid() != self._pid:
            work.close()
            name = type(self).__name__
            raise RuntimeError(f"this {name} belongs to process {self._pid}, before a fork; make another")
        with self._lock:  # a call that the loop gets after `_close` would never end
            if self._closed:
                work.close()
                raise self._closed_error()
            return asyncio.run_coroutine_threadsafe(self._until_closed(work), self._loop)

    def _run(self, work: Coroutine[object, object, T]) -> T:
        return self._submit(work).result()

    async def _wait(self, work: Coroutine[object, object, T]) -> T:
        return await asyncio.wrap_future(self._submit(work))

    def _closed_error(self) -> RuntimeError:
        return RuntimeError(f"this {type(self).__name__} is closed; make another")
