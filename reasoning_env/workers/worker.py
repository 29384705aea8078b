"""A worker process, seen from the pool: frames, processor time, end.

Everything here runs on the event loop's thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import signal
import socket
import sys
import time
from dataclasses import dataclass
from typing import Any

from .protocol import FRAME, Frame, FrameLimits, ProtocolFault, Role, decode_frame, encode_frame

logger = logging.getLogger(__name__)


class WorkerDied(Exception):
    """The other process closed the socket, most likely by dying."""


class DeadlineExceeded(Exception):
    """No reply came before the deadline."""


class Channel:
    """A socket with one reader. Unread bytes wait in the kernel and a small buffer, however many come."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limits: FrameLimits) -> None:
        self._reader = reader
        self._writer = writer
        self._limits = limits
        self._unread = bytearray()

    @classmethod
    async def open(cls, sock: socket.socket, limits: FrameLimits) -> Channel:
        """Return a channel that owns a connected socket."""
        return cls(*await asyncio.open_connection(sock=sock), limits)

    def send(self, header: dict[str, Any], blob: bytes = b"") -> None:
        """Send a frame without waiting. Raises TypeError or ValueError for a header that JSON cannot hold."""
        self._writer.write(encode_frame(header, blob))

    async def receive(self, deadline_s: float) -> Frame:
        """Return the next frame within `deadline_s`. Raises WorkerDied, DeadlineExceeded or ProtocolFault."""
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
    """One generator or verifier worker: its process and the channel to it.

    `sandbox` is one line for the log: what restricts a verifier worker, and what the system refused.
    """

    def __init__(self, role: Role, pid: int, channel: Channel, *, sandbox: str = "") -> None:
        self.role = role
        self.pid = pid
        self.sandbox = sandbox
        self._channel = channel
        self._pidfd: int | None = None
        self._killed = False
        self._requests = 0
        if _pidfds_work():
            with contextlib.suppress(ProcessLookupError):  # the worker has ended, which the next `receive` tells
                self._pidfd = os.pidfd_open(pid)

    def send(self, header: dict[str, Any], blob: bytes = b"") -> None:
        self._requests += 1
        self._channel.send({"id": self._requests, **header}, blob)

    async def receive(self, deadline_s: float) -> Frame:
        """Return the next reply to the latest request. Raises the errors of `Channel.receive`."""
        frame = await self._channel.receive(deadline_s)
        if frame.header.get("id") != self._requests:
            raise ProtocolFault(f"a reply to request {frame.header.get('id')!r} while {self._requests} is under way")
        return frame

    def cpu_s(self) -> float | None:
        """Return the processor time of the worker in seconds; None except on Linux."""
        if sys.platform != "linux":
            return None
        with contextlib.suppress(OSError):
            # The clock that clock_getcpuclockid(3) returns, which Python lacks; 2 means the time of all threads.
            return time.clock_gettime(~self.pid << 3 | 2)
        return None

    def kill(self) -> None:
        """Kill the process. Safe to call twice."""
        if self._killed:
            return
        self._killed = True
        self._channel.close()
        with contextlib.suppress(ProcessLookupError):
            if self._pidfd is not None:
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            elif not _pidfds_work():
                os.kill(self.pid, signal.SIGKILL)
        if self._pidfd is not None:
            os.close(self._pidfd)


@functools.cache
def _pidfds_work() -> bool:
    """Tell whether this system has pidfds: handles that never name another process, unlike process ids."""
    try:
        handle = os.pidfd_open(os.getpid())
        try:
            signal.pidfd_send_signal(handle, 0)
        finally:
            os.close(handle)
    except (AttributeError, OSError) as error:
        logger.info("this system has no pidfds (%s); workers are killed by their process ids", error)
        return False
    return True


@dataclass(eq=False)
class Slot:
    """A place for a worker. Its process may be replaced while a job runs."""

    role: Role
    worker: Worker
