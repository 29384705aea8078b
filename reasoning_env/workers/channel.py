"""The pool's side of a worker's socket: send requests, receive replies by a deadline."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from .protocol import FRAME, Frame, FrameLimits, decode_frame, encode_frame

READ_BYTES = 1 << 16


class WorkerDied(Exception):
    """The process at the other end closed the socket, most likely by dying."""


class DeadlineExceeded(Exception):
    """No reply by the deadline."""


class Channel:
    """One socket, one reader. However much is unread, it waits in the kernel and a small buffer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limits: FrameLimits) -> None:
        self._reader = reader
        self._writer = writer
        self._limits = limits
        self._unread = bytearray()

    @classmethod
    async def open(cls, sock: socket.socket, limits: FrameLimits) -> Channel:
        """Take over a connected socket."""
        return cls(*await asyncio.open_connection(sock=sock), limits)

    def send(self, header: dict[str, Any], blob: bytes = b"") -> None:
        """Send a frame without waiting; raises TypeError or ValueError for a header that JSON cannot hold."""
        self._writer.write(encode_frame(header, blob))

    async def receive(self, deadline_s: float | None = None) -> Frame:
        """Return the next frame within `deadline_s`. Raises WorkerDied, DeadlineExceeded or ProtocolFault."""
        frame = self._next_frame()
        if frame is not None:
            return frame
        try:
            async with asyncio.timeout(deadline_s):
                while frame is None:
                    data = await self._reader.read(READ_BYTES)
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
