"""The output of a call that writes rows: its rows while the call is under way, and the card of the finished file.

Until the output is whole, its rows lie in a keyed file beside it, so that the same call resumes after any interruption.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..runtime.text import visible
from ..settings import changed_settings
from ..storage.files import KeyedFile, other_settings, output_errors, remove_rows, replace_file
from ..storage.reading import parse_json, read_json
from .tables import Schema, write_rows

OUT_OPTION = "--out"


def unfinished_path(out: Path) -> Path:
    """Return the file of the rows of a call under way."""
    return out.with_name(f"{out.name}.unfinished")


def card_path(out: Path) -> Path:
    """Return the card of a finished file: what made the file, and what it holds."""
    return out.with_name(f"{out.name}.card.json")


OnRow = Callable[[Mapping[str, object]], object]
"""Called with a row that an earlier call has left; raises ValueError for a row that no call wrote."""


@contextmanager
def rows_under_way(out: Path, made_with: Mapping[str, object], on_row: OnRow = lambda row: None) -> Iterator[KeyedFile]:
    """Yield the rows of a call, by position; they are removed when the block has written the output.

    Raises ConfigError for rows that are damaged or of other settings, and when another call is at work.
    """

    def read(key: str, line: bytes) -> None:
        row = parse_json(line)
        if not isinstance(row, dict) or not key.isdecimal():
            raise ValueError("this is no row")
        on_row(row)

    rows = KeyedFile(unfinished_path(out), made_with, setting=OUT_OPTION, on_line=read)
    try:
        if rows.unusable_lines:
            raise ConfigError(
                f"{visible(str(rows.path))} is damaged ({rows.unusable_lines} lines are no rows)",
                setting=OUT_OPTION,
                remedy="remove the file to begin anew",
            )
        yield rows
    except BaseException:
        rows.close()
        raise
    rows.remove()


def in_order(rows: KeyedFile) -> Iterator[dict[str, Any]]:
    """Yield the rows in the order of their positions."""
    return rows.rows(sorted(rows.keys, key=int))


def finished_card(out: Path, made_with: Mapping[str, object]) -> Mapping[str, Any] | None:
    """Return the card of an output that the same call has finished; None where there is no output.

    A call that was killed right after the output was whole has left its rows, which are removed.

    Raises ConfigError for an output of other settings, or without a card.
    """
    if not out.exists():
        return None
    try:
        card = read_json(card_path(out))
        earlier = dict(card["made_with"])
    except (OSError, ValueError, KeyError, TypeError):
        raise ConfigError(
            f"{visible(str(out))} exists without a card that says what made it",
            setting=OUT_OPTION,
            remedy="name another file, or remove this one",
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
    """Write the card of an output, then the output, as `write_rows` does. Raises OutputError.

    The rows of the call stay in `under_way`, so that the same call writes the output later.
    """
    with output_errors(out, f"its {len(under_way.keys)} rows are safe in {under_way.path}"):
        write_card(out, card)
        write_rows(out, rows, types)


def write_card(out: Path, card: Mapping[str, object]) -> None:
    """Write the card of an output. Raises OSError."""
    replace_file(card_path(out), [json.dumps(card, indent=2).encode() + b"\n"], mode=0o666)
