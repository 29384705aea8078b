"""The pool of worker processes: `generate` makes a problem, `score` scores answers to it.

Generator workers make problems and never see model text; verifier workers score answers. Each worker has one task that
owns it: it takes jobs from the queue of its role and replaces the process as soon as it dies or is killed. Deadlines
count from the moment a job reaches a worker, never from the queue. Scoring ends at once when its caller is cancelled.

An answer's deadline is processor time, where the system tells that of another process (Linux), so that a busy machine
costs no answer its score; elsewhere it is time of the clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..concurrency import cancel_all
from ..errors import GenerationError, ScoringError, WorkerError
from ..records import LibraryInfo, PoolStats, Problem, ProblemSpec, Reason, Split, Verdict
from ..references import Reference
from .channel import DeadlineExceeded, WorkerDied
from .fork_server import ForkServer, PoolSettings, Worker
from .protocol import Frame, ProtocolFault, Role
from .replies import check_ready, read_problem, read_verdict
from .scoring import SLOW_S, ScoringJob, ScoringQueue

__all__ = ["PoolSettings", "WorkerPool"]

logger = logging.getLogger(__name__)

FORK_SERVER_STARTS = 3
"""How often in a row a fork server may fail to start before the pool gives up."""
RESTART_PAUSE_S = 0.5
LEAST_WAIT_S = 0.02
WALL_FACTOR, EXTRA_WALL_S = 10.0, 30.0
"""An answer may take so many times its deadline and so much more by the clock before its worker counts as starved."""


@dataclass
class _Seat:
    """A place in the pool: its process may be replaced while a job runs there."""

    worker: Worker


@dataclass(frozen=True, order=True)
class _GenerationJob:
    """Sorted by urgency: evaluation problems, which training problems wait for, come first."""

    order: tuple[bool, int]
    spec: ProblemSpec = field(compare=False)
    deadline_s: float = field(compare=False)
    result: asyncio.Future[Problem] = field(compare=False)


class _Preempted(Exception):
    """An answer is slow, and other jobs wait."""


class WorkerPool:
    """Start it, use it from one event loop, close it."""

    def __init__(self, settings: PoolSettings) -> None:
        self._settings = settings
        self._fork_server: ForkServer | None = None
        self._fork_server_lock = asyncio.Lock()
        self._generations: asyncio.PriorityQueue[_GenerationJob] = asyncio.PriorityQueue()
        self._generation_numbers = itertools.count()
        self._scorings = ScoringQueue(settings.verifiers)
        self._owners: list[asyncio.Task[None]] = []
        self._failure: WorkerError | None = None
        self._library = ""
        self.stats = PoolStats()

    async def start(self, *, understaffed: bool = False) -> LibraryInfo:
        """Start the processes; returns when the library is imported. Raises WorkerError.

        With `understaffed`, at most one worker of each role, until `staff` is called.
        """
        try:
            info = await self._start_fork_server()
        except BaseException:
            await self.close()
            raise
        self._library = info.version
        self._own_workers(min(1, self._settings.generators), min(1, self._settings.verifiers))
        if not understaffed:
            self.staff(())
        return info

    def staff(self, tasks: Collection[str]) -> None:
        """Start the other workers; they share those datasets of `tasks` that are slow to build."""
        self._owners.append(asyncio.create_task(self._build(tasks)))
        self._own_workers(self._settings.generators - 1, self._settings.verifiers - 1)

    async def _build(self, tasks: Collection[str]) -> None:
        async with self._fork_server_lock:  # behind those that are being forked, which problems wait for
            if self._fork_server is not None:
                self._fork_server.build(tasks)

    def _own_workers(self, generators: int, verifiers: int) -> None:
        for count, role, serve in (
            (generators, Role.GENERATOR, self._serve_generation),
            (verifiers, Role.VERIFIER, self._serve_scoring),
        ):
            self._owners += [asyncio.create_task(self._own_worker(role, serve)) for _ in range(count)]

    async def close(self) -> None:
        """End every process and fail what is still queued; safe to call twice."""
        self._failure = self._failure or WorkerError("the worker pool is closed")
        await cancel_all(self._owners)
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
        return self._generations.qsize() + self._scorings.waiting

    async def generate(self, spec: ProblemSpec, deadline_s: float) -> Problem:
        """Generate the problem of a spec.

        Raises GenerationError when the task raises, its worker dies twice or `deadline_s` passes, and WorkerError when
        there are no workers any more.
        """
        self._check_alive()
        result: asyncio.Future[Problem] = asyncio.get_running_loop().create_future()
        order = (spec.split is not Split.EVAL, next(self._generation_numbers))
        self._generations.put_nowait(_GenerationJob(order, spec, deadline_s, result))
        problem = await result
        return replace(problem, reference=str(Reference.of(problem, self._library)))

    async def score(self, problem: Problem, answers: Sequence[str], *, plainly: bool = False) -> list[Verdict]:
        """Score answers to a problem: one verdict each, in order; equal answers are scored once.

        `plainly` is how the library's own evaluation scores: without corrections, and the bare answer alone. Raises
        ScoringError when a fault of ours persists on a fresh worker, such as one that the machine starves, and
        WorkerError when there are no workers any more.
        """
        self._check_alive()
        distinct = list(dict.fromkeys(answers))
        if not distinct:
            return []
        verdicts = dict(zip(distinct, await self._scorings.put(problem, distinct, plainly=plainly), strict=True))
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
        request |= {"item": spec.item, "dataset_size": spec.dataset_size, "as_is": spec.as_is}
        died = False
        while True:
            try:
                seat.worker.send({"generate": request})
                return read_problem(spec, await seat.worker.receive(deadline_s))
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

    async def _take_turn(self, seat: _Seat, job: ScoringJob) -> None:
        """Score a job's answers one by one, until all are or others are to have the worker.

        A worker that dies costs the answer it was at a second try on a fresh one; only when that one dies of the same
        answer is the answer to blame.
        """
        while job.left:
            try:
                await self._score(seat.worker, job)
                if job.left and self._scorings.waiting:
                    return
                continue
            except _Preempted:
                self._scorings.note_slow(job)
            except DeadlineExceeded:
                answer = job.left[0]
                self.stats.timeouts += 1
                job.verdicts.append(Verdict(0.0, Reason.TIMEOUT, answer, self._settings.scoring_deadline_s))
                job.note_timeout(answer)
                self._scorings.note_slow(job)
            except (WorkerDied, ProtocolFault) as error:
                self.stats.protocol_faults += isinstance(error, ProtocolFault)
                position = len(job.verdicts)
                if position == job.died_at:
                    self.stats.crashes += 1
                    job.verdicts.append(Verdict(0.0, Reason.CRASH, job.answers[position]))
                job.died_at = position
            except ScoringError:
                if job.faulty:
                    await self._replace(seat)
                    raise
                job.faulty = True
            await self._replace(seat)
            if job.slow and self._scorings.waiting:
                return

    async def _score(self, worker: Worker, job: ScoringJob) -> None:
        """Score what is left of a job; of a slow one the next answer only."""
        spec, answers = job.problem.spec, job.left[:1] if job.slow else job.left
        built = (spec.task, job.problem.level)
        # The time that a verifier worker takes to build a task it has not scored before is not the answer's.
        announce = bool(spec.params) or built not in worker.built_tasks
        request = {"task": spec.task, "params": dict(spec.params), "level": job.problem.level, "announce": announce}
        worker.send({**request, "answers": answers, "plainly": job.plainly}, job.problem.entry)
        if announce:
            await self._await_ready(worker, spec)
            worker.built_tasks.add(built)
        for position, answer in enumerate(answers):
            verdict = read_verdict(await self._reply(worker, job, answer), position, answer, spec)
            self.stats.scored += 1
            job.verdicts.append(verdict)

    async def _reply(self, worker: Worker, job: ScoringJob, answer: str) -> Frame:
        """Wait for the verdict on an answer, for as long as its deadline allows.

        Raises DeadlineExceeded, _Preempted, and ScoringError where the machine gives the worker next to no time.
        """
        loop = asyncio.get_running_loop()
        deadline_s = job.deadline_s(answer, self._settings.scoring_deadline_s)
        began, cpu_before_s = loop.time(), worker.cpu_s()
        used_s = 0.0
        while True:
            try:
                until_slow_s = SLOW_S - used_s if used_s < SLOW_S else SLOW_S
                return await worker.receive(max(min(until_slow_s, deadline_s - used_s), LEAST_WAIT_S))
            except DeadlineExceeded:
                waited_s, cpu_s = loop.time() - began, worker.cpu_s()
                used_s = waited_s if cpu_s is None else cpu_s - (cpu_before_s or 0.0)
                if used_s >= deadline_s:
                    raise
                if waited_s >= WALL_FACTOR * deadline_s + EXTRA_WALL_S:
                    raise ScoringError(
                        f"{job.problem.task}: the machine gave a verifier worker {used_s:.1f} s in {waited_s:.0f} s"
                    ) from None
                if used_s >= SLOW_S and self._scorings.must_yield(job):
                    raise _Preempted from None

    async def _await_ready(self, worker: Worker, spec: ProblemSpec) -> None:
        """Wait until a verifier worker has built a task; raises ScoringError when it fails or is too slow."""
        limit_s = self._settings.start_timeout_s
        try:
            check_ready(await worker.receive(limit_s), spec)
        except DeadlineExceeded:
            raise ScoringError(f"{spec.task}: a verifier worker took over {limit_s:g} s to build the task") from None
        except (WorkerDied, ProtocolFault) as error:
            self.stats.protocol_faults += isinstance(error, ProtocolFault)
            raise ScoringError(f"{spec.task}: a verifier worker failed before it had built the task") from error

    # ---- who runs them

    def _check_alive(self) -> None:
        if self._failure is not None:
            raise WorkerError(str(self._failure))

    async def _own_worker(self, role: Role, serve: Callable[[_Seat], Awaitable[None]]) -> None:
        """Keep one worker alive and give it jobs, until there are no workers any more."""
        seat: _Seat | None = None
        try:
            seat = _Seat(await self._spawn(role))
            while True:
                await serve(seat)
        except WorkerError as failure:
            self._give_up(failure)
        except Exception as error:  # an owner that ends unheard would leave its role's jobs waiting for ever
            logger.exception("the owner of a %s failed", role.name.lower())
            self._give_up(WorkerError(f"the owner of a {role.name.lower()} failed: {type(error).__name__}: {error}"))
        finally:
            if seat is not None:
                seat.worker.kill()

    async def _serve_generation(self, seat: _Seat) -> None:
        job = await self._generations.get()
        if job.result.done():  # its caller is gone
            return
        with self._settling(job.result):
            problem = await self._generate(seat, job.spec, job.deadline_s)
            if not job.result.done():
                job.result.set_result(problem)

    async def _serve_scoring(self, seat: _Seat) -> None:
        job = await self._scorings.take()
        turn = asyncio.create_task(self._take_turn(seat, job))
        job.result.add_done_callback(lambda _: turn.cancel())
        try:
            with self._settling(job.result):
                await turn
                if not job.left and not job.result.done():
                    job.result.set_result(job.verdicts)
        except asyncio.CancelledError:
            owner = asyncio.current_task()
            if not job.result.cancelled() or owner is None or owner.cancelling():
                raise
            await self._replace(seat)  # its caller is gone, and it may be at an answer
        finally:
            self._scorings.end_turn(job)

    @contextlib.contextmanager
    def _settling(self, result: asyncio.Future[Any]) -> Iterator[None]:
        """Tell whoever waits for a job what went wrong with it; what is no job's fault goes on to the owner."""
        try:
            yield
        except (GenerationError, ScoringError) as error:
            _fail(result, error)
        except WorkerError as error:
            _fail(result, error)
            raise
        except BaseException:
            _fail(result, WorkerError(str(self._failure or "the worker pool is closing")))
            raise

    def _give_up(self, failure: WorkerError) -> None:
        if self._failure is None:
            logger.error("no worker processes any more: %s", failure)
            self._failure = failure
        self._fail_queued_jobs()

    def _fail_queued_jobs(self) -> None:
        error = WorkerError(str(self._failure))
        while not self._generations.empty():
            _fail(self._generations.get_nowait().result, error)
        self._scorings.fail(error)

    async def _replace(self, seat: _Seat) -> None:
        seat.worker.kill()
        self.stats.workers_replaced += 1
        seat.worker = await self._spawn(seat.worker.role)

    async def _spawn(self, role: Role) -> Worker:
        """Start a worker, after the fork server if that is gone; raises WorkerError when it keeps failing."""
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
        self._fork_server = ForkServer(self._settings)
        self.stats.fork_servers_started += 1
        return await self._fork_server.start()


def _failed(spec: ProblemSpec, how: str) -> GenerationError:
    return GenerationError(f"{spec.task}, seed {spec.seed}: generation {how}")


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
        # A caller that was cancelled never looks; asyncio must not report its exception as forgotten.
        with contextlib.suppress(Exception):
            future.exception()
