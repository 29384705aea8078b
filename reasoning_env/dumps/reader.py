"""Read groups back from files, one at a time, so that memory does not grow with the files.

Three kinds of files hold groups: dumps, the file of `process`, and `samples.jsonl` of an evaluation.
"""

from __future__ import annotations

import gzip
import json
import logging
import zlib
from collections.abc import Callable, Iterator
from io import BufferedReader
from itertools import chain
from pathlib import Path

from pydantic import ValidationError

from ..errors import ReasoningEnvError
from .format import DumpedGroup, DumpedRollout, is_torn, read_group

__all__ = ["DumpFormatError", "DumpedGroup", "DumpedRollout", "list_files", "read_group", "stream_groups"]

logger = logging.getLogger(__name__)


class DumpFormatError(ReasoningEnvError):
    """A line is not a group. The message names the file, the line (counted from 1) and the problem."""

    def __init__(self, path: Path, line: int, problem: str) -> None:
        super().__init__(
            problem,
            setting=f"{path}, line {line}",
            remedy="mend the file, or read with strict=False to skip the damage",
        )
        self.path = path
        self.line = line


OnDamage = Callable[[DumpFormatError], None]


def _warn(error: DumpFormatError) -> None:
    logger.warning("skipped: %s", error)


def stream_groups(path: Path | str, *, strict: bool = True, on_damage: OnDamage = _warn) -> Iterator[DumpedGroup]:
    """Return the groups of a file, or of a folder's `.jsonl` and `.jsonl.gz` files in name order.

    Blank lines are passed over, and a torn last line is skipped. With `strict=False`, other malformed lines are skipped
    too, as is the rest of a damaged `.gz` file. `on_damage` is called for each line or file that is skipped.

    Raises OSError when the path cannot be read.
    Raises DumpFormatError at a malformed line or a damaged `.gz` file, unless `strict=False`.
    """
    return chain.from_iterable(_read_file(file, strict, on_damage) for file in list_files(Path(path)))


def list_files(path: Path) -> list[Path]:
    """Return the files that `stream_groups` reads. Raises OSError when the path cannot be read."""
    if path.is_dir():
        return sorted(file for file in path.iterdir() if file.name.endswith((".jsonl", ".jsonl.gz")))
    path.stat()  # raises at the call, not at the first group
    return [path]


def _read_file(path: Path, strict: bool, on_damage: OnDamage) -> Iterator[DumpedGroup]:
    def skip(error: DumpFormatError) -> None:
        if strict:
            raise error
        on_damage(error)

    number = 0
    try:
        with _open(path) as lines:
            for number, line in enumerate(lines, 1):
                if line.isspace():
                    continue
                try:
                    group = read_group(line)
                except (ValueError, RecursionError) as error:
                    if is_torn(line) and not lines.peek(1):
                        on_damage(DumpFormatError(path, number, "the last line is torn"))
                    else:
                        skip(DumpFormatError(path, number, _describe(error)))
                else:
                    yield group
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        skip(DumpFormatError(path, number + 1, f"damaged gzip data ({error})"))


def _open(path: Path) -> BufferedReader | gzip.GzipFile:
    # In bytes: text mode would also end lines at a lone carriage return.
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


def _describe(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc'])) or 'the line'}: {first['msg']}"
    if isinstance(error, json.JSONDecodeError):
        # The decoder's message names line 1 of its text, which would stand beside the line number of the file.
        return f"not JSON ({error.msg} at character {error.pos} of {len(error.doc)})"
    return str(error)
