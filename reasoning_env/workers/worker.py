"""A worker process, as the pool uses it: messages to and from it, its processor time, and its end.

Deadlines count the worker's own processor time, so a busy machine does not make an answer exceed its deadline. Only
Linux reports the processor time of another process. On other systems, deadlines count wall-clock time. Everything here
runs on the event loop's thread.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .processes import is_asleep, is_stopped, thread_count
from .protocol import FRAME, Frame, FrameLimits, ProtocolFault, Role, decode_frame, encode_frame

MAX_KILLS = 3
"""If other processes kill this many workers during one job, the job fails. With a limit of two, 11 of 400 groups failed
at 5 kills per second."""


class WorkerDied(Exception):
    """The other process closed the socket, most likely because it died."""


class DeadlineExceeded(Exception):
    """No reply came before the deadline."""


class TooManyThreads(Exception):
    """A worker has more than MAX_THREADS threads."""


class _PipeReader(asyncio.StreamReader):
    """A stream reader whose future `ended` is done when the stream ends."""

    def __init__(self) -> None:
        super().__init__()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def feed_eof(self) -> None:
        super().feed_eof()
        self._end()

    def set_exception(self, exc: Exception) -> None:
        super().set_exception(exc)
        self._end()

    def _end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


class Channel:
    """A socket that sends and receives frames. Unread bytes stay in the kernel and in a small buffer."""

    def __init__(self, reader: _PipeReader, writer: asyncio.StreamWriter, limits: FrameLimits) -> None:
        self._reader = reader
        self._writer = writer
        self._limits = limits
        self._unread = bytearray()

    @classmethod
    async def open(cls, sock: socket.socket, limits: FrameLimits) -> Channel:
        """Return a channel that owns a connected socket. If this call fails, the socket is closed."""
        try:
            loop = asyncio.get_running_loop()
            reader = _PipeReader()
            protocol = asyncio.StreamReaderProtocol(reader)
            transport, _ = await loop.create_connection(lambda: protocol, sock=sock)
        except BaseException:
            sock.close()
            raise
        return cls(reader, asyncio.StreamWriter(transport, protocol, reader, loop), limits)

    @property
    def ended(self) -> asyncio.Future[None]:
        """A future that is done as soon as the other side has closed the socket, even if nobody calls `receive`."""
        return self._reader.ended

    def send(self, header: Mapping[str, object], blob: bytes = b"") -> None:
        """Queue a message for sending. Raises the errors of `encode_frame`."""
        self._writer.write(encode_frame(header, blob))

    async def receive(self, deadline_s: float) -> Frame:
        """Return the next message within `deadline_s` seconds. Raises WorkerDied, DeadlineExceeded or ProtocolFault."""
        frame = self._next_frame()
        if frame is not None:
            return frame
        try:
            async with asyncio.timeout(deadline_s):
                while frame is None:
                    data = await self._reader.read(1 << 16)
                    if not data:
                        raise WorkerDied("the connection closed")
                    self._unread += data
                    frame = self._next_frame()
                return frame
        except TimeoutError:
            raise DeadlineExceeded from None
        except OSError as error:
            raise WorkerDied(str(error)) from error

    def _next_frame(self) -> Frame | None:
        if len(self._unread) < FRAME.size:
            return None
        header_bytes, blob_bytes = FRAME.unpack_from(self._unread)
        self._limits.check(header_bytes, blob_bytes)
        end = FRAME.size + header_bytes + blob_bytes
        if len(self._unread) < end:
            return None
        body = self._unread[FRAME.size : end]
        del self._unread[:end]
        return decode_frame(body, header_bytes)

    def close(self) -> None:
        self._writer.transport.abort()


class Worker:
    """A generator or verifier worker: its process, and the channel to it.

    `forked_by` is the fork server, which alone can report how the process ends. `end(pid, has_closed)` makes the fork
    server kill the process; `has_closed` says if the process closed its socket. A worker may start threads if
    `threaded` is true.
    """

    def __init__(
        self,
        pid: int,
        channel: Channel,
        *,
        forked_by: object,
        end: Callable[[int, bool], None],
        threaded: bool = False,
    ) -> None:
        self.pid = pid
        self.forked_by = forked_by
        self.check_s = THREADED_CHECK_S if threaded else WORKER_CHECK_S
        self._threaded = threaded
        self._channel = channel
        self._end = end
        self._killed = False
        self._requests = 0

    @property
    def ended(self) -> asyncio.Future[None]:
        """A future that is done as soon as the worker has closed its socket, most likely because it died."""
        return self._channel.ended

    def send(self, header: Mapping[str, object], blob: bytes = b"") -> None:
        """Queue a request for sending. Raises the errors of `encode_frame`."""
        self._requests += 1
        self._channel.send({"id": self._requests, **header}, blob)

    async def receive(self, deadline_s: float) -> Frame:
        """Return the next reply to the latest request. Raises the errors of `Channel.receive`."""
        frame = await self._channel.receive(deadline_s)
        if frame.header.get("id") != self._requests:
            raise ProtocolFault(f"the worker replied to request {frame.header.get('id')!r} instead of {self._requests}")
        return frame

    def cpu_s(self) -> float | None:
        """Return the worker's processor time in seconds; None if the system does not report it."""
        if sys.platform != "linux":
            return None
        try:
            # The clock id as clock_getcpuclockid(3) computes it, which Python lacks; 2 means the time of all threads.
            return time.clock_gettime(~self.pid << 3 | 2)
        except OSError:
            return None

    @property
    def is_stopped(self) -> bool:
        """Whether a signal (SIGSTOP) has suspended the process; always False on systems other than Linux."""
        return is_stopped(self.pid)

    @property
    def is_asleep(self) -> bool:
        """Whether every thread of the process waits for an event, not for a processor or a disk. Linux only."""
        return is_asleep(self.pid, MAX_THREADS)

    def check_threads(self) -> None:
        """Raise TooManyThreads if a worker that may start threads has more than MAX_THREADS. Linux only."""
        if self._threaded and (count := thread_count(self.pid)) > MAX_THREADS:
            raise TooManyThreads(f"a worker has {count} threads; at most {MAX_THREADS} are allowed")

    def kill(self) -> None:
        """Make the fork server kill the process. Safe to call twice."""
        if not self._killed:
            self._killed = True
            has_closed = self.ended.done()
            self._channel.close()
            self._end(self.pid, has_closed)


@dataclass(eq=False)
class Slot:
    """A place for a worker. After a worker has ended, the slot gets a new one.

    `worker` is None while the slot is empty. `last` is the worker that left the slot last. `failed_starts` counts
    failed starts in a row.
    """

    role: Role
    worker: Worker | None = None
    last: Worker | None = None
    failed_starts: int = 0

    @property
    def current(self) -> Worker:
        """The worker in the slot. The slot must not be empty."""
        assert self.worker is not None, "internal error: the slot of a running job has no worker"
        return self.worker

    def take(self, worker: Worker) -> None:
        """Put a started worker into the empty slot."""
        self.worker = worker
        self.failed_starts = 0

    def vacate(self) -> None:
        """Kill the worker and empty the slot. Safe to call twice."""
        if self.worker is not None:
            self.worker.kill()
            self.last, self.worker = self.worker, None


WORKER_START_TIMEOUT_S = 300.0
"""Seconds in which a worker must import the library, or build its task."""
WORKER_CHECK_S = 1.0
"""Seconds between two checks of a worker that has not replied yet."""
MAX_THREADS = 500
"""Limit for the threads of a worker that may start threads. Libraries start one or two threads per core. Each thread
takes a process id, of which a machine may have only 32,768."""
THREADED_CHECK_S = 0.1
"""Seconds between two checks of a worker that may start threads. Only these checks count threads."""
WORKER_STALL_S = 5.0
"""A worker that gets no processor time for this many seconds counts as stalled. The kernel gives each runnable process
some milliseconds per second, even on a machine with fifty times as many processes as cores."""


class NoCpuTime(Exception):
    """A worker gets hardly any processor time, or a signal (SIGSTOP) suspends it. This is an infrastructure error."""


class WorkerAsleep(NoCpuTime):
    """A worker waits for an event that does not come, such as the end of `time.sleep`."""


class Stopwatch:
    """Measures the wall-clock time and processor time of a worker since the stopwatch was made."""

    def __init__(self, worker: Worker) -> None:
        self._now = asyncio.get_running_loop().time
        self._worker = worker
        self._began = self._now()
        self._cpu_began_s = worker.cpu_s()

    @property
    def wall_s(self) -> float:
        """Wall-clock time since this object was made, in seconds."""
        return self._now() - self._began

    @property
    def cpu_s(self) -> float:
        """The worker's processor time since this object was made, in seconds; `wall_s` if the system reports none."""
        cpu_s = self._worker.cpu_s()
        if cpu_s is None or self._cpu_began_s is None:
            return self.wall_s
        return cpu_s - self._cpu_began_s


async def receive_in_cpu_time(worker: Worker, limit_s: float, patience_s: float) -> Frame:
    """Return a worker's next reply.

    Raises:
        DeadlineExceeded: The worker used `limit_s` seconds of processor time.
        WorkerAsleep: At every check in the last max(limit_s, WORKER_STALL_S) seconds, the worker was asleep.
        TooManyThreads: See `Worker.check_threads`.
        NoCpuTime: The worker got too little processor time in `patience_s` seconds, or none in WORKER_STALL_S seconds.
        WorkerDied, ProtocolFault: See `Worker.receive`.
    """
    used = Stopwatch(worker)
    cpu_s = 0.0
    changed_s = 0.0
    has_slept = False
    looked_s = 0.0
    awake_s: float | None = None
    while cpu_s < limit_s:
        try:
            # Wait at least 20 ms between two measurements, even if the worker is close to its limit.
            reply = await worker.receive(min(max(limit_s - cpu_s, 0.02), worker.check_s, WORKER_STALL_S))
        except DeadlineExceeded:
            before_s = cpu_s
            cpu_s = used.cpu_s
        else:
            worker.check_threads()
            return reply
        worker.check_threads()
        waited_s = used.wall_s
        if cpu_s > before_s:
            changed_s = waited_s
        # Check this rarely, because reading the states of hundreds of threads takes milliseconds.
        if waited_s - looked_s >= min(WORKER_CHECK_S, WORKER_STALL_S):
            looked_s = waited_s
            has_slept = worker.is_asleep
            if awake_s is None or not has_slept:
                awake_s = waited_s
        if cpu_s < limit_s and awake_s is not None and waited_s - awake_s >= max(limit_s, WORKER_STALL_S):
            raise WorkerAsleep(f"for {waited_s - awake_s:.0f} s, a worker process only slept or waited")
        has_stalled = waited_s - changed_s > WORKER_STALL_S and not has_slept
        if cpu_s < limit_s and (waited_s > patience_s or has_stalled):
            raise NoCpuTime(f"a worker process received only {cpu_s:.1f} s of processor time in {waited_s:.0f} s")
    raise DeadlineExceeded
