"""The pool of generators and verifier workers as the rest of the package sees it: two calls, `generate` and `score`.

Every worker slot has one task that owns it: it takes a job from its role's queue, runs it, and replaces the process as
soon as it dies or is killed. A caller that is cancelled leaves its job's result unread; nothing is left half done.
Deadlines count from the moment a job reaches an idle worker, never from the queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ..errors import GenerationError, ScoringError, WorkerError
from ..records import LibraryInfo, PoolStats, Problem, ProblemSpec, Reason, Verdict
from .fork_server import DeadlineExceeded, ForkServer, Worker, WorkerDied
from .protocol import ProtocolFault, Role
from .replies import raise_fault, read_problem, read_verdict
from .sandbox.limits import WorkerLimits

logger = logging.getLogger(__name__)

FORK_SERVER_STARTS = 3
"""How often in a row a fork server may fail to start before the pool gives up."""
RESTART_PAUSE_S = 0.5


@dataclass(frozen=True)
class PoolSettings:
    """Numbers of processes, deadlines in seconds and limits in megabytes."""

    generators: int = 2
    verifiers: int = 2
    scoring_deadline_s: float = 5.0
    memory_mb: int = 1024
    file_mb: int = 16
    niceness: int = 10
    start_timeout_s: float = 60.0
    strict_rewards: bool = True
    """Whether verifiers that pay for nonsense are corrected."""
    sandbox_verifiers: bool = True
    """Whether verifier workers are shut in with what the operating system offers."""
    checkout: Path | None = None
    """A folder that holds a `reasoning_gym` package to use instead of the installed one."""


@dataclass
class _GenerateJob:
    spec: ProblemSpec
    deadline_s: float
    result: asyncio.Future[Problem]


@dataclass
class _ScoreJob:
    problem: Problem
    answers: list[str]
    result: asyncio.Future[list[Verdict]]
    verdicts: list[Verdict] = field(default_factory=list)


J = TypeVar("J", _GenerateJob, _ScoreJob)


class WorkerPool:
    """Start it, use it from one event loop, close it."""

    def __init__(self, settings: PoolSettings) -> None:
        self._settings = settings
        self._fork_server: ForkServer | None = None
        self._fork_server_lock = asyncio.Lock()
        self._generator_jobs: asyncio.Queue[_GenerateJob] = asyncio.Queue()
        self._verifier_jobs: asyncio.Queue[_ScoreJob] = asyncio.Queue()
        self._owners: list[asyncio.Task[None]] = []
        self._failure: WorkerError | None = None
        self.stats = PoolStats()

    async def start(self) -> LibraryInfo:
        """Start the processes; returns when the library is imported. Raises WorkerError."""
        try:
            info = await self._start_fork_server()
        except BaseException:
            await self.close()
            raise
        for _ in range(self._settings.generators):
            owner = self._own_worker(Role.GENERATOR, self._generator_jobs, self._run_generation)
            self._owners.append(asyncio.create_task(owner))
        for _ in range(self._settings.verifiers):
            owner = self._own_worker(Role.VERIFIER, self._verifier_jobs, self._run_scoring)
            self._owners.append(asyncio.create_task(owner))
        return info

    async def close(self) -> None:
        """End every process and fail what is still queued; safe to call twice."""
        self._failure = self._failure or WorkerError("the worker pool is closed")
        for slot in self._owners:
            slot.cancel()
        await asyncio.gather(*self._owners, return_exceptions=True)
        self._owners = []
        self._fail_queued_jobs()
        if self._fork_server is not None:
            await self._fork_server.stop()
            self._fork_server = None

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """Process ids of the workers that are alive, in the order in which they were started."""
        return () if self._fork_server is None else tuple(self._fork_server.pids.values())

    @property
    def queued_jobs(self) -> int:
        """Jobs that wait for a worker, of both kinds."""
        return self._generator_jobs.qsize() + self._verifier_jobs.qsize()

    async def generate(self, spec: ProblemSpec, deadline_s: float) -> Problem:
        """Generate the problem of a spec.

        Raises GenerationError when the task raises, its worker dies twice or `deadline_s` passes, and WorkerError when
        there are no workers any more.
        """
        self._check_open()
        job = _GenerateJob(spec, deadline_s, asyncio.get_running_loop().create_future())
        self._generator_jobs.put_nowait(job)
        return await job.result

    async def score(self, problem: Problem, answers: Sequence[str]) -> list[Verdict]:
        """Score answers to a problem: one verdict each, in order; equal answers are scored once.

        Raises ScoringError when a fault of ours persists on a fresh worker, and WorkerError when there are no workers
        any more.
        """
        self._check_open()
        distinct = list(dict.fromkeys(answers))
        if not distinct:
            return []
        job = _ScoreJob(problem, distinct, asyncio.get_running_loop().create_future())
        self._verifier_jobs.put_nowait(job)
        verdicts = dict(zip(distinct, await job.result, strict=True))
        return [verdicts[answer] for answer in answers]

    async def check(self, wanted: Sequence[tuple[str, Mapping[str, Any], float | None]]) -> list[str]:
        """What is wrong with the parameters of tasks, each at a level or over the library's own; empty if nothing is.

        Raises WorkerError when that cannot be found out.
        """
        worker = await self._spawn(Role.GENERATOR)
        try:
            worker.send({"check": [[task, dict(params), level] for task, params, level in wanted]})
            reply = await worker.receive(self._settings.start_timeout_s)
            return [str(fault) for fault in reply.header["faults"]]
        except (WorkerDied, ProtocolFault, DeadlineExceeded, KeyError, TypeError, ValueError) as error:
            raise WorkerError(f"the tasks' parameters cannot be checked ({type(error).__name__}: {error})") from error
        finally:
            worker.kill()

    def _check_open(self) -> None:
        if self._failure is not None:
            raise WorkerError(str(self._failure))

    async def _start_fork_server(self) -> LibraryInfo:
        limits = WorkerLimits(self._settings.memory_mb, self._settings.file_mb, self._settings.niceness)
        self._fork_server = ForkServer(
            self._settings.checkout,
            limits,
            strict_rewards=self._settings.strict_rewards,
            sandbox_verifiers=self._settings.sandbox_verifiers,
        )
        self.stats.fork_servers_started += 1
        return await self._fork_server.start(self._settings.start_timeout_s)

    async def _spawn(self, role: Role) -> Worker:
        """Start a worker, and first the fork server if it is gone; raises WorkerError when that keeps failing."""
        async with self._fork_server_lock:
            for start in range(1, FORK_SERVER_STARTS + 1):
                try:
                    assert self._fork_server is not None
                    if not self._fork_server.alive:
                        await self._fork_server.stop()
                        await self._start_fork_server()
                    return await self._fork_server.spawn(role)
                except WorkerError as error:
                    if start == FORK_SERVER_STARTS:
                        raise
                    logger.warning("workers cannot be started (%s); trying again", error)
                    await asyncio.sleep(RESTART_PAUSE_S)
        raise AssertionError("unreachable")

    async def _replace(self, worker: Worker) -> Worker:
        worker.kill()
        self.stats.workers_replaced += 1
        return await self._spawn(worker.role)

    def _give_up(self, failure: WorkerError) -> None:
        if self._failure is None:
            logger.error("no worker processes any more: %s", failure)
            self._failure = failure
        self._fail_queued_jobs()

    def _fail_queued_jobs(self) -> None:
        assert self._failure is not None
        for queue in (self._generator_jobs, self._verifier_jobs):
            while not queue.empty():
                _fail(queue.get_nowait().result, WorkerError(str(self._failure)))

    async def _own_worker(
        self, role: Role, jobs: asyncio.Queue[J], run: Callable[[Worker, J], Awaitable[Worker]]
    ) -> None:
        """Keep one worker alive and give it jobs; `run` settles a job and returns the worker for the next one."""
        job: J | None = None
        try:
            worker = await self._spawn(role)
            while True:
                job = await jobs.get()
                if not job.result.done():
                    worker = await run(worker, job)
        except WorkerError as failure:
            self._give_up(failure)
        except Exception as error:  # an owner that ends unheard would leave its role's jobs waiting for ever
            logger.exception("the owner of a %s failed", role.name.lower())
            self._give_up(WorkerError(f"the owner of a {role.name.lower()} failed: {type(error).__name__}: {error}"))
        finally:
            if job is not None:
                _fail(job.result, WorkerError(str(self._failure or "the worker pool is closing")))

    async def _run_generation(self, worker: Worker, job: _GenerateJob) -> Worker:
        """Run one job and settle its future; returns the worker for the next job, another one if this one is lost."""
        for attempt in range(2):
            try:
                problem = await self._generate_on(worker, job)
            except WorkerDied as error:
                worker = await self._replace(worker)
                if attempt == 0:
                    continue  # it may have died of something else, before it ever saw this job
                self._fail_generation(job, f"ended its worker twice: {error}")
            except (DeadlineExceeded, ProtocolFault) as error:
                worker = await self._replace(worker)
                missed = isinstance(error, DeadlineExceeded)
                self._fail_generation(job, f"took over {job.deadline_s:g} s" if missed else f"went wrong: {error}")
            except (TypeError, ValueError) as error:  # parameters that JSON cannot hold
                self._fail_generation(job, f"has parameters that cannot be sent to a worker: {error}")
            except GenerationError as error:
                self.stats.generation_failures += 1
                _fail(job.result, error)
            else:
                self.stats.generated += 1
                if not job.result.done():
                    job.result.set_result(problem)
            break
        return worker

    async def _generate_on(self, worker: Worker, job: _GenerateJob) -> Problem:
        spec = job.spec
        worker.send({"task": spec.task, "seed": spec.seed, "params": dict(spec.params), "level": spec.level})
        return read_problem(spec, await worker.receive(job.deadline_s))

    def _fail_generation(self, job: _GenerateJob, how: str) -> None:
        self.stats.generation_failures += 1
        _fail(job.result, GenerationError(f"{job.spec.task}, seed {job.spec.seed}: generation {how}"))

    async def _run_scoring(self, worker: Worker, job: _ScoreJob) -> Worker:
        """Score a job's answers one by one and settle its future; returns the worker for the next job.

        A verifier worker that dies without our doing costs the answer it was at a second try on a fresh verifier
        worker. Only when that one dies of the same answer is the answer to blame.
        """
        died_at: int | None = None
        faulty = False
        while len(job.verdicts) < len(job.answers):
            try:
                await self._score_remaining(worker, job)
                continue
            except DeadlineExceeded:
                self.stats.timeouts += 1
                answer = job.answers[len(job.verdicts)]
                job.verdicts.append(Verdict(0.0, Reason.TIMEOUT, answer, self._settings.scoring_deadline_s))
            except (WorkerDied, ProtocolFault) as error:
                self.stats.protocol_faults += isinstance(error, ProtocolFault)
                position = len(job.verdicts)
                if died_at == position:
                    self.stats.crashes += 1
                    job.verdicts.append(Verdict(0.0, Reason.CRASH, job.answers[position]))
                died_at = position
            except ScoringError as error:
                if faulty:
                    _fail(job.result, error)
                    return await self._replace(worker)
                faulty = True
            worker = await self._replace(worker)
        self.stats.scored += len(job.answers)
        if not job.result.done():
            job.result.set_result(job.verdicts)
        return worker

    async def _score_remaining(self, worker: Worker, job: _ScoreJob) -> None:
        answers = job.answers[len(job.verdicts) :]
        spec = job.problem.spec
        # The time that a verifier worker takes to build a task it has not scored before is not the answer's.
        announce = bool(spec.params) or (spec.task, job.problem.level) not in worker.built_tasks
        request = {
            "task": spec.task,
            "params": dict(spec.params),
            "level": job.problem.level,
            "answers": answers,
            "announce": announce,
        }
        worker.send(request, job.problem.entry)
        if announce:
            await self._await_ready(worker, job.problem)
        for position, answer in enumerate(answers):
            reply = await worker.receive(self._settings.scoring_deadline_s)
            verdict = read_verdict(reply.header, position, answer, spec)
            self.stats.blocked += verdict.reason is Reason.BLOCKED
            job.verdicts.append(verdict)

    async def _await_ready(self, worker: Worker, problem: Problem) -> None:
        """Wait until a verifier worker has built a task; raises ScoringError when it cannot, or takes too long."""
        spec = problem.spec
        try:
            reply = await worker.receive(self._settings.start_timeout_s)
        except DeadlineExceeded:
            limit_s = self._settings.start_timeout_s
            raise ScoringError(f"{spec.task}: a verifier worker took over {limit_s:g} s to build the task") from None
        except WorkerDied as error:
            raise ScoringError(f"{spec.task}: a verifier worker died before it had built the task") from error
        if reply.header.get("ready") is not True:
            raise_fault(reply.header, spec)
            raise ProtocolFault(f"a verdict before the verifier worker was ready: {str(reply.header)[:200]}")
        worker.built_tasks.add((spec.task, problem.level))


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
        # A caller that was cancelled never looks; asyncio must not report its exception as forgotten.
        with contextlib.suppress(Exception):
            future.exception()
