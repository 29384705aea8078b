"""Read and write rows as JSON lines or Parquet, depending on the file's suffix, one block of rows at a time.

A row is a mapping of columns to JSON values. Parquet needs pyarrow, which the extra `data` installs.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..records import Row
from ..runtime.text import encode_strictly, printable
from ..storage.files import replace_file, replacing
from ..storage.folders import check_writable, install_command
from ..storage.reading import Malformed, open_regular, read_values

Schema = Any
"""A schema of pyarrow. Its class cannot be named here, because pyarrow may not be installed."""

JSON_LINES = ".jsonl"
PARQUET = ".parquet"
READABLE = (JSON_LINES, f"{JSON_LINES}.gz", PARQUET)
"""Suffixes of files from which `read_rows` can read."""
BLOCK = 100
"""Number of rows that are converted to Python values at a time."""
ROW_GROUP_BYTES = 4 * 2**20
"""Size of a Parquet row group in memory. Smaller row groups make larger files."""


def check_name(path: Path, setting: str) -> None:
    """Raise ConfigError unless the file's suffix is supported for writing."""
    if path.suffix not in (JSON_LINES, PARQUET):
        raise ConfigError(f"the file name must end in {JSON_LINES} or {PARQUET}", setting=setting, got=str(path))
    if path.suffix == PARQUET:
        _pyarrow(setting)


def check_output(path: Path, setting: str) -> None:
    """Raise ConfigError unless a file of rows can be written to this path."""
    check_name(path, setting)
    check_writable(path.absolute().parent, setting)


def read_rows(path: Path, setting: str) -> Iterator[Row | Malformed]:
    """Yield the rows of a file, in order, and a Malformed for each invalid line.

    Raises OSError, or a ConfigError that names the option `setting`.
    """
    if not path.name.endswith(READABLE):
        raise ConfigError(f"the file name must end in {', '.join(READABLE)}", setting=setting, got=str(path))
    if path.suffix == PARQUET:
        with _open_parquet(path, setting) as parquet:
            for batch in parquet.iter_batches(batch_size=BLOCK):
                yield from batch.to_pylist()
        return
    for _, value in read_values(path):
        yield value if isinstance(value, dict | Malformed) else Malformed("the line must be a JSON object")


def write_rows(path: Path, rows: Iterable[Row], types: Mapping[str, str] | Schema) -> None:
    """Write a file of rows. After an error, an old file at the path is unchanged. Raises OSError.

    `types` are the types of Parquet's columns, by name (see `TYPES`), or the return value of `schema_of_rows`. In JSON
    lines, numbers that are not finite become null, and other values unknown to JSON become strings.
    """
    if path.suffix == JSON_LINES:
        replace_file(path, map(_json_line, rows), mode=0o666)
    else:
        _write_parquet(path, rows, arrow_schema(types) if isinstance(types, Mapping) else types)


def _json_line(row: Row) -> bytes:
    return encode_strictly(row, number=lambda number: None).encode("ascii") + b"\n"


def _blocks(rows: Iterable[Row]) -> Iterator[list[Row]]:
    remaining = iter(rows)
    while block := list(islice(remaining, BLOCK)):
        yield block


# ---------------------------------------------------------------------------- Parquet


def _pyarrow(setting: str) -> Any:
    try:
        return importlib.import_module("pyarrow")
    except ModuleNotFoundError as error:
        raise ConfigError(
            "Parquet needs pyarrow",
            setting=setting,
            remedy=f"run `{install_command('data')}`, or use a file name that ends in {JSON_LINES}",
        ) from error


@contextmanager
def _open_parquet(path: Path, setting: str) -> Iterator[Any]:
    """Open a Parquet file. Raises OSError if it cannot be opened, and ConfigError if it turns out to be damaged."""
    arrow = _pyarrow(setting)
    open_regular(path).close()  # raise for a FIFO, on which pyarrow would block
    try:
        with importlib.import_module("pyarrow.parquet").ParquetFile(path) as file:
            yield file
    except (arrow.ArrowException, ValueError, OverflowError, OSError) as error:
        reason = printable(str(error), limit=300)
        raise ConfigError(
            f"{printable(str(path))} is damaged, or not a Parquet file ({reason}); name another file", setting=setting
        ) from error


def arrow_schema(types: Mapping[str, str]) -> Any:
    """Return a pyarrow schema. `types` maps each column to a key of TYPES."""
    arrow = importlib.import_module("pyarrow")
    return arrow.schema([(name, TYPES[kind](arrow)) for name, kind in types.items()])


TYPES: Mapping[str, Callable[[Any], Any]] = {
    "text": lambda arrow: arrow.string(),
    "number": lambda arrow: arrow.float64(),
    "count": lambda arrow: arrow.int64(),
    "texts": lambda arrow: arrow.list_(arrow.string()),
    "numbers": lambda arrow: arrow.list_(arrow.float64()),
    "token_lists": lambda arrow: arrow.list_(arrow.list_(arrow.int32())),
    "messages": lambda arrow: arrow.list_(arrow.struct({"role": arrow.string(), "content": arrow.string()})),
    "rule": lambda arrow: arrow.struct({"style": arrow.string(), "ground_truth": arrow.string()}),
    "place": lambda arrow: arrow.struct({"index": arrow.int64(), "task": arrow.string()}),
}
"""Functions that make a column's type. The argument is the module pyarrow, which is optional."""


MISSING: Mapping[str, object] = {"text": "", "number": -1.0, "count": -1}
"""Replacements for missing values, by the type of the column. A null could give the column another type in a program
that infers types from the first rows."""


def replace_missing(row: Row, types: Mapping[str, str]) -> dict[str, object]:
    """Return a row with each None replaced by the value of MISSING for the column's type."""
    return {name: MISSING[types[name]] if value is None else value for name, value in row.items()}


def _write_parquet(path: Path, rows: Iterable[Row], schema: Schema) -> None:
    arrow = _pyarrow(str(path))
    parquet = importlib.import_module("pyarrow.parquet")
    with replacing(path, mode=0o666) as file, parquet.ParquetWriter(file, schema) as writer:
        held: list[Any] = []
        for block in _blocks(rows):
            held.append(arrow.Table.from_pylist(block, schema=schema))
            if sum(table.nbytes for table in held) >= ROW_GROUP_BYTES:
                writer.write_table(arrow.concat_tables(held))
                held.clear()
        if held:
            writer.write_table(arrow.concat_tables(held))


def schema_of_rows(path: Path, rows: Iterable[Row], like: Sequence[Path] = ()) -> Schema:
    """Return the types of the rows' columns for `write_rows`; None for JSON lines, which need no types.

    The type of a column fits its values in `rows`, and its types in the Parquet files whose paths are in `like`. Raises
    ConfigError if no type fits.
    """
    if path.suffix == JSON_LINES:
        return None
    arrow = _pyarrow(str(path))
    schemas = [arrow.schema([])]
    for file in like:
        with _open_parquet(file, "PATH") as parquet:
            schemas.append(parquet.schema_arrow)
    column = ""
    try:
        schema = arrow.unify_schemas(schemas, promote_options="permissive")
        for block in _blocks(rows):
            for column in dict.fromkeys(name for row in block for name in row):
                found = arrow.schema([(column, arrow.array([row.get(column) for row in block]).type)])
                schema = arrow.unify_schemas([schema, found], promote_options="permissive")
    except (arrow.ArrowException, OverflowError) as error:
        reason = f"{column}: {error}".splitlines()[0]
        raise ConfigError(
            f"a Parquet column cannot have values of several types ({reason})",
            setting="--out",
            got=str(path),
            remedy=f"use a file name that ends in {JSON_LINES}",
        ) from error
    return schema


def with_columns(schema: Schema, added: Mapping[str, str]) -> Schema:
    """Append columns to a Parquet schema. An added column replaces a column of the schema with the same name."""
    arrow = importlib.import_module("pyarrow")
    return arrow.schema([*(field for field in schema if field.name not in added), *arrow_schema(added)])
