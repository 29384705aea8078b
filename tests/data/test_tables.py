"""Damaged and hostile Parquet files raise one-line errors and do not hang."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from reasoning_env import ConfigError
from reasoning_env.data.tables import read_rows, write_rows


def parquet(path: Path, values: Any) -> Path:
    pyarrow.parquet.write_table(pyarrow.table({"index": range(len(values)), "value": values}), path)
    return path


def no_utf8() -> Any:
    texts = pyarrow.array([b"first", b"\xff", b"last"], pyarrow.binary())
    return pyarrow.Array.from_buffers(pyarrow.string(), len(texts), texts.buffers())


def nested() -> Any:
    values = pyarrow.array([1])
    for _ in range(60):
        values = pyarrow.ListArray.from_arrays([0, 1], values)
    return values


BAD_VALUES: dict[str, Callable[[], Any]] = {
    "no UTF-8": no_utf8,
    "late time": lambda: pyarrow.array([0, 2**62, 0], pyarrow.timestamp("us")),
    "late day": lambda: pyarrow.array([0, 2**30, 0], pyarrow.int32()).cast(pyarrow.date32()),
    "deep schema": nested,
}
DAMAGED = r"PATH: .*a\.parquet is damaged, or not a Parquet file \("


@pytest.mark.parametrize("kind", BAD_VALUES)
def test_unreadable_parquet_value_raises(tmp_path: Path, kind: str) -> None:
    path = parquet(tmp_path / "a.parquet", BAD_VALUES[kind]())
    with pytest.raises(ConfigError, match=DAMAGED):
        list(read_rows(path, "PATH"))


def test_damaged_parquet_page_raises(tmp_path: Path) -> None:
    path = parquet(tmp_path / "a.parquet", ["some text " * 100 + str(number) for number in range(50)])
    raw = bytearray(path.read_bytes())
    raw[60:300] = bytes(240)
    path.write_bytes(raw)
    with pytest.raises(ConfigError, match=DAMAGED):
        list(read_rows(path, "PATH"))


def test_failed_write_keeps_the_old_parquet_file(tmp_path: Path) -> None:
    path = parquet(tmp_path / "a.parquet", ["old"])
    before = path.read_bytes()

    def rows() -> Iterator[dict[str, object]]:
        yield {"a": "new"}
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match="No space left"):
        write_rows(path, rows(), {"a": "text"})
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (before, [path])
