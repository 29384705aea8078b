"""The queue of jobs of one role: urgent jobs first, then in order of arrival.

A job leaves the queue as soon as its caller is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from .worker import Slot


@dataclass(frozen=True, eq=False)
class Job:
    """A job for a worker: `run` is called with the worker's slot. Urgent jobs come before all others."""

    run: Callable[[Slot], Awaitable[Any]]
    result: asyncio.Future[Any]
    urgent: bool


class JobQueue(asyncio.Queue[Job]):
    """Jobs that wait."""

    def _init(self, maxsize: int) -> None:
        self._urgent: dict[Job, None] = {}
        self._others: dict[Job, None] = {}

    def qsize(self) -> int:
        return len(self._urgent) + len(self._others)

    def empty(self) -> bool:
        return not self._urgent and not self._others

    def _put(self, job: Job) -> None:
        line = self._urgent if job.urgent else self._others
        line[job] = None
        job.result.add_done_callback(lambda _: line.pop(job, None))

    def _get(self) -> Job:
        line = self._urgent or self._others
        job = next(iter(line))
        del line[job]
        return job
