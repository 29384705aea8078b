"""Read the bodies of requests within limits on size, number of values, depth, time and memory."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeVar

import msgspec
from aiohttp import web

from ..runtime.concurrency import in_background
from .limits import JudgeLimits
from .replies import Refused

T = TypeVar("T")
R = TypeVar("R", bound=msgspec.Struct)

BODY_TIMEOUT_S = 30.0
"""Time limit, in seconds, for a client to send the body of a request."""
BODIES_AT_ONCE = 18
"""The memory for request bodies is this number times the size limit of a body."""
TEXTS_AT_ONCE = 2
"""The memory for decoded requests is this number times the memory of one request of the maximum size."""
SHORT_BODY = 1 << 16
"""Bodies up to this size, in bytes, are parsed on the event loop, and do not count against the memory limits."""
MAX_DEPTH = 32  # workers can read rows with a few hundred levels
"""Maximum nesting of lists and objects in a request body."""
PIECE_BYTES = 1 << 16
"""How many bytes of a body are searched at a time to count its JSON values."""
_BRACKETS = re.compile(rb"[\[\]{}]")
TEXT_GROWTH = 4
"""In memory, a string needs up to this many times its UTF-8 size: one emoji makes every character take four bytes."""


class ByteSemaphore:
    """A semaphore that counts bytes: a caller waits until enough bytes are free.

    Small requests may overtake large ones, so a small request waits only if almost no bytes are free.
    """

    def __init__(self, size: int) -> None:
        self._free = size
        self._left = asyncio.Event()

    @asynccontextmanager
    async def take(self, size: int) -> AsyncIterator[None]:
        """Reserve `size` bytes until the `async with` block ends; `size` must not exceed the semaphore's size."""
        while size > self._free:
            self._left.clear()
            await self._left.wait()
        self._free -= size
        try:
            yield
        finally:
            self._free += size
            self._left.set()


class TooManyValuesError(ValueError):
    """The JSON has more values than the server allows."""


class BodyReader:
    """Reads the bodies of requests.

    Two semaphores (`ByteSemaphore`) limit the memory of all requests together. One counts the body of a request until
    the reply is sent. The other counts completions while they are judged. Bodies up to SHORT_BODY use neither
    semaphore, so slow clients do not delay small requests.
    """

    def __init__(self, limits: JudgeLimits) -> None:
        self._limits = limits
        self._max_bytes = limits.max_body_mb * 2**20
        self._max_values = 8 * limits.max_texts + 64
        """Limit for the number of JSON values in a body. 8 per completion leaves room for prompts and rows."""
        self._bodies = ByteSemaphore(BODIES_AT_ONCE * self._max_bytes)
        self._texts = ByteSemaphore(TEXTS_AT_ONCE * TEXT_GROWTH * self._max_bytes)

    def check_head(self, request: web.BaseRequest) -> None:
        """Raise Refused if the headers announce a body that is too large (413) or compressed (415)."""
        if request.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
            raise Refused(415, "the server does not read compressed bodies; send the body without Content-Encoding")
        if (request.content_length or 0) > self._max_bytes:
            raise self._too_large()

    def room_of_body(self, request: web.BaseRequest) -> AbstractAsyncContextManager[None]:
        """Wait for free memory, and reserve it for the body until the `async with` block ends."""
        size = request.content_length
        if size is None:  # no body, or a chunked body
            size = self._max_bytes if request.body_exists else 0
        return self._bodies.take(size if size > SHORT_BODY else 0)

    @asynccontextmanager
    async def read(self, request: web.BaseRequest, kind: type[R]) -> AsyncIterator[R]:
        """Yield the body as a record of type `kind`. Reserve memory until the `async with` block ends.

        Raises Refused (400, 408 or 413) for an invalid body.
        """
        body = await self._read_bytes(request)
        async with self._texts.take(TEXT_GROWTH * len(body) if len(body) > SHORT_BODY else 0):
            record = await self.parse(body, kind)
            del body  # free its memory before the completions are judged
            for name, value in msgspec.structs.asdict(record).items():
                if isinstance(value, list) and len(value) > self._limits.max_texts:
                    most = self._limits.max_texts
                    raise Refused(413, f"{name!r} has {len(value)} entries; the limit is {most} (--max-texts)")
            yield record

    async def parse(self, body: bytes | bytearray, kind: type[T]) -> T:
        """Parse JSON as a record of type `kind`. Raises Refused for invalid JSON (400) or too many values (413)."""
        try:
            return await run_in_thread_if_long(len(body), read_request, body, kind, self._max_values)
        except TooManyValuesError:
            raise Refused(
                413,
                f"the body has more than {self._max_values} JSON values; send fewer completions in a request, or start "
                f"the server with a larger --max-texts (now {self._limits.max_texts})",
            ) from None
        except ValueError as error:
            raise Refused(400, f"the body is not a valid request: {error}") from None

    async def _read_bytes(self, request: web.BaseRequest) -> bytearray:
        """Return the bytes of the body. Raises Refused (400, 408 or 413)."""
        body = bytearray()
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                async for chunk in request.content.iter_any():
                    body += chunk
                    if len(body) > self._max_bytes:
                        raise self._too_large()
        except TimeoutError:
            raise Refused(408, f"the client took more than {BODY_TIMEOUT_S:g} s to send the body") from None
        except (web.RequestPayloadError, ConnectionError):
            raise Refused(400, "the body is incomplete") from None
        return body

    def _too_large(self) -> Refused:
        return Refused(413, f"the body is larger than {self._limits.max_body_mb} MB (--max-body-mb)")


async def run_in_thread_if_long(size: int, work: Callable[..., T], *arguments: object) -> T:
    """Call `work`, which processes `size` bytes. Use a thread for more than SHORT_BODY bytes."""
    return work(*arguments) if size <= SHORT_BODY else await in_background(work, *arguments)


def read_request(body: bytes | bytearray, kind: type[T], max_values: int) -> T:
    """Parse untrusted JSON as a record of type `kind`. Raises ValueError for invalid JSON, or TooManyValuesError."""
    # Count before parsing: 12 MB of short strings would become three million objects and block the loop for a second.
    _count_values(body, max_values)
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from None


def _count_values(body: bytes | bytearray, max_values: int) -> None:
    """Raise TooManyValuesError for too many values, and ValueError for values nested too deeply."""
    values = 1
    depth = 0
    quotes = 0
    position = 0
    # Search one piece at a time, so that other threads can run in between.
    while position < len(body):
        end = position + PIECE_BYTES
        piece = body[position:end]
        escapes_next = (len(piece) - len(piece.rstrip(b"\\"))) % 2 == 1
        if escapes_next:
            piece += body[end : end + 1]
        position += len(piece)
        # Without escaped quotes, each quote begins or ends a string, so every second part is outside of strings.
        parts = piece.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        signs = b"".join(parts[quotes % 2 :: 2])
        quotes += len(parts) - 1
        values += sum(map(signs.count, (b",", b"[", b"{")))
        if values > max_values or quotes > 4 * max_values:  # a value and its key have two quotes each
            raise TooManyValuesError
        for bracket in _BRACKETS.findall(signs):
            depth += 1 if bracket in b"[{" else -1
            if depth > MAX_DEPTH:
                raise ValueError(f"lists and objects are nested more than {MAX_DEPTH} levels deep")
