"""The queue of jobs of one role: the jobs of one client do not hold up the jobs of others.

The next job is of a client with the fewest jobs under way; of these, of the client that was served the longest time ago
or not yet; of these, the job that came first. A process without clients, such as a training run, thus has a queue in
order of arrival. A job leaves the queue as soon as its caller is gone.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from .worker import Slot


@dataclass(frozen=True, eq=False)
class Job:
    """A job for a worker: `run` is called with the worker's slot. Urgent jobs come before all others."""

    run: Callable[[Slot], Awaitable[Any]]
    result: asyncio.Future[Any]
    client: str
    urgent: bool


class JobQueue(asyncio.Queue[Job]):
    """Jobs that wait; a job is under way from `get` until `end`."""

    def _init(self, maxsize: int) -> None:
        self._arrivals = 0
        self._urgent: dict[Job, int] = {}
        self._waiting: defaultdict[str, dict[Job, int]] = defaultdict(dict)
        """For each client, its jobs with the numbers of their arrivals, in order of arrival."""
        self._under_way: Counter[str] = Counter()
        self._served = 0
        self._last_served: dict[str, int] = {}
        """For each client with jobs that wait or are under way, the number of its last job in order of service."""

    def qsize(self) -> int:
        return len(self._urgent) + sum(map(len, self._waiting.values()))

    def empty(self) -> bool:
        return not self._urgent and not self._waiting

    def _put(self, job: Job) -> None:
        self._arrivals += 1
        line = self._urgent if job.urgent else self._waiting[job.client]
        line[job] = self._arrivals
        job.result.add_done_callback(lambda _: self._remove(job))

    def _get(self) -> Job:
        if self._urgent:
            job = next(iter(self._urgent))
        else:
            client = min(self._waiting, key=self._order)
            job = next(iter(self._waiting[client]))
        self._under_way[job.client] += 1
        self._remove(job)
        self._served += 1
        self._last_served[job.client] = self._served
        return job

    def end(self, job: Job) -> None:
        """Count a job as under way no longer: its worker is free, or gone."""
        self._under_way[job.client] -= 1
        if self._under_way[job.client] <= 0:
            del self._under_way[job.client]
            self._forget_if_absent(job.client)

    def _order(self, client: str) -> tuple[int, int, int]:
        """Return the sort key of a client: jobs under way, the last job, the arrival of its first job that waits."""
        return (
            self._under_way[client],
            self._last_served.get(client, 0),
            next(iter(self._waiting[client].values())),
        )

    def _remove(self, job: Job) -> None:
        """Take a job out of the queue, if it is in the queue."""
        self._urgent.pop(job, None)
        jobs = self._waiting.get(job.client)
        if jobs is not None:
            jobs.pop(job, None)
            if not jobs:
                del self._waiting[job.client]
                self._forget_if_absent(job.client)

    def _forget_if_absent(self, client: str) -> None:
        if client not in self._waiting and client not in self._under_way:
            self._last_served.pop(client, None)
