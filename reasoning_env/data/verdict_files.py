"""Judge the completions of a file's rows, and write the rows with their scores.

The rows are those that `verdicts.py` judges. Lines of our own dumps, process files and evaluations count as rows too.
The rows stay in their order; whatever the size of the files, memory holds twice as many rows as there are workers.

Several calls, also on several machines, may share the rows: part K of N has the rows K, K + N, K + 2 N ...
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from ..dumps.chat import chat_paths
from ..dumps.format import read_group
from ..errors import ConfigError
from ..records import Row
from ..runtime.concurrency import do_as_they_come
from ..session import Session
from ..settings import fingerprint
from ..storage.keyed_file import header_path
from ..storage.reading import describe, require_regular
from .store import RowStore, finished_card, write_card
from .tables import (
    PARQUET,
    READABLE,
    Malformed,
    Schema,
    check_output,
    columns,
    read_rows,
    schema_of_rows,
    with_columns,
    write_rows,
)
from .verdicts import (
    ADDED,
    SEVERAL,
    SINGLE,
    JudgeRequest,
    added_columns,
    at_once,
    judge_row,
    kind_of,
    left_out_row,
    read_row,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PassRates:
    """The pass rates, from `low` to `high`, of rows that are kept. A row without a pass rate is not."""

    low: float
    high: float

    def contains(self, rate: float | None) -> bool:
        return rate is not None and self.low <= rate <= self.high


@dataclass(frozen=True)
class Shard:
    """Part `part`, from 1 to `parts`, of the rows."""

    part: int = 1
    parts: int = 1

    def contains(self, number: int) -> bool:
        """Tell whether the part has a row, by the row's number from 1."""
        return (number - self.part) % self.parts == 0


@dataclass(frozen=True)
class NumberedRow:
    """A row with its number among the rows of all files, and its number in its file, both from 1."""

    number: int
    file: Path
    number_in_file: int
    row: Row | Malformed


async def judge_rows(
    session: Session[Any],
    paths: Sequence[Path],
    out: Path,
    *,
    keep: PassRates | None = None,
    shard: Shard = Shard(),
    command: str = "",
    on_row: Callable[[], object] = lambda: None,
) -> Mapping[str, Any]:
    """Judge the rows of files, write them with their scores, and return the card. Starts and closes the session.

    A folder stands for its files of rows: see `row_files`. A killed call goes on. `on_row` is called after each row.
    The card has `rows`, `judged`, `left_out` with count and first row by reason, `without_score` (rows that a fault of
    ours left without), and `outside`, the rows whose pass rate is not kept.

    Raises ConfigError for files that cannot be used: without the columns, or of other settings.
    """
    check_output(out, "--out")
    files = row_files(paths, out)
    _check_columns(files)
    made_with = _made_with(session, files, keep, shard)
    finished = finished_card(out, made_with)
    if finished is not None:
        return finished
    schema = _schema(out, files)
    store = RowStore(out, made_with)
    try:
        async with session:
            await do_as_they_come(
                _Judging(session, store, on_row).judge, _missing_rows(files, shard, store), at_once=at_once(session)
            )
        card = {"command": command, **_count(store, keep), "made_with": made_with}
        write_card(out, card)
        write_rows(out, lambda: _joined(files, shard, store, keep), schema)
    except BaseException:
        store.close()
        raise
    store.remove()
    return card


def row_files(paths: Sequence[Path], out: Path) -> list[Path]:
    """Return the files of rows that paths stand for, each once.

    A folder stands for its files of rows, in the order of their names. Left out are `out`, and what `process` writes
    beside its lines: chat data, and the same groups as Parquet.

    Raises ConfigError for a path that cannot be read, and for a folder without files of rows.
    """
    files: dict[str, Path] = {}
    for path in paths:
        try:
            found = _files_of_folder(path) if path.is_dir() else [path]
            for file in found:
                require_regular(file)
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {describe(error)}", setting="PATH") from error
        others = {os.path.realpath(file): file for file in found if os.path.realpath(file) != os.path.realpath(out)}
        if not others and found:
            raise ConfigError(f"{path} is the output too", setting="--out", remedy="name another file")
        if not others:
            raise ConfigError(f"{path} holds no file of rows: none ends in {', '.join(READABLE)}", setting="PATH")
        files |= others
    return list(files.values())


def _files_of_folder(folder: Path) -> list[Path]:
    files = sorted(file for file in folder.iterdir() if file.name.endswith(READABLE))
    processed = [file for file in files if header_path(file).exists()]
    beside = {other for file in processed for other in (file.with_suffix(PARQUET), *chat_paths(file))}
    return [file for file in files if file not in beside]


def _check_columns(files: Sequence[Path]) -> None:
    """Raise ConfigError unless the files' rows have a reference, and either column of completions."""
    by_file = {file: columns(file, "PATH") for file in files}
    for file, found in by_file.items():
        if "rollouts" in found or (not found and any(by_file.values())):  # a file without rows, beside others
            continue
        if not found:
            raise ConfigError(f"{file} holds no row", setting="PATH")
        if "reference" not in found:
            raise ConfigError(f"{file} has no column `reference`", setting="PATH")
        if (SINGLE in found) == (SEVERAL in found):
            which = "both columns" if SINGLE in found else "neither of the columns"
            raise ConfigError(f"{file} has {which} `{SINGLE}` and `{SEVERAL}`; it must have one", setting="PATH")


def _schema(out: Path, files: Sequence[Path]) -> Schema:
    """Return the types of the output's columns, before any work; None for JSON lines.

    The types are the same for all parts of the files. Rows that no session can judge are ignored.

    Raises ConfigError for a column with values of several types.
    """
    if out.suffix != PARQUET:
        return None
    found = {file: columns(file, "PATH") for file in files}
    typed = [file for file in files if file.suffix == PARQUET and "rollouts" not in found[file]]
    kinds = {kind for file in typed for kind in (SINGLE, SEVERAL) if kind in found[file]}

    def rows() -> Iterator[Row]:
        for numbered in read_judgeable_rows([file for file in files if file not in typed], Shard()):
            row = numbered.row
            if not isinstance(row, Malformed) and isinstance(read_row(row), JudgeRequest):
                kinds.add(kind_of(row))
                yield row

    schema = schema_of_rows(out, rows(), like=typed)
    for kind in kinds:
        schema = with_columns(schema, ADDED[kind])
    return schema


def _made_with(session: Session[Any], files: Sequence[Path], keep: PassRates | None, shard: Shard) -> dict[str, Any]:
    """Return as JSON values what decides the scores. Files count by their sizes and times."""
    facts = [file.stat() for file in files]
    made_with = {
        **fingerprint(session.settings, "answers"),
        "files": [[each.st_size, each.st_mtime_ns] for each in facts],
        "keep": None if keep is None else [keep.low, keep.high],
        "shard": [shard.part, shard.parts],
    }
    return dict(json.loads(json.dumps(made_with)))


def read_judgeable_rows(files: Sequence[Path], shard: Shard) -> Iterator[NumberedRow]:
    """Yield the rows of a part; a line of dumps becomes a row."""
    numbers = count(1)
    for file in files:
        for number_in_file, row in enumerate(read_rows(file, "PATH"), 1):
            number = next(numbers)
            if shard.contains(number):
                if not isinstance(row, Malformed) and "rollouts" in row:
                    row = _row_of_dump(row)
                yield NumberedRow(number, file, number_in_file, row)


def _row_of_dump(line: Row) -> Row | Malformed:
    """Return a line of dumps as a row, without tokens."""
    try:
        group = read_group(json.dumps(line).encode())
    except ValueError as error:
        return Malformed(f"the line is no group: {describe(error)}")
    first = group.rollouts[0].conversation if group.rollouts else ()
    return {
        "reference": group.reference,
        "task": group.item_id,
        "level": group.level,
        "messages": [dict(message) for message in first[:-1]],
        SEVERAL: [rollout.conversation[-1]["content"] for rollout in group.rollouts],
        "thinking_formats": None if group.thinking_formats is None else list(group.thinking_formats),
    }


async def _missing_rows(files: Sequence[Path], shard: Shard, store: RowStore) -> AsyncIterator[NumberedRow]:
    """Yield the rows of a part that an earlier call has not judged."""
    for numbered in read_judgeable_rows(files, shard):
        if not store.has(numbered.number):
            yield numbered


class _Judging:
    """Judges rows, and stores what is added to each: `scores`, `reasons` and `pass_rate`, or `left_out`."""

    def __init__(self, session: Session[Any], store: RowStore, on_row: Callable[[], object]) -> None:
        self._session = session
        self._store = store
        self._on_row = on_row

    async def judge(self, numbered: NumberedRow) -> None:
        row = numbered.row
        if isinstance(row, Malformed):
            added: dict[str, Any] = left_out_row("the line cannot be read", row.problem)
        else:
            added = await judge_row(self._session, row)
        if "left_out" in added:
            added |= {"file": str(numbered.file), "row": numbered.number_in_file}
        self._store.add(numbered.number, added)
        self._store.commit_if_due()
        self._on_row()


def _count(store: RowStore, keep: PassRates | None) -> dict[str, Any]:
    """Return the counts of rows that the card holds."""
    rows = judged = without_score = outside = 0
    left_out: dict[str, dict[str, Any]] = {}
    for _, added in store.rows():
        if "left_out" in added:
            reason = added["left_out"]
            first = {"first_file": added["file"], "first_row": added["row"], "first": added.get("why", reason)}
            left_out.setdefault(reason, {"rows": 0, **first})["rows"] += 1
            continue
        if added["scores"] is None:
            without_score += 1
        else:
            judged += 1
        if _is_kept(added, keep):
            rows += 1
        else:
            outside += 1
    counts = {"rows": rows, "judged": judged, "without_score": without_score, "outside": outside}
    return {**counts, "left_out": left_out}


def _is_kept(added: Mapping[str, Any], keep: PassRates | None) -> bool:
    return keep is None or keep.contains(added["pass_rate"])


def _joined(files: Sequence[Path], shard: Shard, store: RowStore, keep: PassRates | None) -> Iterator[Row]:
    """Yield the rows with their scores, in their order, without the rows that are left out."""
    for numbered, (position, added) in zip(read_judgeable_rows(files, shard), store.rows(), strict=True):
        assert numbered.number == position, "every row has been judged or left out"
        row = numbered.row
        if not isinstance(row, Malformed) and "left_out" not in added and _is_kept(added, keep):
            yield {**row, **added_columns(row, added)}
