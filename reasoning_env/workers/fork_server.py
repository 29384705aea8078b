"""Start the fork server, have it fork workers, kill them.

The process that holds the event loop never forks: it starts one fresh interpreter, the fork server, which imports the
library once and forks all workers (`child.py`). Everything here runs on the event loop's thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import WorkerError
from ..library_facts import SLOW_TO_BUILD
from ..records import LibraryInfo, TaskInfo
from ..settings import ReasoningSettings
from .channel import Channel, DeadlineExceeded, WorkerDied
from .protocol import ORDER, Frame, FrameLimits, Order, ProtocolFault, Role

logger = logging.getLogger(__name__)

KILOBYTE = 1 << 10
FRAME_LIMITS = {
    Role.GENERATOR: FrameLimits(header=4096 * KILOBYTE, blob=65536 * KILOBYTE),
    # A verifier worker has read model text: it gets to say a number and a word, nothing more.
    Role.VERIFIER: FrameLimits(header=4 * KILOBYTE, blob=0),
}
PROCESS_CPU_CLOCK = 2
"""What makes a clock's id of a process's in Linux's `clock_gettime`, as clock_getcpuclockid(3) does."""
EVENT_LIMITS = FrameLimits(header=256 * KILOBYTE, blob=0)
STOP_TIMEOUT_S = 5.0
FULL_SOCKET_TRIES = 500
FULL_SOCKET_PAUSE_S = 0.02


@dataclass(frozen=True)
class PoolSettings:
    """Numbers of processes, deadlines in seconds and limits in megabytes."""

    generators: int = 2
    verifiers: int = 2
    scoring_deadline_s: float = 5.0
    memory_mb: int = 1024
    file_mb: int = 16
    niceness: int = 10
    start_timeout_s: float = 300.0
    strict_rewards: bool = True
    """Whether verifiers that pay for nonsense are corrected."""
    lenient_answers: bool = True
    """Whether answers are also read without what stands around them, such as a code fence."""
    sandbox_verifiers: bool = True
    """Whether the operating system restricts verifier workers."""
    fast_generators: bool = True
    """Whether slow functions of the library's generators are replaced by faster ones that make the same problems."""
    checkout: Path | None = None
    """A folder that holds a `reasoning_gym` package to use instead of the installed one."""

    @classmethod
    def of(cls, settings: ReasoningSettings, checkout: Path | None = None) -> PoolSettings:
        """Return what an environment's settings say of its workers."""
        return cls(
            generators=settings.num_generators,
            verifiers=settings.num_verifiers,
            scoring_deadline_s=settings.scoring_deadline_s,
            memory_mb=settings.worker_memory_mb,
            niceness=settings.worker_niceness,
            start_timeout_s=settings.worker_start_timeout_s,
            strict_rewards=settings.strict_rewards,
            lenient_answers=settings.lenient_answers,
            sandbox_verifiers=settings.sandbox_verifiers,
            fast_generators=settings.fast_generators,
            checkout=checkout,
        )


class Worker:
    """One generator or verifier worker: its channel, and the means to kill the process behind it."""

    def __init__(self, number: int, role: Role, channel: Channel, fork_server: ForkServer) -> None:
        self.role = role
        self.built_tasks: set[tuple[str, float | None]] = set()
        """Tasks with their levels that this verifier worker is known to have built."""
        self._number = number
        self._channel = channel
        self._fork_server = fork_server
        self._requests = 0

    def send(self, header: dict[str, Any], blob: bytes = b"") -> None:
        self._requests += 1
        self._channel.send({"id": self._requests, **header}, blob)

    async def receive(self, deadline_s: float) -> Frame:
        """Return the next reply to the latest request; raises what `Channel.receive` does."""
        frame = await self._channel.receive(deadline_s)
        if frame.header.get("id") != self._requests:
            raise ProtocolFault(f"a reply to request {frame.header.get('id')!r} while {self._requests} is under way")
        return frame

    def cpu_s(self) -> float | None:
        """Return the processor time that it has used, in seconds; None where the system does not tell."""
        pid = self._fork_server.pids.get(self._number)
        if pid is None or sys.platform != "linux":
            return None
        with contextlib.suppress(OSError):
            return time.clock_gettime(~pid << 3 | PROCESS_CPU_CLOCK)
        return None

    def kill(self) -> None:
        self._channel.close()
        self._fork_server.kill(self._number)


class Interpreter:
    """A fresh interpreter, which imports the library and then waits for the settings of a fork server.

    `checkout` is a folder that holds the library, or None for the installed one.
    """

    def __init__(self, checkout: Path | None) -> None:
        self.checkout = checkout
        self.directory = tempfile.mkdtemp(prefix="reasoning-env-")
        self.orders, theirs = socket.socketpair()
        with theirs:
            self.process = self._launch(theirs)

    def _launch(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        script = Path(__file__).with_name("child.py")
        folder = self.directory
        # Some tasks make other items under another hash seed; threads make forking unsafe; nothing else of this
        # process's environment (keys, tokens, proxies) is a worker's business.
        environment = {
            "PYTHONHASHSEED": "0",
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            "MPLBACKEND": "Agg",
            "HOME": folder,
            "TMPDIR": folder,
            "MPLCONFIGDIR": folder,
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
        }
        import_path = [os.path.abspath(path) for path in sys.path if path]
        place = {"import_path": import_path, "checkout": self.checkout, "directory": folder}
        with self._error_log.open("wb") as error_log:
            return subprocess.Popen(
                [sys.executable, str(script), str(theirs.fileno()), json.dumps(place, default=str)],
                pass_fds=[theirs.fileno()],
                env=environment,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=error_log,
                start_new_session=True,
            )

    @property
    def _error_log(self) -> Path:
        return Path(self.directory) / "stderr"

    def last_words(self) -> str:
        """Return the end of what it wrote to stderr."""
        with contextlib.suppress(OSError):
            return self._error_log.read_text(errors="replace")[-2000:].strip()
        return ""

    async def stop(self) -> None:
        """Close the socket, upon which it ends, with all that it has forked; then make sure that it did."""
        self.orders.close()
        await asyncio.to_thread(_wait_or_kill, self.process)
        shutil.rmtree(self.directory, ignore_errors=True)


_started_ahead: list[Interpreter] = []
"""At most one, which the next fork server takes."""


def start_ahead() -> None:
    """Start the interpreter of the fork server to come, with the installed library.

    For a program whose own imports take seconds, so that those of the library take place beside them. When this process
    ends before it has a fork server, the interpreter ends too.
    """
    _started_ahead.append(Interpreter(None))


class ForkServer:
    """The fork server process: `start` it once, `spawn` workers, `stop` it."""

    def __init__(self, settings: PoolSettings) -> None:
        self.pids: dict[int, int] = {}
        """Process ids of the workers that are alive, by their numbers."""
        self._settings = settings
        self._interpreter: Interpreter | None = None
        self._events: Channel | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._workers_started = 0
        self._forked: dict[int, asyncio.Future[None]] = {}
        """What waits for a worker to be forked, by its number."""

    @property
    def alive(self) -> bool:
        return self._watcher is not None and not self._watcher.done()

    async def start(self) -> LibraryInfo:
        """Start the interpreter and wait until it has imported the library; raises WorkerError."""
        timeout_s = self._settings.start_timeout_s
        ahead = _started_ahead and self._settings.checkout is None
        interpreter = self._interpreter = _started_ahead.pop() if ahead else Interpreter(self._settings.checkout)
        # The channel owns a duplicate, so that this side keeps a socket that can send file descriptors.
        events = self._events = await Channel.open(interpreter.orders.dup(), EVENT_LIMITS)
        events.send({name: value for name, value in vars(self._settings).items() if name != "checkout"})
        try:
            hello = (await events.receive(timeout_s)).header
        except DeadlineExceeded:
            raise WorkerError(
                f"no worker process was ready after {timeout_s:g} s; raise worker_start_timeout_s"
            ) from None
        except (WorkerDied, ProtocolFault) as error:
            last_words = interpreter.last_words() or error
            raise WorkerError(f"the process that imports reasoning-gym ended at once: {last_words}") from error
        if hello.get("event") != "hello":
            raise WorkerError(f"reasoning-gym cannot be imported by a worker process: {hello.get('error')}")
        self._watcher = asyncio.create_task(self._watch(events))
        return LibraryInfo(
            version=hello["version"],
            path=hello["path"],
            tasks=tuple(TaskInfo(name, category) for name, category in sorted(hello["tasks"].items())),
            warnings=tuple(hello["warnings"]),
            sandbox=hello["sandbox"],
            adjustable=frozenset(hello["adjustable"]),
            system_prompt=hello["system_prompt"],
        )

    async def spawn(self, role: Role) -> Worker:
        """Return a worker once it is forked; raises WorkerError when the fork server is gone."""
        self._workers_started += 1
        number = self._workers_started
        ours, theirs = socket.socketpair()
        with theirs:
            worker = Worker(number, role, await Channel.open(ours, FRAME_LIMITS[role]), self)
            forked = self._forked[number] = asyncio.get_running_loop().create_future()
            try:
                await self._order(ORDER.pack(Order.SPAWN, role, number), theirs)
                theirs.close()
                await forked
            except BaseException as error:
                worker.kill()
                if isinstance(error, OSError):
                    raise WorkerError(f"the process that forks workers is gone: {error}") from error
                raise
            finally:
                del self._forked[number]
        return worker

    def build(self, tasks: Collection[str]) -> None:
        """Have the datasets of these tasks that are slow to build built before any further worker is forked."""
        if self._interpreter is not None:
            for number, task in enumerate(SLOW_TO_BUILD):
                if task in tasks:
                    with contextlib.suppress(OSError):  # then each worker builds its own
                        self._interpreter.orders.send(ORDER.pack(Order.BUILD, 0, number))

    async def _order(self, order: bytes, theirs: socket.socket) -> None:
        """Hand the fork server a socket; waits while it is so far behind that its own is full."""
        assert self._interpreter is not None
        for _ in range(FULL_SOCKET_TRIES):
            try:
                socket.send_fds(self._interpreter.orders, [order], [theirs.fileno()])
            except BlockingIOError:
                await asyncio.sleep(FULL_SOCKET_PAUSE_S)
            else:
                return
        raise TimeoutError("it takes no orders")

    def kill(self, number: int) -> None:
        if self._interpreter is not None and self.alive:
            with contextlib.suppress(OSError):
                self._interpreter.orders.send(ORDER.pack(Order.KILL, 0, number))

    async def stop(self) -> None:
        """Have it kill its workers and end."""
        if self._watcher is not None:
            self._watcher.cancel()
        if self._events is not None:
            self._events.close()
        if self._interpreter is not None:
            await self._interpreter.stop()

    async def _watch(self, events: Channel) -> None:
        try:
            while True:
                event = (await events.receive()).header
                if event.get("event") == "forked":
                    self.pids[event["worker"]] = event["pid"]
                    if (forked := self._forked.get(event["worker"])) is not None and not forked.done():
                        forked.set_result(None)
                elif event.get("event") == "exited":
                    self.pids.pop(event["worker"], None)
                    logger.debug("worker %s exited with status %s", event["worker"], event["status"])
        except (WorkerDied, ProtocolFault) as error:
            logger.warning("the process that forks workers ended: %s", error)
        finally:
            for forked in self._forked.values():
                if not forked.done():
                    forked.set_exception(ConnectionError("it ended"))


def _wait_or_kill(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
