"""The messages of a judge server as typed records, and the one place where JSON of strangers becomes values."""

from __future__ import annotations

import re
from typing import Annotated, TypeVar

import msgspec

from ..records import Reason, Row

T = TypeVar("T")

MAX_DEPTH = 32
"""Most lists and objects around a value. Workers, which read rows too, take some hundreds."""
PIECE_BYTES = 1 << 16
"""Bytes of a body that are searched at a time."""
_BRACKETS = re.compile(rb"[\[\]{}]")


class TooManyValuesError(ValueError):
    """The JSON has more values than the server reads."""


class ScoreRequest(msgspec.Struct):
    """Completions of one problem, by its reference, or of one row."""

    texts: list[str]
    ref: str | None = None
    row: Row | None = None


class RmRequest(msgspec.Struct):
    """A completion of slime or miles. A label is a reference, a row, or a row's JSON."""

    response: str
    label: str | Row


class GetRewardRequest(msgspec.Struct):
    """Completions of OpenRLHF, each behind its prompt, with a label each."""

    query: list[str]
    prompts: list[str]
    labels: list[str | Row]


class VerdictRow(msgspec.Struct):
    """A verdict. On a row, `parts` and `error` are those of the score function."""

    score: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
    reason: Reason
    answer: str | None
    parts: dict[str, float] | None = None
    error: str | None = None


class ScoreReply(msgspec.Struct):
    """The verdicts on the texts of a ScoreRequest, in order."""

    verdicts: list[VerdictRow]


class Refusal(msgspec.Struct):
    """Why a request got no verdicts. `kind` tells refusals of one status apart, where a client needs it."""

    error: str = ""
    kind: str | None = None


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
