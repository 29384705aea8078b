"""The parent side of the fork server and of single workers: starting, talking to, killing.

Ordering: everything here runs on the event loop's thread. The process that holds the loop never forks; it starts one
fresh interpreter (the fork server) which forks all workers.
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
from collections import deque
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..errors import WorkerError
from ..records import LibraryInfo, TaskInfo
from .protocol import CONTROL, Control, Frame, FrameDecoder, FrameLimits, ProtocolFault, Role, encode_frame
from .sandbox.limits import WorkerLimits

logger = logging.getLogger(__name__)

KILOBYTE = 1 << 10
FRAME_LIMITS = {
    Role.GENERATOR: FrameLimits(header=4096 * KILOBYTE, blob=65536 * KILOBYTE),
    # A verifier worker has read model text: it gets to say a number and a word, nothing more.
    Role.VERIFIER: FrameLimits(header=4 * KILOBYTE, blob=0),
}
CONTROL_LIMITS = FrameLimits(header=256 * KILOBYTE, blob=0)
MAX_UNREAD_FRAMES = 1024
STOP_TIMEOUT_S = 5.0
FULL_SOCKET_TRIES = 500
FULL_SOCKET_PAUSE_S = 0.02


class WorkerDied(Exception):
    """The worker's end of the socket closed."""


class DeadlineExceeded(Exception):
    """No reply by the deadline."""


class FrameStream(asyncio.Protocol):
    """Frames from one socket, received one at a time by one reader."""

    def __init__(self, limits: FrameLimits) -> None:
        self._decoder = FrameDecoder(limits)
        self._frames: deque[Frame] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._failure: Exception | None = None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            self._frames.extend(self._decoder.feed(data))
        except ProtocolFault as fault:
            self._fail(fault)
            self.close()  # what follows a fault cannot be read, and must not pile up here
        else:
            self._wake()
        if self._failure is not None:
            self.close()  # what follows a malformed frame means nothing
        elif len(self._frames) > MAX_UNREAD_FRAMES and self.transport is not None:
            self.transport.pause_reading()  # a worker that says more than it was asked for waits, and costs no memory

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(WorkerDied(str(exc or "the connection closed")))

    def send(self, header: dict[str, Any], blob: bytes = b"") -> None:
        if self.transport is not None and self._failure is None:
            self.transport.write(encode_frame(header, blob))

    async def receive(self, deadline_s: float | None = None) -> Frame:
        """The next frame. Raises WorkerDied, ProtocolFault or DeadlineExceeded (after `deadline_s` seconds)."""
        while not self._frames:
            if self._failure is not None:
                raise self._failure
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            timer = None if deadline_s is None else loop.call_later(deadline_s, self._expire, self._waiter)
            try:
                await self._waiter
            finally:
                self._waiter = None
                if timer is not None:
                    timer.cancel()
        if self.transport is not None and len(self._frames) <= MAX_UNREAD_FRAMES:
            self.transport.resume_reading()
        return self._frames.popleft()

    def close(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def _expire(self, waiter: asyncio.Future[None]) -> None:
        if not waiter.done():
            waiter.set_exception(DeadlineExceeded())

    def _fail(self, failure: Exception) -> None:
        self._failure = self._failure or failure
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Worker:
    """One generator or verifier worker: a connection, and the means to kill the process behind it."""

    def __init__(self, number: int, role: Role, fork_server: ForkServer) -> None:
        self.number = number
        self.role = role
        self.built_tasks: set[tuple[str, float | None]] = set()
        """Tasks with their levels that this verifier worker is known to have built."""
        self._fork_server = fork_server
        self._stream = FrameStream(FRAME_LIMITS[role])
        self._requests = 0

    async def connect(self, sock: socket.socket) -> None:
        await asyncio.get_running_loop().create_connection(lambda: self._stream, sock=sock)

    def send(self, header: dict[str, Any], blob: bytes = b"") -> None:
        self._requests += 1
        self._stream.send({"id": self._requests, **header}, blob)

    async def receive(self, deadline_s: float) -> Frame:
        """The next reply to the latest request; raises what `FrameStream.receive` does."""
        frame = await self._stream.receive(deadline_s)
        if frame.header.get("id") != self._requests:
            raise ProtocolFault(f"a reply to request {frame.header.get('id')!r} while {self._requests} is under way")
        return frame

    def kill(self) -> None:
        self.disconnect()
        self._fork_server.kill(self.number)

    def disconnect(self) -> None:
        self._stream.close()


class ForkServer:
    """The fork server process; `start` once, then `spawn` workers, then `stop`."""

    def __init__(
        self,
        checkout: Path | None,
        limits: WorkerLimits,
        *,
        strict_rewards: bool = True,
        sandbox_verifiers: bool = True,
    ) -> None:
        self._checkout = checkout
        self._strict_rewards = strict_rewards
        self._sandbox_verifiers = sandbox_verifiers
        self._limits = limits
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._events = FrameStream(CONTROL_LIMITS)
        self._directory = ""
        self._watcher: asyncio.Task[None] | None = None
        self._workers_started = 0
        self._connected: dict[int, Worker] = {}
        self.pids: dict[int, int] = {}

    @property
    def alive(self) -> bool:
        return self._watcher is not None and not self._watcher.done()

    async def start(self, timeout_s: float) -> LibraryInfo:
        """Start the interpreter and wait until it has imported the library; raises WorkerError."""
        self._directory = tempfile.mkdtemp(prefix="reasoning-env-")
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = self._launch(theirs)
        # The transport owns a duplicate, so that this side keeps a socket that can send file descriptors.
        await asyncio.get_running_loop().create_connection(lambda: self._events, sock=self._control.dup())
        try:
            hello = (await self._events.receive(timeout_s)).header
        except DeadlineExceeded:
            raise WorkerError(
                f"no worker process was ready after {timeout_s:g} s; raise worker_start_timeout_s"
            ) from None
        except (WorkerDied, ProtocolFault) as error:
            last_words = self._error_log.read_text(errors="replace")[-2000:].strip() or error
            raise WorkerError(f"the process that imports reasoning-gym ended at once: {last_words}") from error
        if hello.get("event") != "hello":
            raise WorkerError(f"reasoning-gym cannot be imported by a worker process: {hello.get('error')}")
        self._watcher = asyncio.create_task(self._watch())
        return LibraryInfo(
            version=hello["version"],
            path=hello["path"],
            tasks=tuple(TaskInfo(name, category) for name, category in sorted(hello["tasks"].items())),
            warnings=tuple(hello["warnings"]),
            sandbox=hello["sandbox"],
            adjustable=frozenset(hello["adjustable"]),
        )

    def _launch(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        options = {
            "checkout": None if self._checkout is None else str(self._checkout),
            "directory": self._directory,
            "import_path": [os.path.abspath(path) for path in sys.path if path],
            "limits": asdict(self._limits),
            "strict_rewards": self._strict_rewards,
            "sandbox_verifiers": self._sandbox_verifiers,
        }
        script = Path(__file__).with_name("child.py")
        # Two items of the same seed differ with another string hash seed in some tasks; threads would make forking
        # unsafe; nothing else of this process's environment (keys, tokens, proxies) is any of a worker's business.
        environment = {
            "PYTHONHASHSEED": "0",
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            "MPLBACKEND": "Agg",
            "HOME": self._directory,
            "TMPDIR": self._directory,
            "MPLCONFIGDIR": self._directory,
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
        }
        with self._error_log.open("wb") as error_log:
            return subprocess.Popen(
                [sys.executable, str(script), str(theirs.fileno()), json.dumps(options)],
                pass_fds=[theirs.fileno()],
                env=environment,
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=error_log,
                start_new_session=True,
            )

    @property
    def _error_log(self) -> Path:
        return Path(self._directory) / "stderr"

    async def spawn(self, role: Role) -> Worker:
        """Fork a worker; raises WorkerError when the fork server is gone."""
        if not self.alive or self._control is None:
            raise WorkerError("the process that forks workers is gone")
        self._workers_started += 1
        worker = Worker(self._workers_started, role, self)
        ours, theirs = socket.socketpair()
        with theirs:
            order = CONTROL.pack(Control.SPAWN, role, worker.number)
            try:
                await self._order(order, theirs)
            except OSError as error:
                ours.close()
                raise WorkerError(f"the process that forks workers is gone: {error}") from error
        await worker.connect(ours)
        self._connected[worker.number] = worker
        return worker

    async def _order(self, order: bytes, theirs: socket.socket) -> None:
        """Hand the fork server a socket; waits while it is so far behind that its own is full."""
        assert self._control is not None
        for _ in range(FULL_SOCKET_TRIES):
            try:
                socket.send_fds(self._control, [order], [theirs.fileno()])
            except BlockingIOError:
                await asyncio.sleep(FULL_SOCKET_PAUSE_S)
            else:
                return
        raise TimeoutError("it takes no orders")

    def kill(self, number: int) -> None:
        self._connected.pop(number, None)
        if self._control is not None and self.alive:
            with contextlib.suppress(OSError):
                self._control.send(CONTROL.pack(Control.KILL, 0, number))

    async def stop(self) -> None:
        """Close the control socket, upon which the fork server kills its workers and ends; then make sure it did."""
        if self._watcher is not None:
            self._watcher.cancel()
        for worker in self._connected.values():
            worker.disconnect()
        self._connected.clear()
        self._events.close()
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            await asyncio.to_thread(_wait_or_kill, self._process)
        shutil.rmtree(self._directory, ignore_errors=True)

    async def _watch(self) -> None:
        try:
            while True:
                event = (await self._events.receive()).header
                if event.get("event") == "forked":
                    self.pids[event["worker"]] = event["pid"]
                elif event.get("event") == "exited":
                    self.pids.pop(event["worker"], None)
                    logger.debug("worker %s exited with status %s", event["worker"], event["status"])
        except (WorkerDied, ProtocolFault) as error:
            logger.warning("the process that forks workers ended: %s", error)


def _wait_or_kill(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
