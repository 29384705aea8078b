"""The pool of worker processes: `generate` makes a problem, `score` scores answers to it.

Generator workers make problems and never see model text; verifier workers score answers. Each worker has one task that
owns it: it takes jobs from the queue of its role and replaces the process as soon as it dies or is killed. Deadlines
count from the moment a job reaches a worker, never from the queue. A job whose caller was cancelled runs to its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ..errors import GenerationError, ScoringError, WorkerError
from ..records import LibraryInfo, PoolStats, Problem, ProblemSpec, Reason, Verdict
from .channel import DeadlineExceeded, WorkerDied
from .fork_server import ForkServer, Worker
from .protocol import ProtocolFault, Role
from .replies import check_ready, read_problem, read_verdict
from .sandbox.limits import WorkerLimits

logger = logging.getLogger(__name__)

FORK_SERVER_STARTS = 3
"""How often in a row a fork server may fail to start before the pool gives up."""
RESTART_PAUSE_S = 0.5
T = TypeVar("T")


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
    lenient_answers: bool = True
    """Whether answers are also read without what stands around them, such as a code fence."""
    sandbox_verifiers: bool = True
    """Whether the operating system and an audit hook restrict verifier workers."""
    checkout: Path | None = None
    """A folder that holds a `reasoning_gym` package to use instead of the installed one."""


@dataclass
class _Seat:
    """A place in the pool: its process may be replaced while a job runs there."""

    worker: Worker


@dataclass(frozen=True)
class _Job:
    """What to do at a seat, and the future of whoever waits for it."""

    run: Callable[[_Seat], Awaitable[Any]]
    result: asyncio.Future[Any]


class WorkerPool:
    """Start it, use it from one event loop, close it."""

    def __init__(self, settings: PoolSettings) -> None:
        self._settings = settings
        self._fork_server: ForkServer | None = None
        self._fork_server_lock = asyncio.Lock()
        self._jobs: dict[Role, asyncio.Queue[_Job]] = {role: asyncio.Queue() for role in Role}
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
        roles = [Role.GENERATOR] * self._settings.generators + [Role.VERIFIER] * self._settings.verifiers
        self._owners = [asyncio.create_task(self._own_worker(role)) for role in roles]
        return info

    async def close(self) -> None:
        """End every process and fail what is still queued; safe to call twice."""
        self._failure = self._failure or WorkerError("the worker pool is closed")
        for owner in self._owners:
            owner.cancel()
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
        """Jobs that wait for a worker, of both roles."""
        return sum(queue.qsize() for queue in self._jobs.values())

    async def generate(self, spec: ProblemSpec, deadline_s: float) -> Problem:
        """Generate the problem of a spec.

        Raises GenerationError when the task raises, its worker dies twice or `deadline_s` passes, and WorkerError when
        there are no workers any more.
        """
        return await self._submit(Role.GENERATOR, lambda seat: self._generate(seat, spec, deadline_s))

    async def score(self, problem: Problem, answers: Sequence[str]) -> list[Verdict]:
        """Score answers to a problem: one verdict each, in order; equal answers are scored once.

        Raises ScoringError when a fault of ours persists on a fresh worker, and WorkerError when there are no workers
        any more.
        """
        distinct = list(dict.fromkeys(answers))
        if not distinct:
            return []
        scored = await self._submit(Role.VERIFIER, lambda seat: self._score(seat, problem, distinct))
        verdicts = dict(zip(distinct, scored, strict=True))
        return [verdicts[answer] for answer in answers]

    async def check(self, wanted: Sequence[tuple[str, Mapping[str, Any], float | None]]) -> list[str]:
        """Say what is wrong with the parameters of tasks, each at a level or over the library's own.

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

    # ---- jobs: each runs at one seat, whose worker it replaces when that is lost

    async def _generate(self, seat: _Seat, spec: ProblemSpec, deadline_s: float) -> Problem:
        request = {"task": spec.task, "seed": spec.seed, "params": dict(spec.params), "level": spec.level}
        died = False
        while True:
            try:
                seat.worker.send(request)
                problem = read_problem(spec, await seat.worker.receive(deadline_s))
                self.stats.generated += 1
                return problem
            except WorkerDied as error:
                await self._replace(seat)
                if died:
                    raise _failed(spec, f"ended its worker twice: {error}") from error
                died = True  # perhaps of something else, before it saw the job: the fresh one gets it too
            except DeadlineExceeded:
                await self._replace(seat)
                raise _failed(spec, f"took over {deadline_s:g} s") from None
            except ProtocolFault as error:
                await self._replace(seat)
                raise _failed(spec, f"went wrong: {error}") from error
            except (TypeError, ValueError) as error:
                raise _failed(spec, f"has parameters that cannot be sent to a worker: {error}") from error

    async def _score(self, seat: _Seat, problem: Problem, answers: Sequence[str]) -> list[Verdict]:
        """Score answers one by one.

        A verifier worker that dies costs the answer it was at a second try on a fresh one; only when that one dies of
        the same answer is the answer to blame.
        """
        verdicts: list[Verdict] = []
        died_at: int | None = None
        faulty = False
        while len(verdicts) < len(answers):
            try:
                async for verdict in self._verdicts(seat.worker, problem, answers[len(verdicts) :]):
                    verdicts.append(verdict)
                break
            except DeadlineExceeded:
                self.stats.timeouts += 1
                answer = answers[len(verdicts)]
                verdicts.append(Verdict(0.0, Reason.TIMEOUT, answer, self._settings.scoring_deadline_s))
            except (WorkerDied, ProtocolFault) as error:
                self.stats.protocol_faults += isinstance(error, ProtocolFault)
                position = len(verdicts)
                if position == died_at:
                    self.stats.crashes += 1
                    verdicts.append(Verdict(0.0, Reason.CRASH, answers[position]))
                died_at = position
            except ScoringError:
                if faulty:
                    await self._replace(seat)
                    raise
                faulty = True
            await self._replace(seat)
        self.stats.scored += len(answers)
        return verdicts

    async def _verdicts(self, worker: Worker, problem: Problem, answers: Sequence[str]) -> AsyncIterator[Verdict]:
        spec = problem.spec
        built = (spec.task, problem.level)
        # The time that a verifier worker takes to build a task it has not scored before is not the answer's.
        announce = bool(spec.params) or built not in worker.built_tasks
        request = {"task": spec.task, "params": dict(spec.params), "level": problem.level, "announce": announce}
        worker.send({**request, "answers": answers}, problem.entry)
        if announce:
            await self._await_ready(worker, spec)
            worker.built_tasks.add(built)
        for position, answer in enumerate(answers):
            reply = await worker.receive(self._settings.scoring_deadline_s)
            verdict = read_verdict(reply, position, answer, spec)
            self.stats.blocked += verdict.reason is Reason.BLOCKED
            yield verdict

    async def _await_ready(self, worker: Worker, spec: ProblemSpec) -> None:
        """Wait until a verifier worker has built a task; raises ScoringError when it cannot, or takes too long."""
        limit_s = self._settings.start_timeout_s
        try:
            check_ready(await worker.receive(limit_s), spec)
        except DeadlineExceeded:
            raise ScoringError(f"{spec.task}: a verifier worker took over {limit_s:g} s to build the task") from None
        except WorkerDied as error:
            raise ScoringError(f"{spec.task}: a verifier worker died before it had built the task") from error

    # ---- who runs them

    async def _submit(self, role: Role, run: Callable[[_Seat], Awaitable[T]]) -> T:
        if self._failure is not None:
            raise WorkerError(str(self._failure))
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._jobs[role].put_nowait(_Job(run, result))
        return await result

    async def _own_worker(self, role: Role) -> None:
        """Keep one worker alive and give it jobs, until there are no workers any more."""
        seat: _Seat | None = None
        job: _Job | None = None
        try:
            seat = _Seat(await self._spawn(role))
            while True:
                job = await self._jobs[role].get()
                if not job.result.done():
                    await self._run(job, seat)
        except WorkerError as failure:
            self._give_up(failure)
        except Exception as error:  # an owner that ends unheard would leave its role's jobs waiting for ever
            logger.exception("the owner of a %s failed", role.name.lower())
            self._give_up(WorkerError(f"the owner of a {role.name.lower()} failed: {type(error).__name__}: {error}"))
        finally:
            if seat is not None:
                seat.worker.kill()
            if job is not None:
                _fail(job.result, WorkerError(str(self._failure or "the worker pool is closing")))

    async def _run(self, job: _Job, seat: _Seat) -> None:
        try:
            result = await job.run(seat)
        except (GenerationError, ScoringError) as error:
            self.stats.generation_failures += isinstance(error, GenerationError)
            _fail(job.result, error)
        else:
            if not job.result.done():
                job.result.set_result(result)

    def _give_up(self, failure: WorkerError) -> None:
        if self._failure is None:
            logger.error("no worker processes any more: %s", failure)
            self._failure = failure
        self._fail_queued_jobs()

    def _fail_queued_jobs(self) -> None:
        for queue in self._jobs.values():
            while not queue.empty():
                _fail(queue.get_nowait().result, WorkerError(str(self._failure)))

    async def _replace(self, seat: _Seat) -> None:
        seat.worker.kill()
        self.stats.workers_replaced += 1
        seat.worker = await self._spawn(seat.worker.role)

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

    async def _start_fork_server(self) -> LibraryInfo:
        settings = self._settings
        self._fork_server = ForkServer(
            settings.checkout,
            WorkerLimits(settings.memory_mb, settings.file_mb, settings.niceness),
            strict_rewards=settings.strict_rewards,
            lenient_answers=settings.lenient_answers,
            sandbox_verifiers=settings.sandbox_verifiers,
        )
        self.stats.fork_servers_started += 1
        return await self._fork_server.start(settings.start_timeout_s)


def _failed(spec: ProblemSpec, how: str) -> GenerationError:
    return GenerationError(f"{spec.task}, seed {spec.seed}: generation {how}")


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
        # A caller that was cancelled never looks; asyncio must not report its exception as forgotten.
        with contextlib.suppress(Exception):
            future.exception()
