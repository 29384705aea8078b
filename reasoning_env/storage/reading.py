"""Read possibly incomplete or invalid files from other programs.

Only regular files are read, because a FIFO or a device may never end. The types of `values.py` check the content.
"""

from __future__ import annotations

import codecs
import errno
import gzip
import json
import os
import stat
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

from .values import describe

MAX_BYTES = 256 * 2**20
"""Limit for the length of a line and of a JSON file. A group of 64 completions of 32,000 tokens is a line of 80 MB."""
FILE_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def require_regular(path: Path) -> None:
    """Raise OSError unless the path is a regular file, or a link to one. A folder raises IsADirectoryError."""
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        kind = FILE_KINDS.get(stat.S_IFMT(mode), "of an unknown kind")
        raise OSError(errno.EINVAL, f"the path is {kind}, not a regular file", str(path))


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading. Raises OSError for any other kind of file, and if the file cannot be opened."""
    require_regular(path)
    return path.open("rb")


@dataclass(frozen=True)
class Malformed:
    """Stands for a line that cannot be parsed, or for the rest of a damaged file. `problem` says what is wrong.

    `torn` is True for a last line that was only partly written.
    """

    problem: str
    torn: bool = False


def read_values(path: Path) -> Iterator[tuple[int, object]]:
    """Yield each JSON value of a file of lines (plain or gzip), with the number of its line, from 1.

    Yield a Malformed for a line that cannot be parsed. Skip blank lines. Raises OSError for a file that cannot be read
    or is not a regular file.
    """
    with ExitStack() as stack:
        # Binary mode, because text mode also ends lines at a lone carriage return.
        file: BufferedReader | gzip.GzipFile = stack.enter_context(open_regular(path))
        if path.suffix == ".gz":
            file = stack.enter_context(gzip.open(file, "rb"))
        number = 0
        try:
            for number, line in enumerate(_lines(file), 1):
                if line is None:
                    yield number, Malformed(f"the line has more than {MAX_BYTES // 2**20} MiB")
                elif not line.isspace():
                    for value in _read_line(line, is_last=not file.peek(1)):
                        yield number, value
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            yield number + 1, Malformed(f"damaged gzip data ({error})")


def _lines(file: BufferedReader | gzip.GzipFile) -> Iterator[bytes | None]:
    """Yield each line with its newline; None for a line of more than `MAX_BYTES`."""
    while line := file.readline(MAX_BYTES):
        if len(line) < MAX_BYTES or line.endswith(b"\n"):
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(MAX_BYTES)
        yield None


def _read_line(line: bytes, *, is_last: bool) -> Sequence[object]:
    try:
        return parse_line(line)
    except NotJsonLinesError as error:
        return [Malformed(describe(error))]
    except ValueError as error:
        if is_last and (not line.endswith(b"\n") or b"\0" in line):
            return [Malformed("the last line is incomplete", torn=True)]
        return [Malformed(describe(error))]


def read_json(path: Path) -> Any:
    """Return the JSON value of a regular file.

    Raises:
        OSError: The file cannot be read.
        ValueError: The content is not JSON, is too long, or is nested too deeply.
    """
    with open_regular(path) as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"has more than {MAX_BYTES // 2**20} MiB")
    return parse_json(content)


def parse_json(content: bytes) -> object:
    """Parse a JSON value. A byte order mark before the value is skipped.

    Raises ValueError for content that is not JSON in UTF-8, or that is nested too deeply.
    """
    # Not pydantic's JSON parser: it rejects lone surrogates, which a model's text may contain.
    try:
        return json.loads(_text(content))
    except RecursionError as error:
        raise ValueError("is nested too deeply") from error


class NotJsonLinesError(ValueError):
    """The file is not in the JSON Lines format."""


def parse_line(line: bytes) -> list[object]:
    """Return the JSON values of a line. There are several if files were joined without a newline between them.

    Raises the errors of `parse_json`, and NotJsonLinesError if the line shows that the file is not JSON Lines.
    """
    text = _text(line).strip()
    values: list[object] = []
    try:
        while text:
            value, end = _DECODER.raw_decode(text)
            values.append(value)
            text = text[end:].lstrip()
    except (json.JSONDecodeError, RecursionError) as error:
        if text.startswith("[") and not values:
            raise NotJsonLinesError(ARRAY_HINT) from error
        if isinstance(error, RecursionError):
            raise ValueError("is nested too deeply") from error
        raise
    if isinstance(values[0], list):
        raise NotJsonLinesError(ARRAY_HINT)
    return values


_DECODER = json.JSONDecoder()
ARRAY_HINT = "a JSON array begins here, but each line must be an object (`jq -c '.[]' FILE` writes such lines)"
BINARY_HINTS = {
    b"PAR1": "this is a Parquet file; pass the .jsonl file of the same groups instead, or, for `rescore`, give this "
    "file a name that ends in .parquet",
    b"PK\x03\x04": "this is a zip archive; unpack it first (`unzip FILE`; for a log of Inspect AI: "
    "`inspect log dump FILE`)",
    b"\x1f\x8b": "this is a gzip file; give it a name that ends in .gz",
    b"\x28\xb5\x2f\xfd": "this is a zstd file; unpack it first (`zstd -d FILE`)",
}
"""Hints for files that are not JSON Lines, by the first bytes of the file."""


def _text(content: bytes) -> str:
    for first_bytes, advice in BINARY_HINTS.items():
        if content.startswith(first_bytes):
            raise NotJsonLinesError(advice)
    if hint := wide_text_hint(content):
        raise NotJsonLinesError(hint)
    return content.decode("utf-8-sig")


def wide_text_hint(content: bytes) -> str | None:
    """Return a hint for a file in UTF-16 or UTF-32 whose first character is ASCII; None for any other content."""
    # In UTF-16, one of the two bytes of an ASCII character is zero. After a power failure, both bytes may be zero.
    if content[:4] in (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE) or content[:4].count(0) == 3:
        name = "UTF-32"
    elif content[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) or content[:2].count(0) == 1:
        name = "UTF-16"
    else:
        return None
    return f"the text is {name}, but must be UTF-8 (`iconv -f {name} -t UTF-8 FILE` converts it)"
