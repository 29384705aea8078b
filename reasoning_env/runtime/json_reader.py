"""Read JSON that strangers wrote: bounded in values and depth, and in pieces, so that other threads keep their turn.

`json.loads` holds the interpreter from the first byte to the last: 0.1 s for one text of 16 MB, 1 s for 16 MB of empty
lists, which then take 450 MB. `parse_bounded_json` stops at the first value too many, and no piece of its work takes
more than a millisecond.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

TEXT_PIECE_BYTES = 1 << 16
"""Bytes of a text, or of blanks, that are read at a time."""

_BLANKS = re.compile(rb"[ \t\n\r]*+")
_LITERAL = re.compile(rb"-?[0-9][0-9.eE+-]{0,400}|true|false|null|NaN|-?Infinity")
_TEXT = re.compile(rb'(?:[^"\\]++|\\(?:[^u]|u[0-9a-fA-F]{4}))*+', re.DOTALL)


class TooManyValuesError(ValueError):
    """The JSON has more values than the reader may take."""


def parse_bounded_json(body: bytes | bytearray, max_values: int, max_depth: int = 32) -> object:
    """Return the value that a JSON text in UTF-8 stands for, as `json.loads` does.

    Args:
        body: The JSON text.
        max_values: Most values, nested values and keys of objects included.
        max_depth: Most lists and objects around a value.

    Raises:
        TooManyValuesError: The text has more values.
        ValueError: The text is not JSON, or is nested deeper.
    """
    [value] = read_several([body], max_values, max_depth)
    return value


def read_several(bodies: Iterable[bytes | bytearray], max_values: int, max_depth: int = 32) -> Iterator[object]:
    """Yield the value of each JSON text, as `parse_bounded_json` does.

    `max_values` bounds the values of all texts together.
    """
    for body in bodies:
        reader = _JsonText(body, max_values, max_depth)
        value = reader.value(0)
        if reader.next_byte() != b"":
            raise ValueError("more text after the value")
        max_values = reader.values_left
        yield value


class _JsonText:
    """The JSON text and the position of the next byte to read."""

    def __init__(self, body: bytes | bytearray, max_values: int, max_depth: int) -> None:
        self._body = body
        self._position = 0
        self.values_left = max_values
        self._max_depth = max_depth

    def next_byte(self) -> bytes:
        """Skip blanks, and return the next byte without reading it; empty at the end."""
        end = self._position
        while self._position == end:
            end += TEXT_PIECE_BYTES
            blanks = _BLANKS.match(self._body, self._position, end)
            assert blanks is not None  # the pattern matches nothing too
            self._position = blanks.end()
        return bytes(self._body[self._position : self._position + 1])

    def value(self, depth: int) -> object:
        self.values_left -= 1
        if self.values_left < 0:
            raise TooManyValuesError
        match self.next_byte():
            case b'"':
                return self._text()
            case b"[":
                return self._list(depth + 1)
            case b"{":
                return self._object(depth + 1)
        literal = _LITERAL.match(self._body, self._position)
        if literal is None:
            raise ValueError(f"no value at byte {self._position}")
        self._position = literal.end()
        return json.loads(literal[0])

    def _list(self, depth: int) -> list[object]:
        values: list[object] = []
        self._begin_group(depth)
        if self.next_byte() == b"]":
            self._position += 1
            return values
        while True:
            values.append(self.value(depth))
            if self._ends_group(b"]"):
                return values

    def _object(self, depth: int) -> dict[str, object]:
        fields: dict[str, object] = {}
        self._begin_group(depth)
        if self.next_byte() == b"}":
            self._position += 1
            return fields
        while True:
            if self.next_byte() != b'"':
                raise ValueError(f"no key at byte {self._position}")
            key = self._text()
            self._skip(b":")
            fields[key] = self.value(depth)
            if self._ends_group(b"}"):
                return fields

    def _begin_group(self, depth: int) -> None:
        if depth > self._max_depth:
            raise ValueError(f"more than {self._max_depth} lists and objects around a value")
        self._position += 1

    def _ends_group(self, closing: bytes) -> bool:
        """Read a comma or the closing bracket, and tell whether it was the bracket."""
        if self.next_byte() == closing:
            self._position += 1
            return True
        self._skip(b",")
        return False

    def _skip(self, sign: bytes) -> None:
        if self.next_byte() != sign:
            raise ValueError(f"no {sign.decode()!r} at byte {self._position}")
        self._position += 1

    def _text(self) -> str:
        """Read a text from its opening to its closing quote, piece by piece."""
        self._position += 1
        pieces: list[str] = []
        while True:
            start = self._position
            piece = _TEXT.match(self._body, start, self._piece_end(start))
            assert piece is not None  # the pattern matches nothing too
            self._position = piece.end()
            # `json` replaces the escapes, and rejects control characters.
            _append(pieces, json.loads('"' + piece[0].decode() + '"'))
            if self._body[self._position : self._position + 1] == b'"':
                self._position += 1
                return "".join(pieces)
            if self._position == start:
                raise ValueError(f"a text that does not go on at byte {start}")

    def _piece_end(self, start: int) -> int:
        """Return where a piece of text ends at the latest: after a whole character of UTF-8."""
        end = start + TEXT_PIECE_BYTES
        if end >= len(self._body):
            return len(self._body)
        while end > start and self._body[end] & 0xC0 == 0x80:
            end -= 1
        return end


def _append(pieces: list[str], piece: str) -> None:
    """Append a piece of a text. A pair of escapes that stands for one character may begin in the piece before."""
    before = pieces[-1][-1:] if pieces else ""
    if "\ud800" <= before <= "\udbff" and "\udc00" <= piece[:1] <= "\udfff":
        pieces[-1] = pieces[-1][:-1]
        pair = (before + piece[0]).encode("utf-16", "surrogatepass").decode("utf-16")
        piece = pair + piece[1:]
    pieces.append(piece)
