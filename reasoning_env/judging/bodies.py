"""Read the bodies of requests within limits of size, number, depth, time and memory."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import TypeVar

import msgspec
from aiohttp import web

from ..runtime.turns import in_background
from .limits import Account, Holding, JudgeLimits
from .replies import Refused

T = TypeVar("T")
R = TypeVar("R", bound=msgspec.Struct)

SHORT_BODY = 1 << 16
"""Bytes of text up to which the event loop reads or writes; a thread costs more than it saves."""
MAX_DEPTH = 32
"""Most lists and objects around a value. Workers, which read rows too, take some hundreds."""
PIECE_BYTES = 1 << 16
"""Bytes of a body that are searched at a time."""
_BRACKETS = re.compile(rb"[\[\]{}]")
HOLDING = web.RequestKey("HOLDING", Holding)
"""Key of a request for its holding of the account."""


class TooManyValuesError(ValueError):
    """The JSON has more values than the server reads."""


class BodyReader:
    """Reads bodies, and counts them in an account."""

    def __init__(self, limits: JudgeLimits, account: Account) -> None:
        self._limits = limits
        self._account = account

    async def read(self, request: web.Request, kind: type[R]) -> R:
        """Return the body as a record. Raises the reply 400, 408, 413, 415 or 503 for another body."""
        if request.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
            raise Refused(415, "a packed body is not read; send it without Content-Encoding")
        body = await self._read_bytes(request)
        record = await self.parse(body, kind)
        size = 0
        for name, value in msgspec.structs.asdict(record).items():
            texts = value if isinstance(value, list) else [value]
            if len(texts) > self._limits.max_texts:
                raise Refused(413, f"{name!r} has {len(texts)} texts, more than max_texts, {self._limits.max_texts}")
            size += sum(map(sys.getsizeof, texts))
        # One emoji makes a text of 12 MB take 48. The values of a row are not counted by themselves.
        self._account.hold(request[HOLDING], max(size, len(body)))
        return record

    async def parse(self, body: bytes | bytearray, kind: type[T]) -> T:
        """Return the record that JSON stands for. Raises the reply 400 or 413 for other JSON."""
        max_values = self._limits.max_values
        try:
            return await beside_the_loop_if_long(len(body), read_request, body, kind, max_values)
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
        timeout_s = self._limits.transfer_timeout_s
        holding = request[HOLDING]
        if (request.content_length or 0) > max_bytes:
            raise self._too_large()
        body = bytearray()
        try:
            async with self._account.transfer(holding):
                async for chunk in request.content.iter_any():
                    body += chunk
                    if len(body) > max_bytes:
                        raise self._too_large()
                    self._account.hold(holding, len(body))
        except TimeoutError:
            if holding.is_cut:
                raise self._account.no_room() from None
            raise Refused(408, f"the body took more than transfer_timeout_s, {timeout_s:g} s") from None
        except (web.RequestPayloadError, ConnectionError):
            raise Refused(400, "the body is not whole") from None
        return body

    def _too_large(self) -> Refused:
        return Refused(413, f"the body is larger than max_body_mb, {self._limits.max_body_mb} megabytes")


async def beside_the_loop_if_long(size: int, work: Callable[..., T], *arguments: object) -> T:
    """Do `work` on `size` bytes: at once up to SHORT_BODY, else on a thread."""
    return work(*arguments) if size <= SHORT_BODY else await in_background(work, *arguments)


def read_request(body: bytes | bytearray, kind: type[T], max_values: int) -> T:
    """Return the record that a stranger's JSON stands for.

    Values are counted before one is made: 12 MB of short texts would become three million objects, in a second of the
    event loop. Raises TooManyValuesError, and ValueError for JSON of another form.
    """
    _count_values(body, max_values)
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from None


def _count_values(body: bytes | bytearray, max_values: int) -> None:
    """Raise TooManyValuesError for more values, and ValueError for deeper ones.

    A piece of the body is searched at a time, so that other threads keep their turn.
    """
    values = 1
    depth = 0
    quotes = 0
    position = 0
    while position < len(body):
        end = position + PIECE_BYTES
        piece = body[position:end]
        escapes_next = (len(piece) - len(piece.rstrip(b"\\"))) % 2 == 1
        if escapes_next:
            piece += body[end : end + 1]
        position += len(piece)
        # Without escapes, each quote begins or ends a text: every second part stands outside of texts.
        parts = piece.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        signs = b"".join(parts[quotes % 2 :: 2])
        quotes += len(parts) - 1
        values += sum(map(signs.count, (b",", b"[", b"{")))
        if values > max_values or quotes > 4 * max_values:  # a value may have a key, and each of them two quotes
            raise TooManyValuesError
        for bracket in _BRACKETS.findall(signs):
            depth += 1 if bracket in b"[{" else -1
            if depth > MAX_DEPTH:
                raise ValueError(f"more than {MAX_DEPTH} lists and objects around a value")
