"""Judge the completions of a file's rows, and write the rows with their scores, in order.

`verdicts.py` describes rows. Lines of dumps, of evaluations and of the files that `process` writes are also read as
rows. Memory contains at most two rows for each worker.
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
from .output import finished_card, rows_by_position, unfinished_rows, write_output
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

NO_GROUP = "the row is not a group from a dump, from an evaluation or from the command `process`"


@dataclass(frozen=True)
class RowFiles:
    """Files of rows.

    `columns` maps `reference`, `completion` or `completions` to another program's column, or to a path such as
    `response.body.choices.0.message`. Output rows also keep the original column.
    """

    paths: Sequence[Path]
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class NumberedRow:
    """A row. Both numbers start at 1: `number` counts the rows of all files, `number_in_file` those of `file`.

    `group` is set if the row was made from a group. `repeated` is True if the same group was read before.
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
    """Judge rows, write them with scores to `out`, and return the card. Starts and closes `session`.

    With `selection.keep`, use only groups that this package wrote, and write training rows with the new scores. A path
    may be a folder (see `row_files`). `RowFiles` explains `columns`. After an interruption, the same call resumes.
    `on_row` is called after each row.

    The card has

    - `rows` and `judged`: the numbers of written rows and of rows with scores,
    - `left_out`: the number of skipped rows and the first such row, by reason,
    - `without_score`: the number of rows without scores because of an infrastructure error,
    - `outside`: the number of rows whose pass rate is outside the range of `selection`,
    - with `selection.keep`, `not_kept`: the number of completions that gave no training row, by reason,
    - with `selection.keep`, `wrong_now`: completions that were right in the file and are wrong when judged again.

    Raises ConfigError if no row can be judged, or if the output was made with other settings.
    """
    check_output(out, "--out")
    files = RowFiles(row_files(paths, out), columns or {})
    async with session:
        decided_by = _made_with(session, files, selection)
        finished = finished_card(out, decided_by)
        if finished is not None:
            return finished
        schema = training_columns(selection.keep) if selection.keep is not None else _schema(out, files)
        with unfinished_rows(out, decided_by) as judged:
            groups_alone = selection.keep is not None
            async with aclosing(judge_files(session, files, done=judged.keys, groups_alone=groups_alone)) as found:
                async for numbered, added in found:
                    stored = {name: value for name, value in added.items() if name != "answers"}
                    judged.append_row(str(numbered.number), stored)
                    on_row()

            counts = _count(judged, selection)
            if not counts["judged"] and not counts["without_score"]:
                judged.remove()
                raise nothing_found(paths[0], "rows that can be judged", counts["left_out"])
            card = {"command": command, **counts, "made_with": decided_by}
            if selection.keep is None:
                rows = _rows_with_scores(_joined(files, judged), selection)
            else:
                totals = NotKept()  # make the rows twice, because the card with their number is written first
                card["rows"] = sum(1 for _ in _training_rows(_joined(files, judged), selection, totals))
                card["not_kept"] = {reason: number for reason, number in totals.not_kept.items() if number}
                card["wrong_now"] = totals.wrong_now
                rows = _training_rows(_joined(files, judged), selection, NotKept())
            write_output(out, card, rows, schema, under_way=judged)
    return card


async def judge_files(
    session: Session[object], files: RowFiles, *, done: Container[str] = (), groups_alone: bool = False
) -> AsyncGenerator[tuple[NumberedRow, RowVerdicts]]:
    """Yield (row, verdicts) in order, except rows whose `number` is in `done`.

    With `groups_alone`, rows that are not groups are marked as skipped.
    """

    async def judge(numbered: NumberedRow) -> RowVerdicts:
        return await _judge(session, numbered, groups_alone)

    async with aclosing(judge_each(session, _missing_rows(files, done), judge)) as judged:
        async for found in judged:
            yield found


def row_files(paths: Sequence[Path], out: Path | None = None) -> list[Path]:
    """Return the files of rows at the paths, without duplicates.

    For a folder, return its files of rows, sorted by name. If the folder has none, return the files of its subfolders
    (see `folders_of_files`). Omit `out`, and files that `process` derived from another file of the folder.

    Raises ConfigError if a path cannot be read, or if a folder has no files of rows.
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
            raise ConfigError(f"{path} is both input and output", setting="--out", remedy="choose another file")
        if not others:
            raise ConfigError(f"{path} contains no files that end in {', '.join(READABLE)}", setting="PATH")
        files |= others
    return list(files.values())


def _schema(out: Path, files: RowFiles) -> Schema:
    """Return the types that the columns of the output will have; None for JSON lines.

    Rows that cannot be judged are ignored. Raises ConfigError if a column has values of several types.
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
    """Return all values that decide the output. Files are identified by their sizes and modification times."""
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
    """Yield the rows of files. A group becomes one row, which is `repeated` if the same group was read before."""
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
                    row = Malformed(f"the line is not a valid group: {describe(error)}")
                else:
                    row = _row_of_group(group)
            if not isinstance(row, Malformed):
                row = with_renamed(row, files.columns)
            repeated = group is not None and not seen.add(group, file)
            yield NumberedRow(number, file, number_in_file, row, group, repeated)


def with_renamed(row: Row, columns: Mapping[str, str]) -> Row:
    """Copy values of a row to new columns. `columns` maps a new name to an old name or a path (see `RowFiles`).

    A missing value adds no column.
    """
    found = {name: _value_at_path(row, path) for name, path in columns.items()}
    return {**row, **{name: value for name, value in found.items() if value is not _MISSING}}


_MISSING = object()


def _value_at_path(row: Row, path: str) -> object:
    """Return the value at a column name or dotted path of a row; _MISSING if there is none."""
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
    """Return a group as a row that can be judged."""
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
    """Return the verdicts of a row. For a skipped row, return the reason, the file and the row's number."""
    if isinstance(numbered.row, Malformed):
        added = left_out_row("the line cannot be read", numbered.row.problem)
    elif numbered.repeated:
        added = left_out_row("the group is already in an earlier line or file")
    elif groups_alone and numbered.group is None:
        added = left_out_row(NO_GROUP)
    else:
        added = await judge_row(session, numbered.row)
    if "left_out" in added:
        added |= {"file": str(numbered.file), "row": numbered.number_in_file}
    return added


def _count(judged: KeyedFile, selection: Selection) -> dict[str, Any]:
    """Return the numbers of rows for the card, by key."""
    rows = scored = without_score = outside = 0
    for added in rows_by_position(judged):
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
    return {**counts, "left_out": count_left_out(rows_by_position(judged))}


class LeftOut(TypedDict):
    """The number of rows skipped for one reason, and the place and details of the first of these rows."""

    rows: int
    first_file: str
    first_row: int
    first: str


def nothing_found(path: Path, what: str, left_out: Mapping[str, LeftOut], remedy: str | None = None) -> ConfigError:
    """Return the error for files without usable rows, with the reasons why rows were skipped."""
    causes = [f"{reason} ({facts['first']})" for reason, facts in left_out.items()]
    return ConfigError("; ".join([f"{path} contains no {what}", *causes]), setting="PATH", remedy=remedy)


def count_left_out(rows: Iterable[Mapping[str, Any]]) -> dict[str, LeftOut]:
    """Return the counts of skipped rows, by reason."""
    found: dict[str, LeftOut] = {}
    for added in rows:
        if "left_out" in added:
            first: LeftOut = {"rows": 0, "first_file": added["file"], "first_row": added["row"], "first": added["why"]}
            found.setdefault(added["left_out"], first)["rows"] += 1
    return found


Scored = tuple[NumberedRow, Row]
"""A row, and the columns with verdicts that are added to it."""


def _joined(files: RowFiles, judged: KeyedFile) -> Iterator[Scored]:
    """Yield the rows that were not skipped, with their verdicts, in order."""
    for numbered, added in zip(read_judgeable_rows(files), rows_by_position(judged), strict=True):
        position = added.pop("key")
        assert position == str(numbered.number), "internal error: a row is neither judged nor left out"
        if "left_out" not in added:
            yield numbered, added


def _rows_with_scores(scored: Iterator[Scored], selection: Selection) -> Iterator[Row]:
    """Yield each row with its scores, unless `selection` excludes its pass rate."""
    for numbered, added in scored:
        assert not isinstance(numbered.row, Malformed)
        if selection.wants(added["pass_rate"]):
            yield {**numbered.row, **added_columns(numbered.row, added)}


@dataclass
class NotKept:
    """Counts of the completions that give no training row, by reason.

    `wrong_now` counts completions that were right in the file and are wrong when judged again.
    """

    not_kept: Counter[str] = field(default_factory=Counter)
    wrong_now: int = 0


def _training_rows(scored: Iterator[Scored], selection: Selection, counts: NotKept) -> Iterator[Row]:
    """Yield training rows, and update `counts`."""
    made = TrainingRows(selection)
    models: dict[Path, str | None] = {}
    for numbered, added in scored:
        if added["scores"] is None:  # counted as `without_score`
            continue
        if numbered.file not in models:
            models[numbered.file] = model_of(numbered.file)
        group = numbered.group
        assert group is not None, "internal error: a row without a group was scored"
        judged = tuple(
            replace(rollout, score=score, verifier_score=score, reason=reason)
            for rollout, score, reason in zip(group.rollouts, added["scores"], added["reasons"], strict=True)
        )
        yield from made.of_group(replace(group, rollouts=judged), models[numbered.file])
        for before, after in zip(group.rollouts, judged, strict=True):
            if before.correct and not after.correct:
                counts.wrong_now += 1
    counts.not_kept.update(made.not_kept)
