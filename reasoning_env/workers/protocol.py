"""The protocol between the pool and its processes: frames of JSON and bytes.

A frame consists of two unsigned 32-bit lengths in network order, a JSON object of the first length, and opaque bytes of
the second length. The pool never unpickles these bytes. If a length exceeds its limit, the pool rejects the frame
without reading it.
"""

from __future__ import annotations

import json
import signal
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import msgspec

FRAME = struct.Struct("!II")
ORDER = struct.Struct("!IB?")
"""An order to the fork server: the process id of a worker to kill (0 for none), the role of a worker to fork, and
whether the worker to kill closed its socket. A worker is forked only if the new worker's socket is attached to the
order."""
OUT_OF_MEMORY_STATUS = 12
"""Exit status of a worker that reached its memory limit, or that the kernel killed for lack of memory. The value is
that of ENOMEM."""
DISCONNECTED_STATUS = 256
"""Stands for the exit status of a worker that closed its socket and kept running. No process exits with this status."""
FATAL_SIGNALS = frozenset({
    *(signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGSYS, signal.SIGTRAP),
    *(signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF),  # sent by timers of the process
    *(signal.SIGPIPE, signal.SIGXFSZ),  # caused by writing to a closed socket, or beyond the file size limit
})  # fmt: skip
"""Signals that count as caused by the process itself. Other signals, such as SIGKILL and SIGTERM, count as sent by
other processes, although a worker without seccomp can send them to itself."""


class ProtocolFault(Exception):
    """A message between the pool and one of its processes is malformed, too large or unexpected."""


class FrameTooLargeError(ProtocolFault):
    """A message is larger than its reader accepts."""


class Role(IntEnum):
    GENERATOR = 1
    """Generates problems; never reads text that a model wrote."""
    VERIFIER = 2
    """Scores answers."""


@dataclass(frozen=True)
class WorkerEnd:
    """How a worker ended: its exit status, or the signal that ended it. Both are None if unknown.

    The end is unknown if the fork server, the worker's parent, ended first. An unknown end is treated as if another
    process had killed the worker.
    """

    status: int | None = None
    signal: int | None = None

    @property
    def from_outside(self) -> bool:
        """Whether another process killed the worker, or took so much memory that the kernel killed the worker."""
        return self.status is None and self.signal not in FATAL_SIGNALS

    @property
    def out_of_memory(self) -> bool:
        """Whether the worker took too much memory (see OUT_OF_MEMORY_STATUS)."""
        return self.status == OUT_OF_MEMORY_STATUS

    @property
    def disconnected(self) -> bool:
        """Whether the worker closed its connection but kept running until it was killed."""
        return self.status == DISCONNECTED_STATUS

    def __str__(self) -> str:
        if self.out_of_memory:
            return "reached its memory limit"
        if self.disconnected:
            return "closed its connection to the pool"
        if self.status is not None:
            return f"exited with status {self.status}"
        if self.signal is None:
            return "ended together with the process that forks workers"
        name = signal.Signals(self.signal).name if self.signal in set(signal.Signals) else f"signal {self.signal}"
        return f"was killed by another process or the kernel ({name})" if self.from_outside else f"ended by {name}"


@dataclass(frozen=True)
class Frame:
    """A message: a JSON object and opaque bytes."""

    header: dict[str, Any]
    blob: bytes


@dataclass(frozen=True)
class FrameLimits:
    """Largest header and blob, in bytes, that a reader accepts."""

    header: int
    blob: int

    def check(self, header_bytes: int, blob_bytes: int) -> None:
        if header_bytes > self.header or blob_bytes > self.blob:
            raise FrameTooLargeError(
                f"a message with {header_bytes} bytes of header and {blob_bytes} bytes of data is too large; the "
                f"limits are {self.header} and {self.blob} bytes"
            )


_encode = json.JSONEncoder(separators=(",", ":")).encode
"""The standard library's encoder, because msgspec's encoder writes infinity as null."""


def encode_frame(header: Mapping[str, object], blob: bytes = b"") -> bytes:
    """Return a frame as bytes. Raises TypeError, ValueError or RecursionError if JSON cannot represent the header."""
    text = _encode(header).encode("ascii")
    return FRAME.pack(len(text), len(blob)) + text + blob


def decode_frame(body: bytes | bytearray, header_bytes: int) -> Frame:
    """Parse a frame's header and blob, without the lengths. Raises ProtocolFault if the header is not a JSON object."""
    text = body[:header_bytes]
    try:
        header = msgspec.json.decode(text)
    except (ValueError, RecursionError):  # unlike `json`, msgspec rejects NaN, infinity and lone surrogates
        try:
            header = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ProtocolFault(f"the header of a message is not JSON: {error}") from error
    if not isinstance(header, dict):
        raise ProtocolFault(f"the header of a message is a {type(header).__name__}, not a JSON object")
    return Frame(header, bytes(body[header_bytes:]))


def read_frame(sock: socket.socket) -> Frame | None:
    """Return the next message from a blocking socket; None at the end of the stream. Used by the child processes."""
    prefix = _read_exactly(sock, FRAME.size)
    if prefix is None:
        return None
    header_bytes, blob_bytes = FRAME.unpack(prefix)
    body = _read_exactly(sock, header_bytes + blob_bytes)
    return None if body is None else decode_frame(body, header_bytes)


def _read_exactly(sock: socket.socket, size: int) -> bytearray | None:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        received = sock.recv_into(view)
        if received == 0:
            return None
        view = view[received:]
    return data
