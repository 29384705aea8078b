"""The protocol between the pool and its processes: frames of JSON and bytes.

A frame consists of two unsigned 32-bit lengths in network order, a JSON object of the first length, and opaque bytes of
the second length. The pool never unpickles these bytes. If a length exceeds its limit, the pool rejects the frame
without reading it. `Restrictions` is a fork server's report on the sandbox.
"""

from __future__ import annotations

import errno
import json
import signal
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import msgspec

FRAME = struct.Struct("!II")
ORDER = struct.Struct("!IB?")
"""An order to the fork server: the process id of a worker to kill (0 for none), the role of a worker to fork, and
whether the worker to kill closed its socket. The socket of the worker to fork is attached to the order, and carries the
worker's first frame. If no socket is attached, no worker is forked."""
OUT_OF_MEMORY_STATUS = 12
"""Exit status of a worker that reached its memory limit (the value of ENOMEM). The fork server also reports it for a
worker that took much memory and that the kernel killed for lack of memory."""
DISCONNECTED_STATUS = 256
"""Exit status of a worker that closed its socket and kept running. No process can exit with this status."""
FATAL_SIGNALS = frozenset({
    *(signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGSYS, signal.SIGTRAP),
    *(signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF),  # the process's own timers
    *(signal.SIGPIPE, signal.SIGXFSZ),  # writing to a closed socket, or beyond the limit of file size
})  # fmt: skip
"""Signals that a process causes by its own code. Other signals, such as SIGKILL and SIGTERM, count as sent by other
processes. Without seccomp, code in a worker could also send them to its own process."""


@dataclass(frozen=True)
class Restrictions:
    """The sandbox of a session's workers, as JSON values.

    - `limits`: names of the layers that every worker has.
    - `layers`: names of the layers that only verifier workers have, in order of application.
    - `missing`: name of each layer that is missing, and why.
    - `readable`: device and inode number of each file and folder that verifier workers may read.
    """

    limits: Sequence[str]
    layers: Sequence[str]
    missing: Mapping[str, str]
    readable: Sequence[Sequence[int]] = ()

    @property
    def lacks_a_filter(self) -> bool:
        """True if the system has no Landlock or no seccomp, the two layers that matter most."""
        return "Landlock" in self.missing or "seccomp" in self.missing

    def lost(self, now: Restrictions) -> str | None:
        """Return the first of these layers that is missing from `now`, and why; None if `now` has all of them."""
        for name in (*self.limits, *self.layers):
            if name not in now.limits and name not in now.layers:
                return f"{name} ({now.missing.get(name, 'unknown')})"
        return None

    def explain(self, error: BaseException) -> str:
        """Return a string to append to a verifier's error: what the sandbox allows, if the sandbox caused the error."""
        match error:
            case OSError(errno=errno.EACCES) if "Landlock" in self.layers:
                return "; a verifier may read only Python's packages, its module and --read paths, and write no file"
            case OSError(errno=errno.EPERM | errno.ENOSYS) if "seccomp" in self.layers:
                return "; a verifier may start no process, open no socket and write no file"
            case RuntimeError() if "seccomp" in self.layers and "start new thread" in str(error):
                return "; a verifier may start threads only with --threads"
        return ""

    def describe(self) -> str:
        """Return one line for the log."""
        line = f"verifier workers are sandboxed by {', '.join(self.layers) or 'nothing'}"
        if self.missing:
            line += "; not by " + ", ".join(f"{name} ({reason})" for name, reason in self.missing.items())
        return line


class ProtocolFault(Exception):
    """A frame is malformed, too large or unexpected."""


class FrameTooLargeError(ProtocolFault):
    """A frame is larger than its reader accepts."""


class Role(IntEnum):
    GENERATOR = 1
    """Generates problems; never sees model text."""
    VERIFIER = 2
    """Scores answers."""


@dataclass(frozen=True)
class WorkerEnd:
    """How a worker ended: its exit status, or the signal that ended it. Both are None if unknown.

    Only the fork server, as the workers' parent, can find this out. If the fork server ends, the system kills its
    workers, so an unknown end counts as caused by another process.
    """

    status: int | None = None
    signal: int | None = None

    @property
    def from_outside(self) -> bool:
        """Whether another process killed the worker, or made the kernel kill it by taking the memory."""
        return self.status is None and self.signal not in FATAL_SIGNALS

    @property
    def out_of_memory(self) -> bool:
        """Whether the worker reached its memory limit."""
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
        return f"was killed from outside ({name})" if self.from_outside else f"ended by {name}"


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
            raise FrameTooLargeError(f"a frame of {header_bytes} + {blob_bytes} bytes exceeds the limits {self}")


_encode = json.JSONEncoder(separators=(",", ":")).encode
"""The standard library's encoder, because msgspec's encoder writes infinity as null."""


def encode_frame(header: Mapping[str, object], blob: bytes = b"") -> bytes:
    """Return a frame as bytes. Raises TypeError, ValueError or RecursionError if JSON cannot represent the header."""
    text = _encode(header).encode("ascii")
    return FRAME.pack(len(text), len(blob)) + text + blob


def decode_frame(body: bytes | bytearray, header_bytes: int) -> Frame:
    """Parse the bytes after the two lengths. Raises ProtocolFault if the header is not a JSON object."""
    text = body[:header_bytes]
    try:
        header = msgspec.json.decode(text)
    except (ValueError, RecursionError):  # unlike `json`, msgspec rejects NaN, infinity and lone surrogates
        try:
            header = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ProtocolFault(f"a frame's header is not JSON: {error}") from error
    if not isinstance(header, dict):
        raise ProtocolFault(f"a frame's header is a {type(header).__name__}, not an object")
    return Frame(header, bytes(body[header_bytes:]))


def read_frame(sock: socket.socket) -> Frame | None:
    """Read a frame from a blocking socket, on the workers' side. Return None at the end of the stream."""
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
