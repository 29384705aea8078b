"""Judge the completions of a file's rows, and write the rows with their scores.

A row has `reference` and `completion` or `completions`. A completion is a text, or a conversation that ends with it.
Lines of our own dumps, process files and evaluations count as rows too. The rows stay in their order; whatever the size
of the files, memory holds twice as many of them as there are workers.

Several calls, also on several machines, may share the rows: part K of N has the rows K, K + N, K + 2 N ...
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections import Counter, deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from ..dumps.chat import chat_paths
from ..dumps.format import header_path, read_group
from ..errors import ClosedError, ConfigError, GenerationError, InvalidReferenceError, ScoringError, WorkerError
from ..problems.references import Reference, maker
from ..prompts.completions import read_completions
from ..prompts.thinking import TAGS, Thinking, named_thinking
from ..records import Row, Verdict
from ..runtime.concurrency import cancel_all, do_as_they_come
from ..session import Session
from ..settings import fingerprint
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

logger = logging.getLogger(__name__)

RETRY_PAUSES_S = (1.0, 5.0)
"""Pauses before a row is judged again after an infrastructure error."""
SINGLE, SEVERAL = "completion", "completions"
ADDED: Mapping[str, Mapping[str, str]] = {
    SINGLE: {"score": "number", "reason": "text", "pass_rate": "number"},
    SEVERAL: {"scores": "numbers", "reasons": "texts", "pass_rate": "number"},
}
"""The columns that rows get, by their column of completions, each with its type in Parquet: see `tables`."""


@dataclass(frozen=True)
class PassRates:
    """The pass rates, from `low` to `high`, of rows that are kept. A row without a pass rate is not."""

    low: float
    high: float

    def has(self, rate: float | None) -> bool:
        return rate is not None and self.low <= rate <= self.high


@dataclass(frozen=True)
class Shard:
    """Part `part`, from 1 to `parts`, of the rows."""

    part: int = 1
    parts: int = 1

    def has(self, number: int) -> bool:
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
    share: Shard = Shard(),
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
    made_with = _made_with(session, files, keep, share)
    finished = finished_card(out, made_with)
    if finished is not None:
        return finished
    schema = _schema(out, files)
    store = RowStore(out, made_with)
    try:
        async with session:
            await do_as_they_come(
                _Judging(session, store, on_row).judge, _missing_rows(files, share, store), at_once=_at_once(session)
            )
        card = {"command": command, **_count(store, keep), "made_with": made_with}
        write_card(out, card)
        write_rows(out, lambda: _joined(files, share, store, keep), schema)
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
            if not isinstance(row, Malformed) and isinstance(_read_row(row), _JudgeRequest):
                kinds.add(_kind(row))
                yield row

    schema = schema_of_rows(out, rows(), like=typed)
    for kind in kinds:
        schema = with_columns(schema, ADDED[kind])
    return schema


def _made_with(session: Session[Any], files: Sequence[Path], keep: PassRates | None, share: Shard) -> dict[str, Any]:
    """Return as JSON values what decides the scores. Files count by their sizes and times."""
    facts = [file.stat() for file in files]
    made_with = {
        **fingerprint(session.settings, "answers"),
        "files": [[each.st_size, each.st_mtime_ns] for each in facts],
        "keep": None if keep is None else [keep.low, keep.high],
        "shard": [share.part, share.parts],
    }
    return dict(json.loads(json.dumps(made_with)))


def read_judgeable_rows(files: Sequence[Path], share: Shard) -> Iterator[NumberedRow]:
    """Yield the rows of a part; a line of dumps becomes a row."""
    numbers = count(1)
    for file in files:
        for number_in_file, row in enumerate(read_rows(file, "PATH"), 1):
            number = next(numbers)
            if share.has(number):
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


async def _missing_rows(files: Sequence[Path], share: Shard, store: RowStore) -> AsyncIterator[NumberedRow]:
    """Yield the rows of a part that an earlier call has not judged."""
    for numbered in read_judgeable_rows(files, share):
        if not store.has(numbered.number):
            yield numbered


async def verdicts(session: Session[Any], rows: Iterable[Row] | AsyncIterable[Row]) -> AsyncIterator[dict[str, Any]]:
    """Yield the rows with their scores, in order, as `judge_rows` writes them. The session is started.

    A row that cannot be judged is left out: a warning tells each reason with the first row's number, from 1. After a
    fault of ours that persists, the score is None. Memory holds twice as many rows as the session has workers.
    """
    under_way: deque[tuple[Row, asyncio.Task[dict[str, Any]]]] = deque()
    left_out: Counter[str] = Counter()
    number = 0

    async def oldest() -> dict[str, Any] | None:
        nonlocal number
        row, judged = under_way[0]
        added = await judged
        under_way.popleft()
        number += 1
        reason = added.get("left_out")
        if reason is None:
            return {**row, **_columns(row, added)}
        left_out[reason] += 1
        if left_out[reason] == 1:
            logger.warning("left out from row %d on: %s (%s)", number, reason, added.get("why", reason))
        return None

    try:
        async for row in _as_they_come(rows):
            under_way.append((row, asyncio.create_task(_judge_row(session, row))))
            if len(under_way) == _at_once(session) and (judged := await oldest()) is not None:
                yield judged
        while under_way:
            if (judged := await oldest()) is not None:
                yield judged
    finally:
        await cancel_all(judged for _, judged in under_way)


def _at_once(session: Session[Any]) -> int:
    """Return how many rows are judged at a time: the next one waits when a worker is done, of either role."""
    return 2 * (session.settings.num_generators + session.settings.num_verifiers)


async def _as_they_come(rows: Iterable[Row] | AsyncIterable[Row]) -> AsyncIterator[Row]:
    if isinstance(rows, AsyncIterable):
        async for row in rows:
            yield row
        return
    for row in rows:
        yield row


class _Judging:
    """Judges rows, and stores what is added to each: `scores`, `reasons` and `pass_rate`, or `left_out`."""

    def __init__(self, session: Session[Any], store: RowStore, on_row: Callable[[], object]) -> None:
        self._session = session
        self._store = store
        self._on_row = on_row

    async def judge(self, numbered: NumberedRow) -> None:
        row = numbered.row
        if isinstance(row, Malformed):
            added: dict[str, Any] = _left_out("the line cannot be read", row.problem)
        else:
            added = await _judge_row(self._session, row)
        if "left_out" in added:
            added |= {"file": str(numbered.file), "row": numbered.number_in_file}
        self._store.add(numbered.number, added)
        self._store.commit_if_due()
        self._on_row()


@dataclass(frozen=True)
class _JudgeRequest:
    """What a row asks for: verdicts on texts."""

    reference: Reference
    texts: Sequence[str]
    thinking: Thinking | None


def _kind(row: Row) -> str:
    """Return the column in which a row has its completions."""
    return SEVERAL if row.get(SEVERAL) is not None else SINGLE


def _read_row(row: Row) -> _JudgeRequest | dict[str, Any]:
    """Return what a row asks for, or `left_out` for a row that no session can judge."""
    reference = row.get("reference")
    if not isinstance(reference, str):
        return _left_out("the row has no reference")
    if row.get(SEVERAL) is not None and row.get(SINGLE) is not None:
        return _left_out(f"the row has both `{SINGLE}` and `{SEVERAL}`")
    kind = _kind(row)
    if kind not in row:  # a null in `completion` is a model that wrote nothing
        return _left_out("the row has no completion")
    try:
        texts = read_completions(row[kind] if kind == SEVERAL else [row[kind]])
        thinking = _thinking(row)
    except (ConfigError, KeyError, TypeError):
        return _left_out("the row's completions are no texts or conversations")
    try:
        return _JudgeRequest(Reference.parse(reference), texts, thinking)
    except InvalidReferenceError as error:
        return _left_out("the reference cannot be read", error.problem)


async def _judge_row(session: Session[Any], row: Row) -> dict[str, Any]:
    """Return what is added to a row: `scores`, `reasons` and `pass_rate`, or `left_out`."""
    asked = _read_row(row)
    if not isinstance(asked, _JudgeRequest):
        return asked
    task = asked.reference.task
    if task not in {task.name for task in session.library.tasks}:
        return _left_out("the reference's task is not known here", task)
    release = session.library.release(task)
    if asked.reference.library != release:
        made_by = maker(asked.reference.library)
        return _left_out("the reference is of another release", f"{made_by}, and this is {release}")
    try:
        found = await _verdicts(session, row["reference"], asked.texts, asked.thinking)
    except InvalidReferenceError as error:
        return _left_out("the question comes out differently here", error.problem)
    except GenerationError as error:
        return _left_out("the problem of the reference cannot be generated", str(error))
    if found is None:
        return {"scores": None, "reasons": None, "pass_rate": None}
    return {
        "scores": [verdict.score for verdict in found],
        "reasons": [verdict.reason.value for verdict in found],
        "pass_rate": sum(verdict.correct for verdict in found) / len(found) if found else None,
    }


def _left_out(reason: str, why: str = "") -> dict[str, Any]:
    """Return what is stored of a row that is left out: one of a few reasons, and the row's own cause."""
    return {"left_out": reason, "why": (why or reason)[:200]}


async def _verdicts(
    session: Session[Any], reference: str, texts: Sequence[str], thinking: Thinking | None
) -> list[Verdict] | None:
    """Return the verdicts; None after faults of ours that persist."""
    for pause_s in (*RETRY_PAUSES_S, None):
        try:
            return await session.judge(reference, texts, thinking=thinking)
        except ClosedError:
            raise
        except (ScoringError, WorkerError):
            if pause_s is not None:
                await asyncio.sleep(pause_s)
    return None


def _thinking(row: Row) -> Thinking | None:
    """Return the formats of thinking of a line of dumps; None for the session's."""
    if "thinking_formats" not in row:
        return None
    formats = row["thinking_formats"]
    return TAGS if formats is None else named_thinking(formats)


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
    return keep is None or keep.has(added["pass_rate"])


def _joined(files: Sequence[Path], share: Shard, store: RowStore, keep: PassRates | None) -> Iterator[Row]:
    """Yield the rows with their scores, in their order, without the rows that are left out."""
    for numbered, (position, added) in zip(read_judgeable_rows(files, share), store.rows(), strict=True):
        assert numbered.number == position, "every row has been judged or left out"
        row = numbered.row
        if not isinstance(row, Malformed) and "left_out" not in added and _is_kept(added, keep):
            yield {**row, **_columns(row, added)}


def _columns(row: Row, added: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that a row gets: lists for `completions`, single values for `completion`."""
    if _kind(row) == SEVERAL:
        return dict(added)
    scores, reasons = added["scores"] or [None], added["reasons"] or [None]
    return {"score": scores[0], "reason": reasons[0], "pass_rate": added["pass_rate"]}
