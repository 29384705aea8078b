"""The pool of worker processes: `generate` makes a problem, `score` scores answers to it.

Generator workers make problems and never see model text; verifier workers score answers. Each role has a queue, and
each worker has a slot, owned by an asyncio task. The owner takes the next job and replaces the process as soon as the
process dies or is killed. Groups are scored in order of arrival. Deadlines count from the moment a job reaches a
worker, not from its arrival in the queue; `scoring.py` tells how long scoring may take. A job ends at once when its
caller is cancelled.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ..errors import GenerationError, ScoringError, WorkerError
from ..metrics.stats import LibraryInfo, PoolStats
from ..problems.references import Reference
from ..records import Problem, ProblemSpec, Split, Verdict
from ..runtime.concurrency import cancel_all
from ..runtime.retries import pauses
from .fork_server import ForkServer, PoolSettings, launch
from .protocol import Frame, ProtocolFault, Role
from .scoring import GroupScorer
from .worker import DeadlineExceeded, Slot, Worker, WorkerDied

__all__ = ["PoolSettings", "WorkerPool"]

logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, order=True)
class _Job:
    """A job for a worker. Urgent jobs come first, then jobs in order of arrival."""

    order: tuple[bool, int]
    run: Callable[[Slot], Awaitable[Any]] = field(compare=False)
    result: asyncio.Future[Any] = field(compare=False)


class WorkerPool:
    """Worker processes of both roles: start the pool, use it from one event loop, close it."""

    def __init__(self, settings: PoolSettings) -> None:
        self._settings = settings
        self._fork_server: ForkServer | None = None
        self._fork_server_lock = asyncio.Lock()
        self._jobs: dict[Role, asyncio.PriorityQueue[_Job]] = {role: asyncio.PriorityQueue() for role in Role}
        self._arrivals = itertools.count()
        self._slots: list[Slot] = []
        self._owners: dict[Role, list[asyncio.Task[None]]] = {role: [] for role in Role}
        self._failure: WorkerError | None = None
        self._library = ""
        self.sandbox = ""
        """One line for the log: what restricts verifier workers. Empty before the first worker is ready."""
        self.stats = PoolStats()
        self._scorer = GroupScorer(settings, self.stats, self._replace)

    async def start(self, *, workers: int | None = None) -> LibraryInfo:
        """Start the processes, and return when the library is imported. Raises WorkerError.

        `workers` limits the number of workers of each role until `grow` is called.
        """
        try:
            info = await self._start_fork_server()
        except BaseException:
            await self.close()
            raise
        self._library = info.version
        self.grow(workers)
        return info

    def grow(self, workers: int | None = None) -> None:
        """Start workers of each role up to the number in the settings, or `workers` if that is less."""
        for role, full in ((Role.GENERATOR, self._settings.generators), (Role.VERIFIER, self._settings.verifiers)):
            owners = self._owners[role]
            while len(owners) < (full if workers is None else min(workers, full)):
                owners.append(asyncio.create_task(self._own_worker(role)))

    async def close(self) -> None:
        """End every process and fail all queued jobs. Safe to call twice."""
        self._failure = self._failure or WorkerError("the worker pool is closed")
        await cancel_all(owner for owners in self._owners.values() for owner in owners)
        self._fail_queued_jobs()
        await self._stop_fork_server()

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """Process ids of the workers, in the order of their slots."""
        return tuple(slot.worker.pid for slot in self._slots)

    @property
    def queued_jobs(self) -> int:
        """Number of jobs of both roles that wait for a worker."""
        return sum(queue.qsize() for queue in self._jobs.values())

    async def generate(self, spec: ProblemSpec, deadline_s: float) -> Problem:
        """Generate the problem of a spec. Evaluation problems come first, because training problems wait for them.

        Raises:
            GenerationError: the task raises, its worker dies twice, or `deadline_s` passes.
            WorkerError: no workers are left.
        """
        urgent = spec.split is Split.EVAL
        problem = await self._do(Role.GENERATOR, lambda slot: self._generate(slot, spec, deadline_s), urgent=urgent)
        return replace(problem, reference=str(Reference.of(problem, self._library)))

    async def score(self, problem: Problem, answers: Sequence[str], *, plainly: bool = False) -> list[Verdict]:
        """Score answers to a problem: a verdict for each, in order. Equal answers are scored once.

        `plainly` scores as the library's own evaluation does: without corrections, and only the bare answer.

        Raises:
            ScoringError: an infrastructure error persists on a fresh worker, or the answers exceed the group's budget.
            WorkerError: no workers are left.
        """
        distinct = list(dict.fromkeys(answers))
        if not distinct and self._failure is None:
            return []
        batch = self._scorer.batch(problem, distinct, plainly=plainly)
        verdicts = await self._do(Role.VERIFIER, lambda slot: self._scorer.score(slot, batch))
        by_answer = dict(zip(distinct, verdicts, strict=True))
        return [by_answer[answer] for answer in answers]

    async def check(self, params: Sequence[tuple[str, Mapping[str, Any], float | None]]) -> list[str]:
        """Return the faults in tasks' parameters. A level of None checks parameters over the library's defaults.

        Raises WorkerError if the parameters cannot be checked.
        """
        worker = await self._spawn(Role.GENERATOR)
        try:
            worker.send({"check": [[task, dict(task_params), level] for task, task_params, level in params]})
            reply = await worker.receive(self._settings.start_timeout_s)
            return [str(fault) for fault in reply.header["faults"]]
        except (WorkerDied, ProtocolFault, DeadlineExceeded, KeyError, TypeError, ValueError) as error:
            raise WorkerError(f"the tasks' parameters cannot be checked ({type(error).__name__}: {error})") from error
        finally:
            worker.kill()

    # ---- generating

    async def _generate(self, slot: Slot, spec: ProblemSpec, deadline_s: float) -> Problem:
        request = {**vars(spec.request), "params": dict(spec.params)}
        died = False
        while True:
            try:
                slot.worker.send({"generate": request})
                return read_problem(spec, await slot.worker.receive(deadline_s))
            except WorkerDied as error:
                await self._replace(slot)
                if died:
                    raise _failed(spec, f"ended its worker twice: {error}") from error
                died = (
                    True  # perhaps of another cause, before the worker saw the job: the fresh worker gets the job too
                )
            except DeadlineExceeded:
                await self._replace(slot)
                raise _failed(spec, f"took over {deadline_s:g} s") from None
            except ProtocolFault as error:
                await self._replace(slot)
                raise _failed(spec, f"went wrong: {error}") from error
            except (TypeError, ValueError) as error:
                raise _failed(spec, f"has parameters that cannot be sent to a worker: {error}") from error

    # ---- running jobs

    async def _do(self, role: Role, run: Callable[[Slot], Awaitable[T]], *, urgent: bool = False) -> T:
        """Queue a job and return its result. Raises the job's error."""
        if self._failure is not None:
            raise WorkerError(str(self._failure))
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._jobs[role].put_nowait(_Job((not urgent, next(self._arrivals)), run, result))
        return await result

    async def _own_worker(self, role: Role) -> None:
        """Keep one worker alive and give it jobs, until workers cannot be started."""
        slot: Slot | None = None
        try:
            slot = Slot(role, await self._spawn(role))
            self._slots.append(slot)
            while True:
                await self._run(slot, await self._jobs[role].get())
        except WorkerError as failure:
            self._give_up(failure)
        except Exception as error:  # an owner that ends unnoticed would leave the jobs of its role waiting for ever
            logger.exception("the owner of a %s failed", role.name.lower())
            self._give_up(WorkerError(f"the owner of a {role.name.lower()} failed: {type(error).__name__}: {error}"))
        finally:
            if slot is not None:
                self._slots.remove(slot)
                slot.worker.kill()

    async def _run(self, slot: Slot, job: _Job) -> None:
        """Run a job and hand its result or error to the caller. Raises errors that are not the job's."""
        if job.result.done():  # its caller is gone
            return
        running = asyncio.ensure_future(job.run(slot))
        job.result.add_done_callback(lambda _: running.cancel())
        try:
            outcome = await running
            if not job.result.done():
                job.result.set_result(outcome)
        except (GenerationError, ScoringError) as error:
            _fail(job.result, error)
        except WorkerError as error:
            _fail(job.result, error)
            raise
        except asyncio.CancelledError:
            owner = asyncio.current_task()
            if owner is None or owner.cancelling() or not job.result.cancelled():
                _fail(job.result, WorkerError(str(self._failure or "the worker pool is closing")))
                raise
            await self._replace(slot)  # the caller is gone, and the worker may still work on the job
        except BaseException as error:
            _fail(job.result, WorkerError(f"the worker pool failed: {type(error).__name__}: {error}"))
            raise

    def _give_up(self, failure: WorkerError) -> None:
        if self._failure is None:
            logger.error("no worker processes any more: %s", failure)
            self._failure = failure
        self._fail_queued_jobs()

    def _fail_queued_jobs(self) -> None:
        for queue in self._jobs.values():
            while not queue.empty():
                _fail(queue.get_nowait().result, WorkerError(str(self._failure)))

    async def _replace(self, slot: Slot) -> None:
        slot.worker.kill()
        self.stats.workers_replaced += 1
        slot.worker = await self._spawn(slot.role)

    async def _spawn(self, role: Role) -> Worker:
        """Start a worker, and the fork server if it is gone. Raises WorkerError after three failures in a row."""
        async with self._fork_server_lock:
            for start, pause_s in enumerate(pauses(), start=1):
                try:
                    if self._fork_server is None:
                        await self._start_fork_server()
                    assert self._fork_server is not None
                    worker = await self._fork_server.spawn(role)
                    self._log_sandbox(worker.sandbox)
                    return worker
                except WorkerError as error:
                    await self._stop_fork_server()
                    if start == 3:  # three failures in a row are no accident
                        raise
                    logger.warning("workers cannot be started (%s); trying again", error)
                    await asyncio.sleep(pause_s)
        raise AssertionError("unreachable")

    def _log_sandbox(self, line: str) -> None:
        """Log what restricts verifier workers, once."""
        if line and line != self.sandbox:
            self.sandbox = line
            logger.info("%s", line, extra={"detail": True})

    async def _start_fork_server(self) -> LibraryInfo:
        self._fork_server = launch(self._settings.checkout)
        self.stats.fork_servers_started += 1
        return await self._fork_server.start(self._settings)

    async def _stop_fork_server(self) -> None:
        fork_server, self._fork_server = self._fork_server, None
        if fork_server is not None:
            await fork_server.stop()


def read_problem(spec: ProblemSpec, reply: Frame) -> Problem:
    """Return the problem in a generator's reply. Raises GenerationError for a reported error, and ProtocolFault."""
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
        raise ProtocolFault(f"a problem that cannot be one: {type(error).__name__}: {error}") from error


def _failed(spec: ProblemSpec, how: str) -> GenerationError:
    return GenerationError(f"{spec.task}, seed {spec.seed}: generation {how}")


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
        # A cancelled caller never retrieves the exception; asyncio must not report it as forgotten.
        with contextlib.suppress(Exception):
            future.exception()
