"""Judge the completions of a file's rows, and write the rows with their scores.

The rows are those that `verdicts.py` judges. Lines of our own dumps, process files and evaluations count as rows too.
The rows stay in their order; whatever the size of the files, memory holds twice as many rows as there are workers.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, TypedDict

from ..dumps.format import DumpedGroup, as_group, model_of
from ..dumps.reader import SeenGroups, list_files
from ..errors import ConfigError
from ..problems.plan import made_with
from ..records import Row
from ..session import Session
from ..storage.files import KeyedFile
from ..storage.reading import Malformed, require_regular
from ..storage.values import describe
from .output import finished_card, in_order, rows_under_way, write_output
from .tables import PARQUET, READABLE, Schema, check_output, read_rows, schema_of_rows, with_columns
from .training import EVERYTHING, Selection, TrainingRows, training_columns
from .verdicts import (
    ADDED,
    SEVERAL,
    JudgeRequest,
    RowVerdicts,
    added_columns,
    judge_each,
    judge_row,
    left_out_row,
    read_row,
)

NO_GROUP = "the row is no group of a dump, of `process` or of an evaluation"


@dataclass(frozen=True)
class RowFiles:
    """Files of rows.

    `columns` says where rows of other programs have `reference`, and `completion` or `completions`: the name of a
    column, or a path of names and positions with dots in between, such as `response.body.choices.0.message`. The rows
    get these columns beside their own.
    """

    paths: Sequence[Path]
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class NumberedRow:
    """A row with its number among the rows of all files, and its number in its file, both from 1.

    `group` is the group that a line of dumps holds. The group of a `repeated` line was read before.
    """

    number: int
    file: Path
    number_in_file: int
    row: Row | Malformed
    group: DumpedGroup | None = None
    repeated: bool = False


async def judge_rows(
    session: Session[object],
    paths: Sequence[Path],
    out: Path,
    *,
    selection: Selection = EVERYTHING,
    columns: Mapping[str, str] | None = None,
    command: str = "",
    on_row: Callable[[], object] = lambda: None,
) -> Mapping[str, Any]:
    """Judge the rows of files, write them with their scores, and return the card. Starts and closes the session.

    With `selection.keep`, rows to train on are written instead, made of the groups among the rows with their new
    scores. A folder stands for its files of rows: see `row_files`; for `columns` see `RowFiles`. A killed call goes on.
    `on_row` is called after each row.

    The card has `rows`, `judged`, `left_out` with count and first row by reason, `without_score` (rows that a fault of
    ours left without), and `outside`, the rows whose pass rate is not wanted. With `selection.keep` it has `not_kept`
    too, the completions without a row by reason, and `wrong_now`, the completions that only the stored score calls
    right.

    Raises ConfigError for files that cannot be used: without a row that can be judged, or of other settings.
    """
    check_output(out, "--out")
    files = RowFiles(row_files(paths, out), columns or {})
    async with session:
        decided_by = _made_with(session, files, selection)
        finished = finished_card(out, decided_by)
        if finished is not None:
            return finished
        schema = training_columns(selection.keep) if selection.keep is not None else _schema(out, files)
        with rows_under_way(out, decided_by) as judged:
            groups_alone = selection.keep is not None
            async with aclosing(judge_files(session, files, done=judged.keys, groups_alone=groups_alone)) as found:
                async for numbered, added in found:
                    stored = {name: value for name, value in added.items() if name != "answers"}
                    judged.append_row(str(numbered.number), stored)
                    on_row()

            counts = _count(judged, selection)
            if not counts["judged"] and not counts["without_score"]:
                judged.remove()
                raise nothing_found(paths[0], "row that can be judged", counts["left_out"])
            card = {"command": command, **counts, "made_with": decided_by}
            if selection.keep is None:
                rows = _rows_with_scores(_joined(files, judged), selection)
            else:
                left = NotKept()
                card["rows"] = sum(1 for _ in _training_rows(_joined(files, judged), selection, left))
                card["not_kept"] = {reason: number for reason, number in left.not_kept.items() if number}
                card["wrong_now"] = left.wrong_now
                rows = _training_rows(_joined(files, judged), selection, NotKept())
            write_output(out, card, rows, schema, under_way=judged)
    return card


async def judge_files(
    session: Session[object], files: RowFiles, *, done: Container[str] = (), groups_alone: bool = False
) -> AsyncGenerator[tuple[NumberedRow, RowVerdicts]]:
    """Yield the rows of files in order, each with what is added to it.

    Rows whose numbers are in `done` are passed over. With `groups_alone`, rows that are no groups are left out.
    """

    async def judge(numbered: NumberedRow) -> RowVerdicts:
        return await _judge(session, numbered, groups_alone)

    async with aclosing(judge_each(session, _missing_rows(files, done), judge)) as judged:
        async for found in judged:
            yield found


def row_files(paths: Sequence[Path], out: Path | None = None) -> list[Path]:
    """Return the files of rows that paths stand for, each once.

    A folder stands for its files of rows, in the order of their names, and a folder without any for those of its
    subfolders (see `folders_of_files`). Left out are `out`, and what `process` writes
    beside its lines.

    Raises ConfigError for a path that cannot be read, and for a folder without files of rows.
    """
    files: dict[str, Path] = {}
    output = None if out is None else os.path.realpath(out)
    for path in paths:
        try:
            found = list_files(path, READABLE, besides=out)
            for file in found:
                require_regular(file)
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {describe(error)}", setting="PATH") from error
        others = {real: file for file in found if (real := os.path.realpath(file)) != output}
        if not others and found:
            raise ConfigError(f"{path} is the output too", setting="--out", remedy="name another file")
        if not others:
            raise ConfigError(f"{path} holds no file of rows: none ends in {', '.join(READABLE)}", setting="PATH")
        files |= others
    return list(files.values())


def _schema(out: Path, files: RowFiles) -> Schema:
    """Return the types of the output's columns, before any work; None for JSON lines.

    Rows that no session can judge are ignored.

    Raises ConfigError for a column with values of several types.
    """
    if out.suffix != PARQUET:
        return None
    typed = [file for file in files.paths if file.suffix == PARQUET]
    others = [file for file in files.paths if file not in typed]

    def rows() -> Iterator[Row]:
        for numbered in read_judgeable_rows(files if files.columns else RowFiles(others)):
            row = numbered.row
            if not isinstance(row, Malformed) and isinstance(read_row(row), JudgeRequest):
                yield row

    schema = schema_of_rows(out, rows(), like=typed)
    for kind, added in ADDED.items():
        if kind in schema.names:
            schema = with_columns(schema, added)
    return schema


def _made_with(session: Session[object], files: RowFiles, selection: Selection) -> dict[str, object]:
    """Return what decides the scores. Files count by their sizes and times."""
    facts = [file.stat() for file in files.paths]
    return made_with(
        session.settings,
        session.plan,
        "answers",
        files=[[each.st_size, each.st_mtime_ns] for each in facts],
        selection=asdict(selection),
        **({"columns": dict(files.columns)} if files.columns else {}),
        **session.library.versions,
    )


def read_judgeable_rows(files: RowFiles) -> Iterator[NumberedRow]:
    """Yield the rows; a line of dumps becomes a row, marked where its group was read before."""
    numbers = count(1)
    seen = SeenGroups()
    for file in files.paths:
        for number_in_file, row in enumerate(read_rows(file, "PATH"), 1):
            number = next(numbers)
            group = None
            if not isinstance(row, Malformed) and "rollouts" in row:
                try:
                    group = as_group(row)
                except ValueError as error:
                    row = Malformed(f"the line is no group: {describe(error)}")
                else:
                    row = _row_of_group(group)
            if not isinstance(row, Malformed):
                row = with_renamed(row, files.columns)
            repeated = group is not None and not seen.add(group, file)
            yield NumberedRow(number, file, number_in_file, row, group, repeated)


def with_renamed(row: Row, columns: Mapping[str, str]) -> Row:
    """Return a row with what stands elsewhere in it as columns of their own; what it lacks is left out."""
    found = {name: _at(row, path) for name, path in columns.items()}
    return {**row, **{name: value for name, value in found.items() if value is not _MISSING}}


_MISSING = object()


def _at(row: Row, path: str) -> object:
    """Return what stands at a path in a row; _MISSING where there is nothing."""
    if path in row:
        return row[path]
    value: object = row
    for step in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(step, _MISSING)
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return _MISSING
    return value


def _row_of_group(group: DumpedGroup) -> Row:
    """Return the group of a line of dumps as a row, without tokens."""
    return {
        "reference": group.reference,
        "task": group.item_id,
        "level": group.level,
        "messages": [dict(message) for message in group.prompt],
        SEVERAL: [rollout.completion for rollout in group.rollouts],
        "thinking_formats": None if group.thinking_formats is None else list(group.thinking_formats),
    }


async def _missing_rows(files: RowFiles, done: Container[str]) -> AsyncIterator[NumberedRow]:
    for numbered in read_judgeable_rows(files):
        if str(numbered.number) not in done:
            yield numbered


async def _judge(session: Session[object], numbered: NumberedRow, groups_alone: bool) -> RowVerdicts:
    """Return what is added to a row: `scores`, `reasons` and `pass_rate`, or `left_out`."""
    if isinstance(numbered.row, Malformed):
        added = left_out_row("the line cannot be read", numbered.row.problem)
    elif numbered.repeated:
        added = left_out_row("the group stood in an earlier line or file")
    elif groups_alone and numbered.group is None:
        added = left_out_row(NO_GROUP)
    else:
        added = await judge_row(session, numbered.row)
    if "left_out" in added:
        added |= {"file": str(numbered.file), "row": numbered.number_in_file}
    return added


def _count(judged: KeyedFile, selection: Selection) -> dict[str, Any]:
    """Return the counts of rows that the card holds."""
    rows = scored = without_score = outside = 0
    for added in in_order(judged):
        if "left_out" in added:
            continue
        if added["scores"] is None:
            without_score += 1
        else:
            scored += 1
        if selection.wants(added["pass_rate"]):
            rows += 1
        else:
            outside += 1
    counts = {"rows": rows, "judged": scored, "without_score": without_score, "outside": outside}
    return {**counts, "left_out": count_left_out(in_order(judged))}


class LeftOut(TypedDict):
    """How many rows are left out for a reason, and the first of them: its file, its number there, its own cause."""

    rows: int
    first_file: str
    first_row: int
    first: str


def nothing_found(path: Path, what: str, left_out: Mapping[str, LeftOut], remedy: str | None = None) -> ConfigError:
    """Return the error of files without what is wanted, with the reasons for which their rows are left out."""
    causes = [f"{reason} ({facts['first']})" for reason, facts in left_out.items()]
    return ConfigError("; ".join([f"{path} holds no {what}", *causes]), setting="PATH", remedy=remedy)


def count_left_out(rows: Iterable[Mapping[str, Any]]) -> dict[str, LeftOut]:
    """Return the rows that are left out, by reason."""
    found: dict[str, LeftOut] = {}
    for added in rows:
        if "left_out" in added:
            first: LeftOut = {"rows": 0, "first_file": added["file"], "first_row": added["row"], "first": added["why"]}
            found.setdefault(added["left_out"], first)["rows"] += 1
    return found


Scored = tuple[NumberedRow, Row]
"""A row, and what is added to it."""


def _joined(files: RowFiles, judged: KeyedFile) -> Iterator[Scored]:
    """Yield the rows with what is added to each, in their order, without the rows that are left out."""
    for numbered, added in zip(read_judgeable_rows(files), in_order(judged), strict=True):
        position = added.pop("key")
        assert position == str(numbered.number), "every row has been judged or left out"
        if "left_out" not in added:
            yield numbered, added


def _rows_with_scores(scored: Iterator[Scored], selection: Selection) -> Iterator[Row]:
    """Yield the rows with a pass rate that is wanted, with their scores."""
    for numbered, added in scored:
        assert not isinstance(numbered.row, Malformed)
        if selection.wants(added["pass_rate"]):
            yield {**numbered.row, **added_columns(numbered.row, added)}


@dataclass
class NotKept:
    """Completions of groups that give no row to train on, by reason.

    `wrong_now` counts completions that only the stored score calls right.
    """

    not_kept: Counter[str] = field(default_factory=Counter)
    wrong_now: int = 0


def _training_rows(scored: Iterator[Scored], selection: Selection, left: NotKept) -> Iterator[Row]:
    """Yield rows to train on, and count up in `left` the completions that give none."""
    made = TrainingRows(selection)
    models: dict[Path, str | None] = {}
    for numbered, added in scored:
        if added["scores"] is None:  # counted as `without_score`
            continue
        if numbered.file not in models:
            models[numbered.file] = model_of(numbered.file)
        group = numbered.group
        assert group is not None, "other rows are left out"
        judged = tuple(
            replace(rollout, score=score, verifier_score=score, reason=reason)
            for rollout, score, reason in zip(group.rollouts, added["scores"], added["reasons"], strict=True)
        )
        yield from made.of_group(replace(group, rollouts=judged), models[numbered.file])
        for before, after in zip(group.rollouts, judged, strict=True):
            if before.correct and not after.correct:
                left.wrong_now += 1
    left.not_kept.update(made.not_kept)
