"""The two output files of a command that writes rows: the rows, and a card (JSON that describes the rows).

Until all rows are ready, a `KeyedFile` collects them, so that the same command can resume.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..runtime.text import pluralize, printable
from ..settings import changed_settings
from ..storage.files import KeyedFile, other_settings, output_errors, remove_rows, replace_file
from ..storage.reading import parse_json, read_json
from .tables import Schema, write_rows

OUT_OPTION = "--out"


def unfinished_path(out: Path) -> Path:
    """Return the path of the `KeyedFile` that collects rows."""
    return out.with_name(f"{out.name}.unfinished")


def card_path(out: Path) -> Path:
    """Return the path of the card of an output: a JSON file with the settings and a summary of the output."""
    return out.with_name(f"{out.name}.card.json")


OnRow = Callable[[Mapping[str, object]], object]
"""Called with each row that an interrupted run stored. Raises ValueError for an invalid row."""


@contextmanager
def unfinished_rows(
    out: Path, made_with: Mapping[str, object], on_row: OnRow = lambda row: None
) -> Iterator[KeyedFile]:
    """Open the `KeyedFile` of rows; keys are row positions. Delete the file after the block, unless the block raises.

    Raises ConfigError if the file is damaged or was made with other settings, or if another process writes to it.
    """

    def read(key: str, line: bytes) -> None:
        row = parse_json(line)
        if not isinstance(row, dict) or not key.isdecimal():
            raise ValueError("the line must be a JSON object with a number in the field `key`")
        on_row(row)

    rows = KeyedFile(unfinished_path(out), made_with, setting=OUT_OPTION, on_line=read)
    try:
        if rows.unusable_lines:
            raise ConfigError(
                f"{printable(str(rows.path))} has {pluralize(rows.unusable_lines, 'damaged line')}",
                setting=OUT_OPTION,
                remedy="remove the file to start again",
            )
        yield rows
    except BaseException:
        rows.close()
        raise
    rows.remove()


def rows_by_position(rows: KeyedFile) -> Iterator[dict[str, Any]]:
    """Yield the stored rows in the order of their keys, which are the positions in the output."""
    return rows.rows(sorted(rows.keys, key=int))


def finished_card(out: Path, made_with: Mapping[str, object]) -> Mapping[str, Any] | None:
    """Return the card of an output that an earlier run with these settings finished; None if there is no output.

    Also delete the file at `unfinished_path`, which remains if the earlier run was killed after it wrote the output.

    Raises ConfigError if the output was made with other settings, or has no card.
    """
    if not out.exists():
        return None
    try:
        card = read_json(card_path(out))
        earlier = dict(card["made_with"])
    except (OSError, ValueError, KeyError, TypeError):
        card_name = printable(card_path(out).name)
        raise ConfigError(
            f"{printable(str(out))} exists, but may be from another command: {card_name} is missing or damaged",
            setting=OUT_OPTION,
            remedy="choose another file, or remove this one",
        ) from None
    changed = changed_settings(earlier, made_with)
    if changed:
        raise other_settings(out, changed, OUT_OPTION)
    remove_rows(unfinished_path(out))
    return dict(card)


def write_output(
    out: Path,
    card: Mapping[str, object],
    rows: Iterable[Mapping[str, Any]],
    types: Mapping[str, str] | Schema,
    *,
    under_way: KeyedFile,
) -> None:
    """Write the card of an output, then the output with `write_rows`. Raises OutputError.

    After an error, the rows stay in the file `under_way`, and the same command can resume.
    """
    with output_errors(out, f"the {len(under_way.keys)} finished rows are still in {under_way.path}"):
        write_card(out, card)
        write_rows(out, rows, types)


def write_card(out: Path, card: Mapping[str, object]) -> None:
    """Write the JSON file that describes an output (see `card_path`). Raises OSError."""
    replace_file(card_path(out), [json.dumps(card, indent=2).encode() + b"\n"], mode=0o666)
