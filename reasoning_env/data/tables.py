"""Read and write rows as JSON lines or as Parquet, by the end of the file's name. Memory holds one block of rows.

A row is a mapping of columns to JSON values. Parquet needs pyarrow, the extra `data`.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..runtime.text import visible
from ..storage.files import replace_file
from ..storage.reading import describe, open_regular, parse_json, read_lines

Row = Mapping[str, Any]

JSON_LINES = ".jsonl"
PARQUET = ".parquet"
BLOCK = 1_000
"""Rows of a row group of Parquet. Rows with prompts have some kilobytes, so a block has some megabytes."""


def check_name(path: Path, setting: str) -> None:
    """Raise ConfigError unless rows can be written to a file of this name."""
    if path.suffix not in (JSON_LINES, PARQUET):
        raise ConfigError(f"must end in {JSON_LINES} or {PARQUET}", setting=setting, got=str(path))
    if path.suffix == PARQUET:
        _pyarrow(setting)


def read_rows(path: Path, setting: str) -> Iterator[Row]:
    """Yield the rows of a file. Raises ConfigError, which names the line, for what is no row, and OSError."""
    check_name(path, setting)
    if path.suffix == PARQUET:
        yield from _read_parquet(path, setting)
        return
    with open_regular(path) as file:
        for number, line in enumerate(read_lines(file), 1):
            if line is not None and line.isspace():
                continue
            try:
                row = parse_json(line) if line is not None else None
            except ValueError as error:
                raise _no_row(path, number, describe(error), setting) from error
            if not isinstance(row, dict):
                raise _no_row(path, number, "the line is no JSON object, or too long", setting)
            yield row


def columns(path: Path, setting: str) -> frozenset[str]:
    """Return the columns of a file: of Parquet all, of JSON lines the first row's. Raises what `read_rows` raises."""
    if path.suffix == PARQUET:
        check_name(path, setting)
        with open_regular(path):
            pass
        return frozenset(_parquet(path, setting).schema_arrow.names)
    return frozenset(next(iter(read_rows(path, setting)), {}))


def write_rows(path: Path, rows: Iterable[Row], types: Mapping[str, str] | None = None) -> None:
    """Write a file whole or not at all. Raises OSError.

    `types` are the types of Parquet's columns, by name: see TYPES. Without them pyarrow takes the types from the rows:
    the first block decides which columns there are.
    """
    if path.suffix == JSON_LINES:
        replace_file(path, (_line(row) for row in rows), mode=0o666)
    else:
        _write_parquet(path, rows, types)


def _blocks(rows: Iterable[Row]) -> Iterator[list[Row]]:
    remaining = iter(rows)
    while block := list(islice(remaining, BLOCK)):
        yield block


def _line(row: Row) -> bytes:
    return json.dumps(row).encode("ascii") + b"\n"


def _no_row(path: Path, number: int, problem: str, setting: str) -> ConfigError:
    return ConfigError(f"{visible(str(path))}, line {number}: {problem}", setting=setting)


# ---------------------------------------------------------------------------- Parquet


def _pyarrow(setting: str) -> Any:
    try:
        return importlib.import_module("pyarrow")
    except ModuleNotFoundError as error:
        raise ConfigError(
            "Parquet needs pyarrow",
            setting=setting,
            remedy=f"pip install 'reasoning-gym-environment[data]', or write to a file that ends in {JSON_LINES}",
        ) from error


def _parquet(path: Path, setting: str) -> Any:
    """Return an open file of Parquet. Raises ConfigError for other content, and OSError."""
    arrow = _pyarrow(setting)
    reader = importlib.import_module("pyarrow.parquet")
    try:
        return reader.ParquetFile(path)
    except arrow.ArrowException as error:
        raise ConfigError(f"{visible(str(path))} is no file of Parquet", setting=setting) from error


def _read_parquet(path: Path, setting: str) -> Iterator[Row]:
    with open_regular(path):  # pyarrow would wait for a FIFO
        pass
    for batch in _parquet(path, setting).iter_batches(batch_size=BLOCK):
        yield from batch.to_pylist()


def _types(arrow: Any) -> dict[str, Any]:
    message = arrow.struct([("role", arrow.string()), ("content", arrow.string())])
    return {
        "text": arrow.string(),
        "number": arrow.float64(),
        "count": arrow.int64(),
        "texts": arrow.list_(arrow.string()),
        "numbers": arrow.list_(arrow.float64()),
        "tokens": arrow.list_(arrow.int32()),
        "messages": arrow.list_(message),
    }


def _write_parquet(path: Path, rows: Iterable[Row], types: Mapping[str, str] | None) -> None:
    arrow = _pyarrow(str(path))
    parquet = importlib.import_module("pyarrow.parquet")
    named = _types(arrow)
    schema = None if types is None else arrow.schema([(name, named[kind]) for name, kind in types.items()])
    part = path.with_name(f"{path.name}.writing")
    writer = None
    try:
        for block in _blocks(rows):
            table = arrow.Table.from_pylist(block, schema=schema)
            schema = table.schema
            writer = writer or parquet.ParquetWriter(part, schema)
            writer.write_table(table)
        writer = writer or parquet.ParquetWriter(part, schema or arrow.schema([]))
        writer.close()
        part.replace(path)
    except BaseException:
        if writer is not None:
            writer.close()
        part.unlink(missing_ok=True)
        raise
