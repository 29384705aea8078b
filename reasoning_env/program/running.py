"""Run the work of a command until it ends or a signal comes. Show a progress bar, and keep API keys out of the log."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TypeVar

from ..errors import ReasoningEnvError
from ..runtime.concurrency import map_concurrently
from ..runtime.terminal import StderrHandler, progress_bar
from ..runtime.text import redact

T = TypeVar("T")
R = TypeVar("R")


class Interrupted(ReasoningEnvError):
    """A signal ended the command. Raised only after the cleanup of the command."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.exit_code = 128 + number


async def run_until_signal(work: Callable[[], Awaitable[T]], close: Callable[[], Awaitable[None]]) -> T:
    """Run `work`, then `close`, even if `work` fails. Raises Interrupted if a signal ended `work`.

    A second signal ends the process at once, like a kill.
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

    # Outside the main thread, and without POSIX, signals cannot be handled.
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


def run_to_end(work: Callable[[], Awaitable[R]]) -> R:
    """Run a coroutine and return its result.

    Raises Interrupted if Ctrl-C or SIGTERM ended the coroutine, after its cleanup.
    """

    async def close_nothing() -> None:
        pass

    return asyncio.run(run_until_signal(work, close_nothing))


def run_on_thread(work: Coroutine[object, object, R]) -> R:
    """Run a coroutine on a new thread and return its result. The calling thread may have a running event loop.

    Ctrl-C cancels the coroutine, waits until it ends, then raises KeyboardInterrupt.
    """
    started = threading.Event()
    running: list[asyncio.Task[object]] = []

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
    """Call `work` for all items, at most `at_once` at a time, and return the results in the items' order.

    Shows a progress bar named `title`; without a terminal, the log gets progress lines. Raises the first error of
    `work`, after all other calls were cancelled.
    """
    with progress_bar(title, len(items)) as advance:
        return await map_concurrently(work, items, at_once=at_once, on_done=advance)


def start_log(secrets: Sequence[str], *, quiet: bool = False, verbose: bool = False, as_json: bool = False) -> None:
    """Log to stderr: all messages of this program, and those messages of other packages that a user can act on.

    `verbose` adds the records marked with `detail`, and the logger's name in each line. With `as_json`, each record,
    including its traceback, is a JSON object on one line.
    """
    handler = StderrHandler()
    who = " %(name)s" if verbose else ""
    pattern = f"%(asctime)s %(levelname)s{who}: %(message)s"
    handler.setFormatter(JsonFormatter("%(message)s", secrets) if as_json else RedactingFormatter(pattern, secrets))
    handler.addFilter(lambda record: verbose or not getattr(record, "detail", False))
    if quiet:
        handler.setLevel(logging.WARNING)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    # Python's warnings come from Atropos and its dependencies, and are meant for developers.
    logging.captureWarnings(True)
    for name in ("httpx", "httpx2", "openai"):  # these packages log each request
        logging.getLogger(name).setLevel(logging.WARNING)
    # These loggers report attempts to reach the Hugging Face hub, and warnings for developers. Our errors are enough.
    for name in ("huggingface_hub", "py.warnings"):
        logging.getLogger(name).setLevel(logging.ERROR)


class RedactingFormatter(logging.Formatter):
    """Formats a log line, then removes the secrets from the line, also from tracebacks."""

    def __init__(self, pattern: str, secrets: Sequence[str]) -> None:
        super().__init__(pattern)
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record), self._secrets)


class JsonFormatter(RedactingFormatter):
    """Formats a record as a JSON object: time, level, logger and message."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        message = super().format(record)
        return json.dumps({"time": time, "level": record.levelname, "logger": record.name, "message": message})
