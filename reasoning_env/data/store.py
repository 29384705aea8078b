"""Keep a call's progress in a file beside its output, so that the same call resumes after any interruption.

The file is a database of SQLite. A transaction holds rows together with the progress that made them, so a killed call
has lost at most COMMIT_S of work, and neither repeats nor misses a row.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import ConfigError, ReasoningEnvError
from ..runtime.text import visible
from ..storage.files import replace_file
from ..storage.reading import parse_json, read_json

logger = logging.getLogger(__name__)

COMMIT_S = 1.0
"""Seconds of work that a killed call loses at most. With a transaction for each row, a row took 130 µs of processor
time, and 0.8 ms on a busy disk; with one for a hundred rows, 50 µs and 0.25 ms."""


def unfinished_path(out: Path) -> Path:
    """Return the file of a call under way. `replace_file` writes the output itself to another name beside it."""
    return out.with_name(f"{out.name}.unfinished")


def card_path(out: Path) -> Path:
    """Return the card of a finished file: what made the file, and what it holds."""
    return out.with_name(f"{out.name}.card.json")


class StoreError(ReasoningEnvError):
    """The file of a call under way cannot be read or written: it is damaged, or the disk is full."""


class RowStore:
    """Rows by position, progress by name, and questions that were seen. For one thread.

    Raises ConfigError when another call is at work, or when rows were made with other settings. Every method raises
    StoreError.
    """

    def __init__(self, out: Path, made_with: Mapping[str, Any], setting: str = "--out") -> None:
        self.path = unfinished_path(out)
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(self.path, timeout=0.0, isolation_level=None)
        except (sqlite3.Error, OSError) as error:
            raise _unusable(self.path, error, setting) from error
        try:
            self._begin()
            earlier = self.progress("made_with")
        except (sqlite3.Error, StoreError) as error:
            self._database.close()
            raise _unusable(self.path, error.__cause__ or error, setting) from error
        if earlier != made_with and len(self) == 0:  # a call that failed at once blocks no other call
            self.clear()
            self.note("made_with", made_with)
        elif earlier != made_with:
            self.close()
            raise other_settings(self.path, earlier, made_with, setting)
        self.commit()

    def _begin(self) -> None:
        # The lock is held between transactions too: two calls must not add rows in turns.
        for line in (
            "PRAGMA locking_mode = EXCLUSIVE",
            "PRAGMA journal_mode = WAL",
            "PRAGMA synchronous = NORMAL",
            "BEGIN IMMEDIATE",
            "CREATE TABLE IF NOT EXISTS rows (position INTEGER PRIMARY KEY, row TEXT NOT NULL)",
            "CREATE TABLE IF NOT EXISTS progress (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
            "CREATE TABLE IF NOT EXISTS seen (task TEXT, question TEXT, PRIMARY KEY (task, question)) WITHOUT ROWID",
        ):
            self._database.execute(line)
        self._committed = time.monotonic()

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Raise StoreError for an error of the database, and for content that no call has written."""
        try:
            yield
        except (sqlite3.Error, ValueError) as error:
            raise StoreError(
                f"{visible(str(self.path))} cannot be used ({visible(str(error))})",
                remedy="free space on the disk, or remove the file to begin anew",
            ) from error

    def _execute(self, line: str, values: Sequence[object] = ()) -> list[Any]:
        """Do one statement, and return what it finds."""
        with self._named_errors():
            return self._database.execute(line, values).fetchall()

    def add(self, position: int, row: Mapping[str, Any]) -> None:
        """Add a row. A row at the same position is replaced."""
        self._execute("INSERT OR REPLACE INTO rows VALUES (?, ?)", (position, json.dumps(row)))

    def add_if_new(self, task: str, question: str) -> bool:
        """Tell whether a task's question, given by its hash, comes for the first time, and remember it."""
        with self._named_errors():
            cursor = self._database.execute("INSERT OR IGNORE INTO seen VALUES (?, ?)", (task, question))
            return cursor.rowcount == 1

    def note(self, name: str, value: object) -> None:
        """Set the progress of a name: a JSON value."""
        self._execute("INSERT OR REPLACE INTO progress VALUES (?, ?)", (name, json.dumps(value)))

    def progress(self, name: str) -> Any:
        """Return the progress of a name; None without any."""
        found = self._execute("SELECT value FROM progress WHERE name = ?", (name,))
        with self._named_errors():
            return parse_json(found[0][0].encode()) if found else None

    def clear(self) -> None:
        """Remove all rows, questions and progress."""
        for table in ("rows", "seen", "progress"):
            self._execute(f"DELETE FROM {table}")

    def commit_if_due(self) -> None:
        """Commit, if the last commit was over COMMIT_S ago."""
        if time.monotonic() - self._committed > COMMIT_S:
            self.commit()

    def commit(self) -> None:
        """Make everything lasting."""
        self._execute("COMMIT")
        self._execute("BEGIN IMMEDIATE")
        self._committed = time.monotonic()

    def __len__(self) -> int:
        return int(self._execute("SELECT COUNT(*) FROM rows")[0][0])

    def has(self, position: int) -> bool:
        """Tell whether there is a row at a position."""
        return bool(self._execute("SELECT 1 FROM rows WHERE position = ?", (position,)))

    def rows(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield positions and rows, in the order of their positions."""
        with self._named_errors():
            for position, text in self._database.execute("SELECT position, row FROM rows ORDER BY position"):
                row = parse_json(text.encode())
                if not isinstance(row, dict):
                    raise ValueError(f"row {position} is no JSON object")
                yield position, row

    def close(self) -> None:
        """Make everything lasting and close the file. Safe to call twice."""
        try:
            self._database.execute("COMMIT")
        except sqlite3.ProgrammingError:  # it is closed
            pass
        except sqlite3.Error as error:  # what went wrong before is raised, or the caller has all rows elsewhere
            logger.warning("%s: the last rows are not stored (%s)", visible(str(self.path)), visible(str(error)))
        self._database.close()

    def remove(self) -> None:
        """Close and remove the file: its rows are written elsewhere."""
        self.close()
        _remove(self.path)


def _remove(database: Path) -> None:
    for end in ("", "-wal", "-shm"):
        database.with_name(database.name + end).unlink(missing_ok=True)


def finished_card(out: Path, made_with: Mapping[str, Any], setting: str = "--out") -> Mapping[str, Any] | None:
    """Return the card of an output that the same call has finished; None where there is no output.

    A call that was killed right after the output was whole has left its rows, which are removed.

    Raises ConfigError for an output of other settings, or without a card.
    """
    if not out.exists():
        return None
    try:
        card = read_json(card_path(out))
        earlier = card["made_with"]
    except (OSError, ValueError, KeyError, TypeError):
        raise ConfigError(
            f"{visible(str(out))} exists without a card that says what made it",
            setting=setting,
            remedy="name another file, or remove this one",
        ) from None
    if earlier != made_with:
        raise other_settings(out, earlier, made_with, setting)
    _remove(unfinished_path(out))
    return dict(card)


def write_card(out: Path, card: Mapping[str, Any]) -> None:
    """Write the card of an output. Raises OSError."""
    replace_file(card_path(out), [json.dumps(card, indent=2).encode() + b"\n"], mode=0o666)


def _unusable(path: Path, error: BaseException, setting: str) -> ConfigError:
    """Return the error of a file that is no database, or that another call has locked."""
    return ConfigError(
        f"{visible(str(path))} cannot be used ({error})",
        setting=setting,
        remedy="wait for the call that is at work there, or remove the file",
    )


def other_settings(path: Path, earlier: object, now: Mapping[str, Any], setting: str) -> ConfigError:
    """Return the error of a file that was made with other settings, with the names of these settings."""
    before = earlier if isinstance(earlier, dict) else {}
    names = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
    return ConfigError(
        f"{visible(str(path))} was made with other settings ({visible(', '.join(names))})",
        setting=setting,
        remedy="name another file, or remove this one",
    )
