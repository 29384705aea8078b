"""The file of rows with keys, from which every command resumes."""

from __future__ import annotations

import errno
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from io import FileIO
from pathlib import Path
from typing import Any

import pytest

from reasoning_env.errors import ConfigError
from reasoning_env.storage import files
from reasoning_env.storage.files import (
    InUseError,
    KeyedFile,
    OtherSettingsError,
    OutputError,
    header_path,
)
from tests.broken_files import NO_FILES, no_hang
from tests.e2e.processes import REPOSITORY

MADE_WITH = {"seed": 1, "tasks": ("gcd",)}

Open = Callable[..., KeyedFile]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows"


@pytest.fixture
def reopen(path: Path) -> Iterator[Open]:
    """Opens the file repeatedly, and closes the earlier object first."""
    with ExitStack() as stack:

        def reopen(made_with: Any = MADE_WITH, **how: Any) -> KeyedFile:
            stack.close()
            file = KeyedFile(path, made_with, setting="--out", **how)
            stack.callback(file.close)
            return file

        yield reopen


def fill(target: FileIO, data: bytes) -> None:
    """Fail to write as a full disk does."""
    target.write(data[:3])
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_stored_line_begins_with_its_key(reopen: Open, path: Path) -> None:
    reopen().append('gcd/"1"', b'{"a": 1', b"}\n")
    assert path.read_bytes() == b'{"key": "gcd/\\"1\\"", "a": 1}\n'


def test_rows_are_returned_in_the_order_of_the_requested_keys(reopen: Open) -> None:
    for number in (1, 2, 0):
        reopen().append_row(str(number), {"a": "é" * number})
    assert list(reopen().rows(["0", "1", "2"])) == [{"key": str(n), "a": "é" * n} for n in range(3)]


def test_row_with_an_existing_key_is_not_written(reopen: Open, path: Path) -> None:
    for _ in range(2):
        reopen().append_row("1", {"a": 1})
    assert path.read_bytes().count(b"\n") == 1


def test_concurrent_threads_write_whole_lines(reopen: Open) -> None:
    file = reopen()
    with ThreadPoolExecutor(8) as threads:
        for number in range(200):
            threads.submit(file.append_row, str(number), {"a": "x" * 5_000})
    assert reopen().keys == set(map(str, range(200)))


# ---------------------------------------------------------------------------- after an interruption

KILLED = """
import os, signal, sys
from pathlib import Path
from reasoning_env.storage.files import KeyedFile

file = KeyedFile(Path(sys.argv[1]), {"seed": 1}, setting="--out")
for number in range(1_000):
    if number == 500:
        os.kill(os.getpid(), signal.SIGKILL)
    file.append_row(str(number), {"text": "x" * 1_000})
"""


def test_killed_process_loses_no_written_row(reopen: Open, path: Path) -> None:
    call = subprocess.run([sys.executable, "-c", KILLED, str(path)], cwd=REPOSITORY, check=False)
    assert call.returncode == -signal.SIGKILL
    assert reopen({"seed": 1}).keys == set(map(str, range(500)))


@pytest.mark.parametrize("torn", [b'{"key": "9", "a', b'{"key": "9", "a": 1}', b"\0\0\n"])
def test_incomplete_last_line_is_removed_with_a_warning(
    reopen: Open, path: Path, torn: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    reopen().append_row("1", {"a": 1})
    with path.open("ab") as other:
        other.write(torn)
    file = reopen()
    assert f"the last line of {path} was incomplete and is removed" in caplog.text
    file.append_row("2", {"a": 2})
    assert list(reopen().rows("12")) == [{"key": "1", "a": 1}, {"key": "2", "a": 2}]


def test_unreadable_lines_stay_in_the_file(reopen: Open, path: Path, caplog: pytest.LogCaptureFixture) -> None:
    reopen().append_row("1", {"a": 1})
    lines = b'nonsense\n{"a": 1}\n{"key": "\\q", "a": 1}\n'
    with path.open("ab") as other:
        other.write(lines)
    assert reopen().keys == {"1"}
    assert "3 unreadable lines are ignored" in caplog.text
    assert lines in path.read_bytes()


def test_line_is_skipped_if_the_callback_for_lines_raises(reopen: Open) -> None:
    reopen().append_row("x", {"a": 1})
    assert not reopen(on_line=lambda key, line: int(key)).keys


def test_reopening_a_file_of_rows_reads_the_existing_rows(reopen: Open) -> None:
    reopen().append_row("1", {"a": 1})
    seen: list[Any] = []
    reopen(on_line=lambda key, line: seen.append((key, json.loads(line))))
    assert seen == [("1", {"key": "1", "a": 1})]


# ---------------------------------------------------------------------------- a full disk


def test_full_disk_leaves_no_partial_line(reopen: Open, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = reopen()
    file.append_row("1", {"a": 1})
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(files, "write_all", fill)
        with pytest.raises(
            OutputError, match=r"rows cannot be written \(No space left .*the 1 earlier lines are intact; make room"
        ):
            file.append_row("2", {"a": 2})
    assert path.read_bytes() == before


def test_writing_the_header_to_a_full_disk_raises(reopen: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files, "replace_file", refuse)
    with pytest.raises(ConfigError, match=r"--out: .* cannot be used \(No space left .*\); make room on the disk"):
        reopen()


def test_writing_rows_resumes_after_a_full_disk(reopen: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    file = reopen()
    with monkeypatch.context() as patch:
        patch.setattr(files, "write_all", fill)
        with suppress(OutputError):
            file.append_row("1", {"a": 1})
    file.append_row("1", {"a": 1})
    assert list(reopen().rows("1")) == [{"key": "1", "a": 1}]


# ---------------------------------------------------------------------------- the settings header


def test_file_that_another_process_writes_cannot_be_opened(reopen: Open, path: Path) -> None:
    reopen()
    with pytest.raises(InUseError, match="--out: another process is writing to "):
        KeyedFile(path, MADE_WITH, setting="--out")


def test_reopening_a_file_of_rows_with_other_settings_raises(reopen: Open) -> None:
    reopen().append_row("1", {"a": 1})
    with pytest.raises(OtherSettingsError, match=r"rows was made with other settings \(count, seed\)"):
        reopen({**MADE_WITH, "seed": 2, "count": 3})


def test_rows_without_a_settings_header_raise(reopen: Open, path: Path) -> None:
    reopen().append_row("1", {"a": 1})
    header_path(path).unlink()
    with pytest.raises(OtherSettingsError):
        reopen()


def test_file_without_rows_can_be_reopened_with_other_settings(reopen: Open) -> None:
    for seed in (1, 2):
        file = reopen({"seed": seed})
    file.append_row("1", {"a": 1})
    with pytest.raises(OtherSettingsError):
        reopen({"seed": 1})


def test_file_of_rows_without_settings_has_no_header(reopen: Open, path: Path) -> None:
    reopen(None).append_row("1", {"a": 1})
    assert not header_path(path).exists()
    assert reopen(None).keys == {"1"}


def test_only_the_owner_can_read_the_header_file_of_a_keyed_file(reopen: Open, path: Path) -> None:
    reopen()
    assert stat.S_IMODE(header_path(path).stat().st_mode) == 0o600


def test_removing_a_file_of_rows_also_deletes_its_header_file(reopen: Open, tmp_path: Path) -> None:
    reopen().remove()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", NO_FILES)
@pytest.mark.parametrize("name", ["rows", "rows.header"])
def test_opening_a_fifo_or_folder_as_a_file_of_rows_does_not_hang(
    tmp_path: Path, path: Path, kind: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path.write_text('{"key": "1", "a": 1}\n')
    (tmp_path / name).unlink(missing_ok=True)
    NO_FILES[kind](tmp_path / name)
    with no_hang(), suppress(ConfigError):
        KeyedFile(path, MADE_WITH, setting="--out").close()
