"""Start the fork server, which forks workers on request.

The process with the event loop never forks. It starts a fresh interpreter, the fork server (`child.py`), which imports
the library once and forks all workers. This module runs on the event loop's thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO

from ..errors import ConfigError, WorkerError
from ..metrics.stats import PoolStats
from ..records import LibraryInfo, TaskInfo
from ..runtime.retries import pauses
from ..runtime.text import error_text
from ..settings import ReasoningSettings
from ..sources.modules import absolute_entry
from ..sources.score_function import ScoreFunction, read_signature
from .processes import is_stopped
from .protocol import ORDER, Frame, FrameLimits, ProtocolFault, Role, WorkerEnd
from .sandbox import Restrictions
from .worker import WORKER_STALL_S, WORKER_START_TIMEOUT_S, Channel, DeadlineExceeded, Worker, WorkerDied

logger = logging.getLogger(__name__)

CHILD = Path(__file__).with_name("child.py")

WORKER_LIMITS = {
    Role.GENERATOR: FrameLimits(header=1 << 22, blob=1 << 26),
    # A verifier worker has read hostile text, so its replies are limited to numbers and short strings. The longest
    # valid reply has 24 KB: 32 extra numbers of a score function, whose names take up to twelve bytes per character.
    Role.VERIFIER: FrameLimits(header=1 << 15, blob=0),
}


@dataclass(frozen=True)
class PoolSettings:
    """Settings of a pool: the user's settings, and internal settings.

    With a `score_function` instead of the library, the pool scores rows and generates no problems. `hash_seed` becomes
    PYTHONHASHSEED of the workers, because the problems of some tasks depend on it.
    """

    user: ReasoningSettings = field(default_factory=ReasoningSettings)
    default_checkout: Path | None = None
    """A folder with a `reasoning_gym` package, used if the user's settings name none."""
    budget_s: float | None = None
    """Seconds of processor time for scoring a group; None: the user's setting applies."""
    score_function: ScoreFunction | None = None
    source_wrapper: str | None = None
    """`MODULE:FUNCTION`. Workers call this function with their source of problems, and use the returned source."""
    hash_seed: int = 0
    fast: bool = True
    """Use faster generators for tasks where they provably make the same problems as the library's generators."""

    @classmethod
    def of_function(cls, function: ScoreFunction, user: ReasoningSettings) -> PoolSettings:
        """Return the settings of a pool that scores rows.

        Each completion has a time limit, but a group has none, so that one slow completion cannot prevent the scoring
        of others.
        """
        return cls(user, score_function=function, budget_s=math.inf)

    @classmethod
    def of(
        cls, user: ReasoningSettings, checkout: str | Path | None, score: str | ScoreFunction | None
    ) -> PoolSettings:
        """Return the settings of a pool for rows if `score` is given, otherwise for the library's problems."""
        if score is None:
            return cls(user, None if checkout is None else Path(checkout))
        return cls.of_function(score if isinstance(score, ScoreFunction) else ScoreFunction(score), user)

    @property
    def group_budget_s(self) -> float:
        """Seconds of processor time for scoring a group."""
        return self.user.scoring_budget_s if self.budget_s is None else self.budget_s

    @property
    def checkout(self) -> Path | None:
        """The folder with the library; None for the installed library."""
        return self.default_checkout if self.user.checkout is None else Path(self.user.checkout).expanduser().absolute()

    def workers(self, role: Role) -> int:
        """Return the number of workers that the pool runs in a role."""
        if role is Role.VERIFIER:
            return self.user.verifiers
        return self.user.generators if self.score_function is None else 0

    def for_child(self) -> dict[str, object]:
        """Return only the settings that workers need, because workers may run hostile code."""
        return {
            **self.user.model_dump(include=CHILD_SETTINGS),
            "task_modules": list(map(absolute_entry, self.user.task_modules)),
            "folder": os.getcwd() if self.user.task_modules or self.score_function else None,
            "source_wrapper": self.source_wrapper,
            "fast": self.fast,
            "niceness": WORKER_NICENESS,
        }


MAX_FAILED_STARTS = 3
"""After this many failed starts in a row in each slot of a role, jobs fail immediately."""
WORKER_NICENESS = 3
"""Niceness of workers, so that on a busy machine the event loop gets more processor time than a worker."""

CHILD_SETTINGS = {"rewards", "sandbox_verifiers", "worker_memory_mb"}


def run_child(
    orders: socket.socket, start: str, environment: Mapping[str, str], folder: str, error_log: IO[bytes]
) -> subprocess.Popen[bytes]:
    """Run `child.py` in a fresh interpreter, as a session of its own (setsid). `start` is JSON for `child.py`."""
    return subprocess.Popen(
        [sys.executable, str(CHILD), str(orders.fileno()), start],
        pass_fds=[orders.fileno()],
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=error_log,
        start_new_session=True,
    )


class KilledError(WorkerError):
    """Another process, or the kernel for lack of memory, killed the fork server during its start."""


class ForkServer:
    """The process of the fork server. Call `start`, then `spawn` for each worker, then `stop`.

    The constructor starts the process, which at once imports the library: the installed one, or a checkout. After
    `start` has sent the settings, the process imports the modules of `task_modules`. With a score function (`score`),
    the process imports the module of this function, and not the library.
    """

    SLOW_IMPORT_S = 20.0
    """Seconds after which a slow import is logged. The task package reasoning-core needs 6 s of processor time."""
    STOP_TIMEOUT_S = 2.0
    """Seconds after which a process that has not ended by itself is killed. A pool must close within five seconds."""

    def __init__(self, settings: PoolSettings) -> None:
        self._channel: Channel | None = None
        self._importing: str | None = None
        self._answers = True
        self._threaded = settings.score_function is not None and settings.score_function.threads
        self.restrictions = Restrictions([], [], {})
        """The restrictions of this fork server's workers; empty before `start` returns."""
        self._directory = tempfile.mkdtemp(prefix="reasoning-env-")
        with contextlib.ExitStack() as after_an_error:
            after_an_error.callback(shutil.rmtree, self._directory, ignore_errors=True)
            self._orders, theirs = socket.socketpair()
            with theirs:
                after_an_error.callback(self._orders.close)
                self.process = self._launch(theirs, settings)
            after_an_error.pop_all()

    @property
    def is_usable(self) -> bool:
        """Whether the process can fork workers: it runs, accepts orders, and replied to the last order in time."""
        return self._answers and self.process.poll() is None

    def _launch(self, theirs: socket.socket, settings: PoolSettings) -> subprocess.Popen[bytes]:
        folder, function = self._directory, settings.score_function
        # The hash seed is fixed because some tasks depend on it. Libraries get one thread, because threads make forking
        # unsafe. Workers get no other variables of this process, because some contain keys and tokens.
        environment = {
            "PYTHONHASHSEED": str(settings.hash_seed),
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            "HOME": folder,
            "TMPDIR": folder,
            # In the cache folder, matplotlib keeps its list of fonts, if a user's module imports matplotlib.
            "MPLBACKEND": "Agg",
            "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"),
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
        }
        if function is not None:
            environment |= {name: os.environ[name] for name in function.environment if name in os.environ}
        import_path = [os.path.abspath(path) for path in sys.path if path]
        start = {
            "import_path": import_path,
            "checkout": settings.checkout,
            "directory": folder,
            "score_function": None if function is None else vars(function),
        }
        with self._error_log.open("wb") as error_log:
            return run_child(theirs, json.dumps(start, default=str), environment, folder, error_log)

    async def start(self, settings: PoolSettings, at_start: Restrictions | None = None) -> LibraryInfo:
        """Send the settings, wait until the library is imported, and return the description of the library.

        `at_start` has the restrictions of the pool's first fork server, which later fork servers must apply too. For
        the first fork server, `at_start` is None.

        Raises:
            KilledError: The process was killed while it started.
            WorkerError: The process failed in any other way, for example because a layer of the sandbox is missing.
            ConfigError: A module of `task_modules` cannot be imported.
        """
        in_setting = "task_modules" if settings.score_function is None else "score"
        try:
            # The channel gets a duplicate, because `spawn` sends file descriptors over the socket.
            channel = self._channel = await Channel.open(self._orders.dup(), FrameLimits(header=1 << 20, blob=0))
            channel.send({**settings.for_child(), "at_start": None if at_start is None else vars(at_start)})
            hello = (await self._await_import(channel)).header
        except DeadlineExceeded:
            if self._importing is not None:
                raise ConfigError(
                    f"{self._importing} was still being imported after {WORKER_START_TIMEOUT_S:g} s", setting=in_setting
                ) from None
            raise WorkerError(f"no worker process was ready after {WORKER_START_TIMEOUT_S:g} s") from None
        except WorkerDied as error:
            await self._wait_or_kill()
            end = _read_end(self.process.returncode)
            if end.from_outside:
                raise KilledError(f"the process that imports reasoning-gym {end}") from error
            if self._importing is not None:
                raise ConfigError(
                    f"the process that imported {self._importing} {end}; an import must not end it", setting=in_setting
                ) from error
            raise WorkerError(
                f"the process that imports reasoning-gym {end}: {self._stderr_tail() or error}"
            ) from error
        except (OSError, ProtocolFault) as error:
            raise WorkerError(f"the process that imports reasoning-gym cannot be used: {error}") from error
        if "user_code" in hello:
            raise ConfigError(hello["user_code"], setting=in_setting)
        if "error" in hello:
            raise WorkerError(
                f"reasoning-gym cannot be imported by a worker process: {hello['error']}",
                remedy="reinstall reasoning-gym, or correct {checkout}",
            )
        if "sandbox_error" in hello:
            raise WorkerError(f"the sandbox of the workers cannot be set up: {hello['sandbox_error']}")
        restrictions = Restrictions(**hello["restrictions"])
        lost = None if at_start is None else at_start.lost(restrictions)
        if lost is not None:
            raise WorkerError(f"new workers would lack a sandbox layer that the first workers had: {lost}")
        self.restrictions = restrictions
        return LibraryInfo(
            version=hello["version"],
            path=hello["path"],
            tasks=tuple(
                TaskInfo(name, task["category"], task["left_out"]) for name, task in sorted(hello["tasks"].items())
            ),
            warnings=tuple(hello["warnings"]),
            adjustable=frozenset(name for name, task in hello["tasks"].items() if task["has_levels"]),
            system_prompt=hello["system_prompt"],
            releases={
                name: task["release"] for name, task in hello["tasks"].items() if task["release"] != hello["version"]
            },
            to_try=frozenset(name for name, task in hello["tasks"].items() if task["needs_trial"]),
            score_signature=read_signature(hello["parameters"]) if "parameters" in hello else None,
        )

    async def _await_import(self, channel: Channel) -> Frame:
        """Wait for the imports, and return the first message after them.

        Before each import, a message names the module. If the import takes longer than SLOW_IMPORT_S seconds, warn.
        """
        while True:
            loop = asyncio.get_running_loop()
            warn = partial(logger.warning, "%s is still being imported", self._importing)
            timer = loop.call_later(self.SLOW_IMPORT_S, warn) if self._importing is not None else None
            try:
                frame = await self._first_frame(channel)
            finally:
                if timer is not None:
                    timer.cancel()
            if "importing" not in frame.header:
                return frame
            self._importing = frame.header["importing"]

    async def spawn(self, role: Role, replaces: Worker | None = None) -> tuple[Worker, WorkerEnd]:
        """Return a new worker that is ready for requests, and how the replaced worker ended.

        Without `replaces`, the second value is the unknown end `WorkerEnd()`. After a WorkerError, check `is_usable`
        before the next call.
        """
        replaced_pid = 0
        if replaces is not None and replaces.forked_by is self:
            replaced_pid = replaces.pid
        with contextlib.ExitStack() as after_an_error:
            try:
                ours, theirs = socket.socketpair()
                with theirs:
                    channel = await Channel.open(ours, WORKER_LIMITS[role])
                    after_an_error.callback(channel.close)
                    self._send_order(ORDER.pack(replaced_pid, role, False), theirs)
                hello = (await self._first_frame(channel)).header
                if "error" in hello:
                    raise WorkerError(
                        f"a new worker cannot set up the same sandbox as earlier workers: {hello['error']}"
                    )
                worker = Worker(hello["pid"], channel, forked_by=self, end=self.end_worker, threaded=self._threaded)
            except DeadlineExceeded:
                self._answers = False
                raise WorkerError(f"no worker was ready after {WORKER_START_TIMEOUT_S:g} s") from None
            except (WorkerDied, ProtocolFault) as error:
                raise WorkerError(f"a new worker ended before it was ready: {error}") from error
            except OSError as error:  # no file descriptor is free
                raise WorkerError(f"a worker cannot be started: {error}") from error
            after_an_error.pop_all()
            return worker, _read_end(hello["replaced_code"])

    async def _first_frame(self, channel: Channel) -> Frame:
        """Return the first message of the fork server or of a new worker.

        Raises the errors of `Channel.receive`, and WorkerError if the fork server is suspended (SIGSTOP). A new worker
        that is suspended is killed, which raises WorkerDied.
        """
        left_s = WORKER_START_TIMEOUT_S
        while True:
            try:
                return await channel.receive(min(left_s, WORKER_STALL_S))
            except DeadlineExceeded:
                left_s -= WORKER_STALL_S
                if is_stopped(self.process.pid):
                    self._answers = False
                    raise WorkerError("the process that forks workers was suspended by a signal (SIGSTOP)") from None
                newest = self._newest_child()
                if newest is not None and is_stopped(newest):
                    self.end_worker(newest, has_closed=False)
                if left_s <= 0:
                    raise

    def _newest_child(self) -> int | None:
        """Return the process id of the worker that was forked last; None if the system does not report it."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        with contextlib.suppress(OSError, IndexError):
            return int(children.read_text().split()[-1])  # the kernel lists children in the order of their start
        return None

    def _send_order(self, order: bytes, worker_socket: socket.socket) -> None:
        """Send an order to the fork server. Raises WorkerError if the process does not accept the order."""
        try:
            socket.send_fds(self._orders, [order], [worker_socket.fileno()])
        except OSError as error:
            self._answers = False
            raise WorkerError(f"the process that forks workers is gone: {error}") from error

    def end_worker(self, pid: int, has_closed: bool) -> None:
        """Order the fork server to kill a worker.

        A worker that has closed its socket (`has_closed`) first gets time to exit by itself.
        """
        with contextlib.suppress(OSError):  # if the fork server has ended, its workers have ended too
            self._orders.sendall(ORDER.pack(pid, 0, has_closed))

    async def stop(self) -> None:
        """Close the socket, so that the process and its workers end. Kill the process if it does not end in time."""
        if self._channel is not None:
            self._channel.close()
        self._orders.close()
        try:
            await self._wait_or_kill()
        finally:
            shutil.rmtree(self._directory, ignore_errors=True)

    async def _wait_or_kill(self) -> None:
        """Wait for the end of the process. Kill it after STOP_TIMEOUT_S, or at once if the caller is cancelled.

        This method polls, because no thread can be started while the interpreter shuts down.
        """
        deadline = time.monotonic() + self.STOP_TIMEOUT_S
        try:
            while self.process.poll() is None:
                if time.monotonic() >= deadline:
                    return
                await asyncio.sleep(0.005)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()

    @property
    def _error_log(self) -> Path:
        return Path(self._directory) / "stderr"

    def _stderr_tail(self) -> str:
        """Return the last part of the process's stderr."""
        with contextlib.suppress(OSError):
            return self._error_log.read_text(errors="replace")[-2000:].strip()
        return ""


def _read_end(code: int | None) -> WorkerEnd:
    """Return how a process ended, from its exit code (negative for a signal). None is an unknown exit code."""
    if code is None:
        return WorkerEnd()
    return WorkerEnd(signal=-code) if code < 0 else WorkerEnd(status=code)


_started_ahead: list[ForkServer] = []
"""At most one fork server, which `start_ahead` started for the next pool that needs the installed library."""


def start_ahead() -> None:
    """Start the fork server of the next pool now, so that the library is imported while this program starts.

    With two cores, `serve` is then ready 1.2 s earlier. If no pool uses the fork server, the fork server ends together
    with this process.
    """
    _started_ahead.append(ForkServer(PoolSettings()))


def launch(settings: PoolSettings) -> ForkServer:
    """Return the fork server of `start_ahead` if it fits the settings, or start a new one.

    Raises WorkerError if the process cannot be started.
    """
    if _started_ahead and settings.checkout is None and settings.score_function is None and settings.hash_seed == 0:
        return _started_ahead.pop()
    try:
        return ForkServer(settings)
    except OSError as error:
        raise WorkerError(f"the process that forks workers cannot be started: {error}") from error


class ForkServers:
    """The fork server of a pool: one process, which is started again after it has ended."""

    def __init__(self, settings: PoolSettings, stats: PoolStats) -> None:
        self._settings = settings
        self._stats = stats
        self._lock = asyncio.Lock()
        self.current: ForkServer | None = None
        self.library: LibraryInfo | None = None
        self.sandbox = ""
        """One line for the log: what restricts verifier workers. Empty before `start`."""
        self._restrictions: Restrictions | None = None
        """The restrictions of the first fork server's workers. Later workers must have the same restrictions."""

    async def start(self) -> LibraryInfo:
        """Start the first fork server, and return its description of the library. Retry if the process is killed."""
        for pause_s in islice(pauses(), MAX_FAILED_STARTS - 1):
            try:
                return await self._start()
            except KilledError as error:
                logger.warning("%s; the pool starts the process again", error)
            await asyncio.sleep(pause_s)
        return await self._start()

    async def spawn(self, role: Role, replaces: Worker | None) -> tuple[Worker, WorkerEnd]:
        """Return a new worker, and how the replaced worker ended (unknown without `replaces`). Raises WorkerError."""
        async with self._lock:
            try:
                if self.current is not None and not self.current.is_usable:
                    await self.stop()
                if self.current is None:
                    await self._start()
                assert self.current is not None
                return await self.current.spawn(role, replaces)
            except WorkerError:
                raise
            except ConfigError as error:  # a module of `task_modules` changed while the pool was open
                raise WorkerError(str(error)) from error
            except Exception as error:  # any other error would end the slot's owner, and jobs could wait for ever
                logger.exception("a %s cannot be started", role.name.lower())
                raise WorkerError(f"a worker cannot be started: {error_text(error)}") from error

    async def stop(self) -> None:
        """Stop the process and its workers. Safe to call twice."""
        fork_server, self.current = self.current, None
        if fork_server is not None:
            await fork_server.stop()

    async def _start(self) -> LibraryInfo:
        self.current = launch(self._settings)
        self._stats.fork_servers_started += 1
        try:
            self.library = await self.current.start(self._settings, self._restrictions)
            if self._restrictions is None:
                self._restrictions = self.current.restrictions
                self._log_sandbox(self._restrictions)
            return self.library
        except BaseException:
            await self.stop()
            raise

    def _log_sandbox(self, restrictions: Restrictions) -> None:
        """Log the layers of the verifiers' sandbox, as a warning if Landlock or seccomp is missing."""
        self.sandbox = describe_sandbox(restrictions)
        if lacks_a_filter(restrictions):
            logger.warning("%s", self.sandbox)
        else:
            logger.info("%s", self.sandbox, extra={"detail": True})


def describe_sandbox(restrictions: Restrictions) -> str:
    """Return a line for the log that says which layers restrict verifier workers, and which layers are missing."""
    line = f"verifier workers are sandboxed by {', '.join(restrictions.layers) or 'nothing'}"
    if restrictions.missing:
        line += "; not by " + ", ".join(f"{name} ({reason})" for name, reason in restrictions.missing.items())
    return line


def lacks_a_filter(restrictions: Restrictions) -> bool:
    """Return True if the system has no Landlock or no seccomp, the two layers that matter most."""
    return "Landlock" in restrictions.missing or "seccomp" in restrictions.missing
