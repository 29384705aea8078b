"""Read and write rows as JSON lines or as Parquet, by the end of the file's name. Memory holds one block of rows.

A row is a mapping of columns to JSON values. Parquet needs pyarrow, the extra `data`.
"""

from __future__ import annotations

import gzip
import importlib
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..records import Row
from ..runtime.text import visible
from ..storage.files import replace_file
from ..storage.folders import check_writable
from ..storage.reading import describe, open_lines, open_regular, parse_json, read_lines

Schema = Any
"""A schema of pyarrow, which may not be installed."""

JSON_LINES = ".jsonl"
PARQUET = ".parquet"
READABLE = (JSON_LINES, f"{JSON_LINES}.gz", PARQUET)
"""Ends of the names of files that are read."""
BLOCK = 100
"""Rows that are held as Python values at a time. With eight completions of 8 kB a row, writing took 308 MB of memory at
100 rows, 391 MB at 300 and 533 MB at 1,000, in the same time."""
ROW_GROUP_BYTES = 4 * 2**20
"""A row group of Parquet in memory. A file of problems was 2 % larger at 1 MiB, and no smaller at 16 or 64 MiB."""


def check_name(path: Path, setting: str) -> None:
    """Raise ConfigError unless rows can be written to a file of this name."""
    if path.suffix not in (JSON_LINES, PARQUET):
        raise ConfigError(f"must end in {JSON_LINES} or {PARQUET}", setting=setting, got=str(path))
    if path.suffix == PARQUET:
        _pyarrow(setting)


def check_output(path: Path, setting: str) -> None:
    """Raise ConfigError unless a file of rows of this name can be made."""
    check_name(path, setting)
    check_writable(path.absolute().parent, setting)


@dataclass(frozen=True)
class Malformed:
    """A line that is no row, and why."""

    problem: str


def read_rows(path: Path, setting: str) -> Iterator[Row | Malformed]:
    """Yield the rows of a file, in order, with a Malformed for each line that is none. Raises ConfigError and OSError.

    `setting` names the file in an error.
    """
    if not path.name.endswith(READABLE):
        raise ConfigError(f"must end in {', '.join(READABLE)}", setting=setting, got=str(path))
    if path.suffix == PARQUET:
        yield from _read_parquet(path, setting)
        return
    with open_lines(path) as file:
        try:
            for line in read_lines(file):
                if line is None:
                    yield Malformed("the line is too long")
                elif not line.isspace():
                    yield _read_line(line)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            yield Malformed(f"damaged gzip data ({error})")


def _read_line(line: bytes) -> Row | Malformed:
    try:
        row = parse_json(line)
    except ValueError as error:
        return Malformed(describe(error))
    return row if isinstance(row, dict) else Malformed("the line is no JSON object")


def columns(path: Path, setting: str) -> frozenset[str]:
    """Return the columns of a file: of Parquet all, of JSON lines the first row's. Raises what `read_rows` raises."""
    if path.suffix == PARQUET:
        with open_regular(path):
            pass
        return frozenset(_parquet(path, setting).schema_arrow.names)
    rows = (row for row in read_rows(path, setting) if not isinstance(row, Malformed))
    return frozenset(next(rows, {}))


def write_rows(path: Path, rows: Callable[[], Iterable[Row]], types: Mapping[str, str] | Schema | None = None) -> None:
    """Write a file whole or not at all. Raises OSError.

    `rows` begins the rows anew at each call. `types` are the types of Parquet's columns, by name (see `_types`), or
    what `schema_of_rows` returns. Without them, the rows are read twice: first for the types. JSON lines hold
    values that JSON lacks as text.
    """
    if path.suffix == JSON_LINES:
        replace_file(path, (_line(row) for row in rows()), mode=0o666)
        return
    schema = schema_of_rows(path, rows()) if types is None else types
    _write_parquet(path, rows, arrow_schema(schema) if isinstance(schema, Mapping) else schema)


def _blocks(rows: Iterable[Row]) -> Iterator[list[Row]]:
    remaining = iter(rows)
    while block := list(islice(remaining, BLOCK)):
        yield block


def _line(row: Row) -> bytes:
    return json.dumps(row, default=str).encode("ascii") + b"\n"


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
    """Return an open file of Parquet. Raises ConfigError for other content."""
    arrow = _pyarrow(setting)
    reader = importlib.import_module("pyarrow.parquet")
    try:
        return reader.ParquetFile(path)
    except (arrow.ArrowException, OSError) as error:
        raise ConfigError(f"{visible(str(path))} is no file of Parquet", setting=setting) from error


def _read_parquet(path: Path, setting: str) -> Iterator[Row | Malformed]:
    arrow = _pyarrow(setting)
    with open_regular(path):  # pyarrow would wait for a FIFO
        pass
    batches = _parquet(path, setting).iter_batches(batch_size=BLOCK)
    while True:
        try:
            batch = next(batches, None)
        except (arrow.ArrowException, OSError) as error:
            reason = visible(str(error), limit=300)
            raise ConfigError(f"{visible(str(path))} is damaged ({reason})", setting=setting) from error
        if batch is None:
            return
        yield from _rows_of_batch(arrow, batch)


def _rows_of_batch(arrow: Any, batch: Any) -> Sequence[Row | Malformed]:
    """Return the rows of a block. A row with invalid UTF-8, or a time that Python cannot hold, is Malformed."""
    try:
        rows: list[Row | Malformed] = batch.to_pylist()
    except (ValueError, OverflowError, arrow.ArrowException) as error:
        if batch.num_rows == 1:
            return [Malformed(visible(str(error), limit=300))]
        one_by_one = (batch.slice(number, 1) for number in range(batch.num_rows))
        return [row for single in one_by_one for row in _rows_of_batch(arrow, single)]
    return rows


def arrow_schema(types: Mapping[str, str]) -> Any:
    """Return the schema of columns with these types, by name: see `_types`."""
    arrow = importlib.import_module("pyarrow")
    named = _types(arrow)
    return arrow.schema([(name, named[kind]) for name, kind in types.items()])


def _types(arrow: Any) -> dict[str, Any]:
    message = arrow.struct([("role", arrow.string()), ("content", arrow.string())])
    return {
        "text": arrow.string(),
        "number": arrow.float64(),
        "count": arrow.int64(),
        "texts": arrow.list_(arrow.string()),
        "numbers": arrow.list_(arrow.float64()),
        "tokens": arrow.list_(arrow.int32()),
        "token_lists": arrow.list_(arrow.list_(arrow.int32())),
        "messages": arrow.list_(message),
        "rule": arrow.struct([("style", arrow.string()), ("ground_truth", arrow.string())]),
        "place": arrow.struct([("index", arrow.int64()), ("task", arrow.string())]),
    }


def _write_parquet(path: Path, rows: Callable[[], Iterable[Row]], schema: Schema) -> None:
    arrow = _pyarrow(str(path))
    parquet = importlib.import_module("pyarrow.parquet")
    part = path.with_name(f"{path.name}.writing")
    part.unlink(missing_ok=True)  # pyarrow would wait for a FIFO, and write where a link leads
    try:
        with parquet.ParquetWriter(part, schema) as writer:
            for table in _row_groups(arrow, rows(), schema):
                writer.write_table(table)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _row_groups(arrow: Any, rows: Iterable[Row], schema: Any) -> Iterator[Any]:
    """Yield tables of about ROW_GROUP_BYTES."""
    held: list[Any] = []
    for block in _blocks(rows):
        held.append(arrow.Table.from_pylist(block, schema=schema))
        if sum(table.nbytes for table in held) >= ROW_GROUP_BYTES:
            yield arrow.concat_tables(held)
            held.clear()
    if held:
        yield arrow.concat_tables(held)


def schema_of_rows(
    path: Path, rows: Iterable[Row], like: Sequence[Path] = (), added: Mapping[str, str] | None = None
) -> Schema:
    """Return the types of the columns of rows for `write_rows`; None for JSON lines, which need none.

    A column has a type that holds all its values, and the values of the column in files `like`, which are Parquet.
    `added` are columns, each with its type (see `_types`), whatever the rows have.

    Raises ConfigError for a column with values of several types.
    """
    if path.suffix == JSON_LINES:
        return None
    arrow = _pyarrow(str(path))
    known = [_parquet(file, "PATH").schema_arrow for file in like]
    schema = arrow.schema([])
    try:
        types = {
            field.name: field.type for field in arrow.unify_schemas([schema, *known], promote_options="permissive")
        }
        schema = arrow.schema(types.items())
        for block in _blocks(rows):
            names = dict.fromkeys(name for row in block for name in row)
            found = arrow.schema([(name, _column_type(arrow, name, block, types.get(name))) for name in names])
            schema = arrow.unify_schemas([schema, found], promote_options="permissive")
    except arrow.ArrowException as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(
            f"the rows' columns have values of several types ({reason})",
            setting="--out",
            got=str(path),
            remedy=f"write to a file that ends in {JSON_LINES}",
        ) from error
    return with_columns(schema, added or {})


def _column_type(arrow: Any, name: str, block: Sequence[Row], known: Any) -> Any:
    """Return the type of a column of a block. Raises ArrowException with the column's name."""
    try:
        return arrow.array([row.get(name) for row in block], known).type
    except (arrow.ArrowException, OverflowError) as error:
        raise arrow.ArrowInvalid(f"{name}: {error}") from error


def with_columns(schema: Schema, added: Mapping[str, str]) -> Schema:
    """Return a schema of Parquet with the added columns at its end, in place of columns with the same names."""
    arrow = importlib.import_module("pyarrow")
    return arrow.schema([*(field for field in schema if field.name not in added), *arrow_schema(added)])
