"""The pool of worker processes: `generate` makes a problem, `score` scores answers to it.

Generator workers make problems and never see text of a model. Verifier workers score answers. Each of these two roles
has a queue of jobs. Each worker has a slot, and one asyncio task (the slot's owner) gives jobs to the worker in it.
Deadlines start when a worker gets the job. If a job's caller is cancelled, the job leaves the queue. A worker that
already runs the job is replaced unless the job ends within REPLACEMENT_S.

If a slot is empty, its owner starts a worker, and retries with growing pauses as long as the pool is open. After an
unexpected error, one job fails and one worker is killed. A role has an outage if each of its slots had
MAX_FAILED_STARTS failed starts in a row. Its jobs then fail with WorkerError, until a worker starts.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ..errors import (
    ClosedError,
    GenerationError,
    GeneratorFaultError,
    ReasoningEnvError,
    ScoringError,
    WorkerError,
)
from ..metrics.stats import PoolStats
from ..problems.references import Reference
from ..records import LibraryInfo, Problem, ProblemSpec, Split, Verdict
from ..runtime.concurrency import cancel_all
from ..runtime.retries import OutageLog, pauses
from ..runtime.text import error_text
from .fork_server import MAX_FAILED_STARTS, ForkServers, PoolSettings
from .parameters import query_parameters
from .protocol import Frame, FrameTooLargeError, ProtocolFault, Role, WorkerEnd
from .scoring import BatchScorer
from .worker import (
    MAX_KILLS,
    WORKER_STALL_S,
    DeadlineExceeded,
    NoCpuTime,
    Slot,
    Worker,
    WorkerDied,
    receive_in_cpu_time,
)

__all__ = ["PoolSettings", "WorkerPool"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

REPLACEMENT_S = 0.1
"""Seconds that a worker may still spend on a job whose caller was cancelled. Replacing the worker takes about as long.
Without this time, clients that disconnect early would make the pool replace all its workers."""


@dataclass(frozen=True, eq=False)
class Job:
    """A job for a worker. `run` is called with the worker's `Slot`. Urgent jobs run before all others."""

    run: Callable[[Slot], Awaitable[object]]
    result: asyncio.Future[Any]
    urgent: bool


class JobQueue:
    """The waiting jobs of a role, urgent jobs first, then by arrival. Jobs of cancelled callers are dropped."""

    def __init__(self) -> None:
        self._urgent: dict[Job, None] = {}
        self._others: dict[Job, None] = {}
        self._free: deque[asyncio.Future[None]] = deque()
        """One future for each free worker. Completing it makes the worker's asyncio task check the queue."""

    def __len__(self) -> int:
        return len(self._urgent) + len(self._others)

    def put(self, job: Job) -> None:
        line = self._urgent if job.urgent else self._others
        line[job] = None
        job.result.add_done_callback(lambda _: line.pop(job, None))
        self.wake()

    def take(self) -> Job:
        """Remove and return the next job."""
        line = self._urgent or self._others
        job = next(iter(line))
        del line[job]
        return job

    def wake(self) -> None:
        """Wake the asyncio task of a free worker, if there is a free worker, so that the task checks the queue."""
        while self._free:
            free = self._free.popleft()
            if not free.done():
                free.set_result(None)
                return

    async def wait(self, ended: asyncio.Future[None], timeout_s: float) -> None:
        """Wait for a call of `wake`, for the end of the worker, or for `timeout_s` seconds, whichever comes first."""
        loop = asyncio.get_running_loop()
        free: asyncio.Future[None] = loop.create_future()

        def end_wait(_: object) -> None:
            if not free.done():
                free.set_result(None)

        self._free.append(free)
        ended.add_done_callback(end_wait)
        timer = loop.call_later(timeout_s, end_wait, None)
        try:
            await free
        finally:
            timer.cancel()
            ended.remove_done_callback(end_wait)
            if free in self._free:
                self._free.remove(free)


class WorkerPool:
    """Worker processes: generators and verifiers. Start the pool, use it from one event loop, and close it."""

    def __init__(self, settings: PoolSettings) -> None:
        self._settings = settings
        self.stats = PoolStats()
        self.fork_servers = ForkServers(settings, self.stats)
        self._jobs: dict[Role, JobQueue] = {role: JobQueue() for role in Role}
        self._slots: list[Slot] = []
        self._owners: dict[Role, list[asyncio.Task[None]]] = {role: [] for role in Role}
        self._failures: dict[Role, WorkerError] = {}
        """The error of the latest failed start of a worker, by role. A successful start removes the error."""
        self._outages = {role: OutageLog(logger) for role in Role}
        self._closed = False
        self._scorer = BatchScorer(settings.user.scoring_deadline_s, settings.group_budget_s, self.stats, self._replace)

    async def start(self, *, workers: int | None = None) -> LibraryInfo:
        """Start the processes, wait until the library is imported, and return information about the library.

        `workers` limits the number of workers of each role until `grow` is called. Raises WorkerError if the processes
        cannot be started, and ConfigError if a module of `task_modules` cannot be imported.
        """
        try:
            info = await self.fork_servers.start()
        except BaseException:
            await self.close()
            raise
        self.grow(workers)
        return info

    def grow(self, workers: int | None = None) -> None:
        """Start workers until each role has as many as the settings say, but at most `workers` in each role."""
        for role, owners in self._owners.items():
            full = self._settings.workers(role)
            while len(owners) < (full if workers is None else min(workers, full)):
                owners.append(asyncio.create_task(self._maintain_slot(role)))

    async def close(self) -> None:
        """End every process and fail all jobs with ClosedError. Safe to call twice."""
        self._closed = True
        await cancel_all(owner for owners in self._owners.values() for owner in owners)
        for jobs in self._jobs.values():
            while jobs:
                _set_exception(jobs.take().result, _closed_error())
        await self.fork_servers.stop()

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """Process ids of the workers, in the order of their slots."""
        return tuple(slot.worker.pid for slot in self._slots if slot.worker is not None)

    @property
    def fault(self) -> str | None:
        """The reason, in one line, if a role has no worker that can work; None if each role has one."""
        if self._closed:
            return str(_closed_error())
        for role in filter(self._settings.workers, Role):
            workers = [slot.worker for slot in self._slots_of(role) if slot.worker is not None]
            if workers and all(worker.is_stopped for worker in workers):
                return f"a signal (SIGSTOP) stopped all {role.name.lower()} workers; the pool replaces them"
            if not workers:
                failure = self._failures.get(role, "none has started yet")
                return " ".join(f"no {role.name.lower()} is alive: {failure}".split())
        return None

    @property
    def queued_jobs(self) -> int:
        """Number of jobs of both roles that wait for a worker."""
        return sum(map(len, self._jobs.values()))

    async def generate(self, spec: ProblemSpec, deadline_s: float, *, cpu_s: float | None = None) -> Problem:
        """Generate the problem of a spec. Evaluation problems come first, because training waits until they exist.

        `deadline_s` limits the wall-clock time; `cpu_s`, if given, limits the processor time. Both are in seconds.

        Raises:
            GenerationError: The task's generator raised an error, ended its worker twice, or exceeded a limit.
            GeneratorFaultError: This project has a bug, or a worker violated the protocol.
            WorkerError: No worker can be started, MAX_KILLS workers were killed, or two workers got hardly any
                processor time.
            ClosedError: The pool is closed.
        """
        urgent = spec.split is Split.EVAL
        problem = await self._run_job(
            Role.GENERATOR, lambda slot: self._generate(slot, spec, deadline_s, cpu_s), urgent=urgent
        )
        library = self.fork_servers.library
        release = "" if library is None else library.release(problem.task)
        if self._settings.user.rewards == "library":
            problem = replace(problem, as_library=True)
        try:
            return replace(problem, reference=str(Reference.of(problem, release)))
        except RecursionError:
            raise _generation_error(
                spec, "failed: the parameters are nested too deeply for a problem reference"
            ) from None

    async def score(self, problem: Problem, answers: Sequence[str], *, plainly: bool = False) -> list[Verdict]:
        """Return a verdict for each answer to a problem, in order. Equal answers are scored once.

        If `plainly` is true, score as the library's own evaluation does: without corrections, and without removing
        formatting from the answers.

        Raises:
            ScoringError: An infrastructure error persists on a fresh worker, or the group's budget of processor time is
                used up.
            WorkerError: No verifier can be started.
            ClosedError: The pool is closed.
        """
        if self._closed:
            raise _closed_error()
        distinct = list(dict.fromkeys(answers))
        batch = self._scorer.batch(problem, distinct, plainly=plainly)
        while batch.remaining:
            await self._run_job(Role.VERIFIER, lambda slot: self._scorer.score(slot, batch))
        by_answer = dict(zip(distinct, batch.verdicts, strict=True))
        return [by_answer[answer] for answer in answers]

    async def check(self, params: Sequence[tuple[str, Mapping[str, object], float | None]]) -> list[str]:
        """Return error messages for invalid parameters. `params` has tuples of a task, its parameters and a level.

        The level None means the library's defaults. Raises WorkerError if the parameters cannot be checked.
        """
        asked = {"check": [[task, dict(task_params), level] for task, task_params, level in params]}
        tasks = list(dict.fromkeys(task for task, _, _ in params))
        return [str(fault) for fault in await query_parameters(self._replace, asked, "faults", tasks)]

    async def describe(self, tasks: Sequence[str]) -> dict[str, dict[str, dict[str, object]]]:
        """Return the parameters of tasks, by task and name. Each parameter has a `default`.

        A parameter that depends on the level also has `levels`: its values at the levels 0.0, 0.5 and 1.0. Raises
        WorkerError if a worker cannot reply.
        """
        return dict(await query_parameters(self._replace, {"describe": list(tasks)}, "described", tasks))

    # ---- generating

    async def _generate(self, slot: Slot, spec: ProblemSpec, deadline_s: float, cpu_s: float | None) -> Problem:
        """Generate a problem. Retry on a fresh worker if the worker ends or gets no processor time.

        Retry once if the task ended its worker, and once after NoCpuTime. If other processes kill workers, try up to
        MAX_KILLS workers. Raises the errors of `generate`.
        """
        request = {**vars(spec.request), "params": dict(spec.params)}
        own_ends = 0
        kills = 0
        starved = False
        while True:
            try:
                slot.current.send({"generate": request})
            except (TypeError, ValueError, RecursionError) as error:
                raise _generation_error(spec, f"needs parameters that cannot be sent to a worker: {error}") from error
            try:
                return read_problem(spec, await _receive_problem(slot.current, deadline_s, cpu_s))
            except WorkerDied:
                end = await self._replace(slot)
                if end.from_outside:
                    kills += 1
                else:
                    own_ends += 1
                logger.debug("a generator %s while it made %s", end, spec)
                if own_ends == 2:
                    raise _generation_error(spec, f"ended two worker processes; the second one {end}") from None
                if kills == MAX_KILLS:
                    raise WorkerError(
                        f"{spec.task}, seed {spec.seed}: {kills} generators died; the last {end}"
                    ) from None
            except DeadlineExceeded:
                self._vacate(slot)
                limit = f"{deadline_s:g} s" if cpu_s is None else f"{cpu_s:g} s of processor time"
                raise _generation_error(spec, f"took over {limit}") from None
            except NoCpuTime as error:
                await self._replace(slot)
                if starved:
                    raise WorkerError(f"{spec.task}, seed {spec.seed}: {error}, for the second time in a row") from None
                starved = True
            except FrameTooLargeError as error:
                self._vacate(slot)
                raise _generation_error(spec, f"made a problem that is too large: {error}") from error
            except ProtocolFault as error:
                self._vacate(slot)
                raise GeneratorFaultError(f"{spec.task}, seed {spec.seed}: the generator failed: {error}") from error

    # ---- running jobs

    async def _run_job(self, role: Role, run: Callable[[Slot], Awaitable[T]], *, urgent: bool = False) -> T:
        """Queue a job and return its result. Raises the job's error."""
        if self._closed:
            raise _closed_error()
        outage = self._outage(role)
        if outage is not None:
            raise WorkerError(str(outage))
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._jobs[role].put(Job(run, result, urgent))
        return await result

    async def _maintain_slot(self, role: Role) -> None:
        """As long as the pool is open, keep a worker in a slot and give jobs to the worker."""
        slot = Slot(role)
        self._slots.append(slot)
        try:
            while True:
                if slot.worker is None:
                    await self._fill(slot)
                job = await self._next_job(slot)
                if job is None:
                    self._vacate(slot)
                else:
                    await self._run_in_slot(slot, job)
        finally:
            self._slots.remove(slot)
            slot.vacate()

    async def _next_job(self, slot: Slot) -> Job | None:
        """Wait for and return the next job for a worker; None if the worker ends or is suspended (SIGSTOP) first."""
        jobs = self._jobs[slot.role]
        worker = slot.current
        while not worker.ended.done():
            if jobs:
                return jobs.take()
            await jobs.wait(worker.ended, WORKER_STALL_S)
            if not jobs and worker.is_stopped:
                break
        jobs.wake()  # this worker may have been woken for a job, so wake another worker for it
        return None

    async def _run_in_slot(self, slot: Slot, job: Job) -> None:
        """Run a job and pass its result or error to the caller. After an unexpected error, kill the worker.

        If the caller is cancelled, drop the result, and kill the worker unless the job ends within REPLACEMENT_S.
        """
        if job.result.done():  # the caller was cancelled
            return
        running = asyncio.ensure_future(job.run(slot))

        def limit_the_rest(_: asyncio.Future[object]) -> None:
            if not running.done():  # the caller was cancelled
                running.get_loop().call_later(REPLACEMENT_S, running.cancel)

        job.result.add_done_callback(limit_the_rest)
        try:
            outcome = await running
            if not job.result.done():
                job.result.set_result(outcome)
        except ReasoningEnvError as error:
            _set_exception(job.result, error)
        except asyncio.CancelledError:
            owner = asyncio.current_task()
            if owner is None or owner.cancelling() or not job.result.cancelled():
                _set_exception(job.result, _closed_error())
                raise
            self._vacate(slot)  # the worker still works on the job
        except Exception as error:
            logger.exception("unexpected error in a job of a %s worker", slot.role.name.lower())
            job_error = GeneratorFaultError if slot.role is Role.GENERATOR else ScoringError
            _set_exception(job.result, job_error(f"unexpected error in the worker pool: {error_text(error)}"))
            self._vacate(slot)

    def _fail_queued_jobs(self, role: Role, error: WorkerError) -> None:
        jobs = self._jobs[role]
        while jobs:
            _set_exception(jobs.take().result, error)

    # ---- replacing workers

    async def _replace(self, slot: Slot) -> WorkerEnd:
        """Replace the worker in the slot of a running job, and return how the previous worker ended.

        Raises WorkerError after MAX_FAILED_STARTS failed starts in a row. The slot is then empty.
        """
        self._vacate(slot)
        # The slot's owner waits for the job, so it does not fill the slot at the same time.
        for pause_s in pauses():
            try:
                return await self._start_worker(slot)
            except WorkerError:
                if slot.failed_starts >= MAX_FAILED_STARTS:
                    raise
            await asyncio.sleep(pause_s)
        raise AssertionError("internal error: the endless iterator `pauses()` ended")

    async def _fill(self, slot: Slot) -> None:
        """Put a worker into an empty slot, and retry until it starts."""
        for pause_s in pauses():
            with contextlib.suppress(WorkerError):
                await self._start_worker(slot)
                return
            await asyncio.sleep(pause_s)

    async def _start_worker(self, slot: Slot) -> WorkerEnd:
        """Try once to start a worker in a slot. Return how the slot's previous worker ended. Raises WorkerError."""
        try:
            worker, end = await self.fork_servers.spawn(slot.role, slot.last)
        except WorkerError as error:
            self._note_failed_start(slot, error)
            raise
        slot.take(worker)
        self._failures.pop(slot.role, None)
        self._outages[slot.role].over(f"a {slot.role.name.lower()} worker was started")
        return end

    def _note_failed_start(self, slot: Slot, failure: WorkerError) -> None:
        """Count and log a failed start of a worker. If `_outage` returns an error, fail the role's queued jobs."""
        slot.failed_starts += 1
        self._failures[slot.role] = failure
        self._outages[slot.role].note(
            f"a {slot.role.name.lower()} worker cannot be started; the pool will try again: {failure}"
        )
        if self._outage(slot.role) is not None:
            self._fail_queued_jobs(slot.role, failure)

    def _outage(self, role: Role) -> WorkerError | None:
        """Return the latest error if every slot of a role had MAX_FAILED_STARTS failed starts in a row; else None."""
        slots = self._slots_of(role)
        if slots and all(slot.failed_starts >= MAX_FAILED_STARTS for slot in slots):
            return self._failures.get(role)
        return None

    def _slots_of(self, role: Role) -> list[Slot]:
        return [slot for slot in self._slots if slot.role is role]

    def _vacate(self, slot: Slot) -> None:
        if slot.worker is not None:
            slot.vacate()
            self.stats.workers_replaced += 1


async def _receive_problem(worker: Worker, deadline_s: float, cpu_s: float | None) -> Frame:
    """Return the reply of a generator worker. Raises the errors of `receive_in_cpu_time`."""
    if cpu_s is not None:
        return await receive_in_cpu_time(worker, cpu_s, deadline_s)
    try:
        return await worker.receive(deadline_s)
    except DeadlineExceeded:
        if worker.is_stopped:
            raise NoCpuTime("a worker process was suspended by a signal (SIGSTOP)") from None
        raise


def read_problem(spec: ProblemSpec, reply: Frame) -> Problem:
    """Return the problem in a reply. Raises GenerationError for a reported error, ProtocolFault for invalid content."""
    if "error" in reply.header:
        raise GenerationError(f"{spec.task}, seed {spec.seed}: {reply.header['error']}")
    fields = {name: value for name, value in reply.header.items() if name != "id"}
    try:
        metadata_bytes = fields.pop("metadata_bytes")
        return Problem(
            spec=spec.with_request(seed=fields.pop("seed")),
            metadata_json=reply.blob[:metadata_bytes].decode(),
            entry=reply.blob[metadata_bytes:],
            **fields,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolFault(f"the worker's reply has no valid problem: {error_text(error)}") from error


def _closed_error() -> ClosedError:
    return ClosedError("the worker pool is closed")


def _generation_error(spec: ProblemSpec, how: str) -> GenerationError:
    return GenerationError(f"{spec.task}, seed {spec.seed}: generation {how}")


def _set_exception(future: asyncio.Future[object], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
        # A cancelled caller never retrieves the exception, which asyncio would then log.
        with contextlib.suppress(Exception):
            future.exception()
