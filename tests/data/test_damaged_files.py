"""Damaged and hostile files of Parquet and of calls under way: bad rows are told, others are read, nothing hangs."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from reasoning_env import ConfigError
from reasoning_env.data.store import RowStore, StoreError, unfinished_path
from reasoning_env.data.tables import Malformed, Row, read_rows, write_rows
from tests.broken_files import NO_FILES, no_hang

# ---------------------------------------------------------------------------- Parquet


def parquet(path: Path, values: Any) -> Path:
    pyarrow.parquet.write_table(pyarrow.table({"index": range(len(values)), "value": values}), path)
    return path


def no_utf8() -> Any:
    texts = pyarrow.array([b"first", b"\xff", b"last"], pyarrow.binary())
    return pyarrow.Array.from_buffers(pyarrow.string(), len(texts), texts.buffers())


BAD_VALUES: dict[str, Callable[[], Any]] = {
    "no UTF-8": no_utf8,
    "late time": lambda: pyarrow.array([0, 2**62, 0], pyarrow.timestamp("us")),
    "late day": lambda: pyarrow.array([0, 2**30, 0], pyarrow.int32()).cast(pyarrow.date32()),
}


@pytest.mark.parametrize("kind", BAD_VALUES)
def test_bad_value_costs_its_row(tmp_path: Path, kind: str) -> None:
    path = parquet(tmp_path / "a.parquet", BAD_VALUES[kind]())
    first, bad, last = read_rows(path, "PATH")
    assert isinstance(bad, Malformed)
    assert [row["index"] for row in (first, last) if not isinstance(row, Malformed)] == [0, 2]


def test_damaged_pages(tmp_path: Path) -> None:
    path = parquet(tmp_path / "a.parquet", ["some text " * 100 + str(number) for number in range(50)])
    raw = bytearray(path.read_bytes())
    raw[60:300] = bytes(240)
    path.write_bytes(raw)
    with pytest.raises(ConfigError, match=r"PATH: .* is damaged \("):
        list(read_rows(path, "PATH"))


def test_deep_schema_is_no_parquet(tmp_path: Path) -> None:
    nested = pyarrow.array([1])
    for _ in range(60):
        nested = pyarrow.ListArray.from_arrays([0, 1], nested)
    with pytest.raises(ConfigError, match="no file of Parquet"):
        list(read_rows(parquet(tmp_path / "a.parquet", nested), "PATH"))


@pytest.mark.parametrize("kind", ["FIFO", "device", "link to itself", "link to nothing", "binary file"])
def test_something_in_the_way_of_parquet(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    NO_FILES[kind](tmp_path / "a.parquet.writing")
    with no_hang():
        write_rows(tmp_path / "a.parquet", lambda: [{"a": "b"}], {"a": "text"})
        assert list(read_rows(tmp_path / "a.parquet", "PATH")) == [{"a": "b"}]
    assert not (tmp_path / "nothing").exists()


# ---------------------------------------------------------------------------- the file of a call under way

MADE_WITH = {"seed": 1}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """An output whose call ended early, with two rows."""
    out = tmp_path / "out.jsonl"
    store = RowStore(out, MADE_WITH)
    store.add(1, {"a": 1})
    store.add(2, {"a": 2})
    store.close()
    return out


def change(out: Path, line: str) -> None:
    with sqlite3.connect(unfinished_path(out)) as database:
        database.execute(line)
    database.close()


@pytest.mark.parametrize("text", ["{", "[1]", "{'a': 1}", "[" * 100_000])
def test_row_that_no_call_wrote(out: Path, text: str) -> None:
    change(out, f'UPDATE rows SET row = "{text}" WHERE position = 2')
    store = RowStore(out, MADE_WITH)
    with pytest.raises(StoreError, match=r"out.jsonl.unfinished cannot be used \("):
        list(store.rows())
    store.close()


def test_table_that_no_call_made(out: Path) -> None:
    change(out, "ALTER TABLE rows RENAME COLUMN position TO place")
    store = RowStore(out, MADE_WITH)
    for use in (lambda: store.has(1), lambda: list(store.rows())):
        with pytest.raises(StoreError, match="cannot be used"):
            use()
    store.close()


def test_progress_that_no_call_wrote(out: Path) -> None:
    change(out, "UPDATE progress SET value = 'nonsense'")
    with pytest.raises(ConfigError, match=r"--out: .* cannot be used"):
        RowStore(out, MADE_WITH)


def test_call_without_rows_blocks_no_other(tmp_path: Path) -> None:
    for number in (1, 2):
        RowStore(tmp_path / "b.jsonl", {"number": number}).close()
    store = RowStore(tmp_path / "b.jsonl", {"number": 3})
    store.add(1, {})
    store.close()
    with pytest.raises(ConfigError, match="other settings"):
        RowStore(tmp_path / "b.jsonl", {"number": 4})


def test_damaged_store(out: Path) -> None:
    raw = bytearray(unfinished_path(out).read_bytes())
    raw[100:] = bytes(len(raw) - 100)
    unfinished_path(out).write_bytes(raw)
    with pytest.raises(ConfigError, match=r"--out: .* cannot be used"):
        RowStore(out, MADE_WITH)


def test_full_disk(out: Path) -> None:
    store = RowStore(out, MADE_WITH)
    row: Row = {"a": "x" * 100_000}
    store._execute("PRAGMA max_page_count = 20")
    with pytest.raises(StoreError, match=r"database or disk is full.*; free space"):
        for position in range(3, 10):
            store.add(position, row)
    store.close()
    store = RowStore(out, MADE_WITH)
    assert dict(store.rows())[2] == {"a": 2}
    store.close()
