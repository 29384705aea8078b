"""Read the bodies of requests within limits of size, time and memory."""

from __future__ import annotations

import asyncio
import zlib
from collections import Counter

from aiohttp import web

from ..runtime.json_reader import TooManyValuesError, parse_bounded_json
from ..runtime.turns import in_background
from .limits import JudgeLimits
from .replies import refusal

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


class BodyBudget:
    """Bytes of all bodies that are read or wait, by client.

    A client may hold at most as many bytes as then stay free: a single client half of the budget, two clients a third
    each. So a new client always finds room, and the bodies never exceed the budget.
    """

    def __init__(self, max_bytes: int) -> None:
        self._free = max_bytes
        self._held: Counter[str] = Counter()

    def take(self, client: str, size: int) -> bool:
        """Count bytes of a client, and tell whether there was room; without room, count nothing."""
        if self._held[client] + size > self._free - size:
            return False
        self._held[client] += size
        self._free -= size
        return True

    def give_back(self, client: str, size: int) -> None:
        """Count bytes of a client no longer."""
        self._free += size
        self._held[client] -= size
        if not self._held[client]:
            del self._held[client]


class BodyReader:
    """Reads bodies, and counts the bytes of all bodies that are read or wait.

    `is_unpacked` tells whether aiohttp unpacks bodies before they are read.
    """

    def __init__(self, limits: JudgeLimits) -> None:
        self.is_unpacked = True
        self._limits = limits
        self._budget = BodyBudget(limits.max_held_mb * 2**20)

    async def read(self, request: web.Request) -> dict[str, object]:
        """Return the body, a JSON object. Raises the reply 400, 408, 413, 415 or 503 for another body."""
        body = await self._read_bytes(request)
        packed = request.headers.get("Content-Encoding", "identity").strip().lower()
        if packed in ("gzip", "deflate") and not self.is_unpacked:
            try:
                body = await in_background(unpack, body, self._limits.max_body_mb * 2**20)
            except TooLargeError:
                raise self._too_large() from None
            except ValueError as error:
                raise refusal(400, f"the body is not {packed}: {error}") from None
            self._hold(request, len(body))
        elif packed not in ("gzip", "deflate", "identity"):
            raise refusal(415, "Content-Encoding must be gzip, deflate or identity")
        try:
            if len(body) <= SHORT_BODY:
                parsed = parse_bounded_json(body, self._limits.max_values)
            else:
                parsed = await in_background(parse_bounded_json, body, self._limits.max_values)
        except TooManyValuesError:
            raise refusal(
                413,
                f"the body has more than {self._limits.max_values} JSON values, as many as max_texts, "
                f"{self._limits.max_texts}, allows",
            ) from None
        except ValueError as error:
            raise refusal(400, f"the body is not JSON: {error}") from None
        if not isinstance(parsed, dict):
            raise refusal(400, f"the body must be a JSON object, not {type(parsed).__name__}")
        return parsed

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
            raise refusal(408, f"the body took more than body_timeout_s, {self._limits.body_timeout_s:g} s") from None
        except (web.RequestPayloadError, ConnectionError):
            raise refusal(400, "the body is not whole") from None
        return body

    def _too_large(self) -> web.HTTPException:
        return refusal(413, f"the body is larger than max_body_mb, {self._limits.max_body_mb} megabytes")

    def _hold(self, request: web.Request, size: int) -> None:
        """Count bytes of a body until the request ends. Raises the reply 503 when there is no room."""
        if not self._budget.take(request.remote or "", size):
            line = f"the bodies of other requests take too much of max_held_mb, {self._limits.max_held_mb} megabytes"
            raise refusal(503, line, retry_after_s=1)
        request[HELD_BYTES] = request.get(HELD_BYTES, 0) + size

    def release(self, request: web.Request) -> None:
        """Release the bytes of a request's body."""
        self._budget.give_back(request.remote or "", request.get(HELD_BYTES, 0))
