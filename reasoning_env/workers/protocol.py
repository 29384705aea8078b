"""The wire format between the pool and its processes: length-prefixed frames of JSON and opaque bytes.

A frame is two unsigned 32-bit lengths in network order, then that many bytes of JSON (an object), then that many opaque
bytes. The parent never unpickles what it receives. Control messages to the fork server are fixed-size structs, because
one of them carries a file descriptor and must arrive whole.
"""

from __future__ import annotations

import json
import socket
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

FRAME = struct.Struct("!II")
CONTROL = struct.Struct("!BBI")


class ProtocolFault(Exception):
    """Bytes that are not the frame that was due: malformed, oversized or out of turn."""


class Role(IntEnum):
    GENERATOR = 1
    """Generates problems; never sees model text."""
    VERIFIER = 2
    """Scores answers."""


class Control(IntEnum):
    SPAWN = 1
    KILL = 2


@dataclass(frozen=True)
class Frame:
    header: dict[str, Any]
    blob: bytes


@dataclass(frozen=True)
class FrameLimits:
    """The largest header and blob, in bytes, that a reader accepts."""

    header: int
    blob: int


def encode_frame(header: dict[str, Any], blob: bytes = b"") -> bytes:
    text = json.dumps(header, separators=(",", ":")).encode("ascii")
    return FRAME.pack(len(text), len(blob)) + text + blob


def decode_header(text: bytes | bytearray) -> dict[str, Any]:
    """Parse a frame's JSON; raises ProtocolFault when it is not an object."""
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProtocolFault(f"a frame's header is not JSON: {error}") from error
    if not isinstance(header, dict):
        raise ProtocolFault(f"a frame's header is a {type(header).__name__}, not an object")
    return header


class FrameDecoder:
    """Turns a byte stream into frames; raises ProtocolFault at the first length over its limits."""

    def __init__(self, limits: FrameLimits) -> None:
        self._limits = limits
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        buffer = self._buffer
        buffer += data
        frames: list[Frame] = []
        while len(buffer) >= FRAME.size:
            header_bytes, blob_bytes = FRAME.unpack_from(buffer)
            if header_bytes > self._limits.header or blob_bytes > self._limits.blob:
                raise ProtocolFault(f"a frame of {header_bytes} + {blob_bytes} bytes is over the limits {self._limits}")
            end = FRAME.size + header_bytes + blob_bytes
            if len(buffer) < end:
                break
            middle = FRAME.size + header_bytes
            frames.append(Frame(decode_header(buffer[FRAME.size : middle]), bytes(buffer[middle:end])))
            del buffer[:end]
        return frames


def read_frame(sock: socket.socket) -> Frame | None:
    """Read one frame on a blocking socket (child side); None at the end of the stream."""
    prefix = _read_exactly(sock, FRAME.size)
    if prefix is None:
        return None
    header_bytes, blob_bytes = FRAME.unpack(prefix)
    header = _read_exactly(sock, header_bytes)
    blob = _read_exactly(sock, blob_bytes)
    if header is None or blob is None:
        return None
    return Frame(decode_header(header), bytes(blob))


def _read_exactly(sock: socket.socket, size: int) -> bytearray | None:
    data = bytearray(size)
    view = memoryview(data)
    position = 0
    while position < size:
        received = sock.recv_into(view[position:])
        if received == 0:
            return None
        position += received
    return data
