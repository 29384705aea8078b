"""Read the bodies of requests within limits of size, number, depth, time and memory."""

from __future__ import annotations

import asyncio
import zlib
from typing import TypeVar

import msgspec
from aiohttp import web

from ..runtime.turns import in_background
from .limits import JudgeLimits
from .messages import TooManyValuesError, read_request
from .replies import Refused

T = TypeVar("T")
R = TypeVar("R", bound=msgspec.Struct)

SHORT_BODY = 1 << 16
"""Bytes of a body up to which the event loop reads the JSON; a thread costs more than it saves."""
HELD_BYTES = web.RequestKey("HELD_BYTES", int)
"""Key of a request for the bytes of its body that are counted."""


class TooLargeError(ValueError):
    """A packed body holds more than a body may have."""


def unpack(body: bytes | bytearray, max_bytes: int) -> bytes:
    """Return the content of a body in the format of gzip or zlib.

    Raises:
        TooLargeError: The content has more than `max_bytes`. No more than that is unpacked.
        ValueError: The body has another format, or is not whole.
    """
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)  # 32: of either format
    try:
        content = unpacker.decompress(body, max_bytes + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if len(content) > max_bytes:
        raise TooLargeError
    if not unpacker.eof or unpacker.unused_data:
        raise ValueError("the compressed data is cut short, or other bytes follow")
    return content


class BodyReader:
    """Reads bodies, and counts the bytes of all bodies that are read or wait.

    `is_unpacked` tells whether aiohttp unpacks bodies before they are read.
    """

    def __init__(self, limits: JudgeLimits) -> None:
        self.is_unpacked = True
        self._limits = limits
        self._free_bytes = limits.max_held_mb * 2**20

    async def read(self, request: web.Request, kind: type[R]) -> R:
        """Return the body as a record. Raises the reply 400, 408, 413, 415 or 503 for another body."""
        body = await self._read_bytes(request)
        packed = request.headers.get("Content-Encoding", "identity").strip().lower()
        if packed in ("gzip", "deflate") and not self.is_unpacked:
            try:
                body = await in_background(unpack, body, self._limits.max_body_mb * 2**20)
            except TooLargeError:
                raise self._too_large() from None
            except ValueError as error:
                raise Refused(400, f"the body is not {packed}: {error}") from None
            self._hold(request, len(body))
        elif packed not in ("gzip", "deflate", "identity"):
            raise Refused(415, "Content-Encoding must be gzip, deflate or identity")
        record = await self.parse(body, kind)
        for name, value in msgspec.structs.asdict(record).items():
            if isinstance(value, list) and len(value) > self._limits.max_texts:
                raise Refused(413, f"{name!r} has {len(value)} texts, more than max_texts, {self._limits.max_texts}")
        return record

    async def parse(self, body: bytes | bytearray, kind: type[T]) -> T:
        """Return the record that JSON stands for. Raises the reply 400 or 413 for other JSON."""
        max_values = self._limits.max_values
        try:
            if len(body) <= SHORT_BODY:
                return read_request(body, kind, max_values)
            return await in_background(read_request, body, kind, max_values)
        except TooManyValuesError:
            raise Refused(
                413,
                f"the body has more than {max_values} JSON values, as many as max_texts, "
                f"{self._limits.max_texts}, allows",
            ) from None
        except ValueError as error:
            raise Refused(400, f"the body is not the JSON of a request: {error}") from None

    async def _read_bytes(self, request: web.Request) -> bytes | bytearray:
        """Return the bytes of the body. Raises the reply 400, 408, 413 or 503."""
        max_bytes = self._limits.max_body_mb * 2**20
        if (request.content_length or 0) > max_bytes:
            raise self._too_large()
        body = bytearray()
        try:
            async with asyncio.timeout(self._limits.body_timeout_s):
                async for chunk in request.content.iter_any():
                    self._hold(request, len(chunk))
                    body += chunk
                    if len(body) > max_bytes:
                        raise self._too_large()
        except TimeoutError:
            raise Refused(408, f"the body took more than body_timeout_s, {self._limits.body_timeout_s:g} s") from None
        except (web.RequestPayloadError, ConnectionError):
            raise Refused(400, "the body is not whole") from None
        return body

    def _too_large(self) -> Refused:
        return Refused(413, f"the body is larger than max_body_mb, {self._limits.max_body_mb} megabytes")

    def _hold(self, request: web.Request, size: int) -> None:
        """Count bytes of a body until the request ends. Raises the reply 503 when there is no room."""
        if size > self._free_bytes:
            line = f"the bodies of other requests take too much of max_held_mb, {self._limits.max_held_mb} megabytes"
            raise Refused(503, line, retry_after_s=1)
        self._free_bytes -= size
        request[HELD_BYTES] = request.get(HELD_BYTES, 0) + size

    def release(self, request: web.Request) -> None:
        """Release the bytes of a request's body."""
        self._free_bytes += request.get(HELD_BYTES, 0)
