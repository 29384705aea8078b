"""Write an output file, and keep temporary rows until the file is complete."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from reasoning_env.data.output import (
    finished_card,
    rows_by_position,
    unfinished_path,
    unfinished_rows,
    write_card,
    write_output,
)
from reasoning_env.errors import ConfigError
from reasoning_env.storage.files import OutputError

MADE_WITH = {"seed": 1}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """The path of an output whose command was interrupted after two rows."""
    out = tmp_path / "new" / "out.jsonl"
    with pytest.raises(KeyboardInterrupt), unfinished_rows(out, MADE_WITH) as rows:
        for position in (10, 9):
            rows.append_row(str(position), {"a": position})
        raise KeyboardInterrupt
    return out


def test_output_rows_are_sorted_by_their_position_in_the_input(out: Path) -> None:
    with unfinished_rows(out, MADE_WITH) as rows:
        assert [row["a"] for row in rows_by_position(rows)] == [9, 10]


def test_temporary_file_of_rows_is_removed_when_the_output_is_complete(out: Path) -> None:
    with unfinished_rows(out, MADE_WITH):
        pass
    assert not list(out.parent.iterdir())


@pytest.mark.parametrize("line", ["{", "[1]", '{"key": "x", "a": 1}', '{"key": "3", ' + "[" * 100_000])
def test_unfinished_output_file_that_is_damaged_raises(out: Path, line: str) -> None:
    with unfinished_path(out).open("a") as rows:
        rows.write(line + "\n")
    with (
        pytest.raises(ConfigError, match=r"--out: .*out.jsonl.unfinished has 1 damaged line.*; remove the file"),
        unfinished_rows(out, MADE_WITH),
    ):
        pass


def test_leftover_temporary_file_is_removed_if_the_output_file_is_finished(out: Path) -> None:
    write_card(out, {"made_with": MADE_WITH})
    out.touch()
    assert finished_card(out, MADE_WITH) == {"made_with": MADE_WITH}
    assert not unfinished_path(out).exists()


def full_disk() -> Iterator[dict[str, object]]:
    yield {"a": 9}
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_error_about_a_full_disk_says_how_many_rows_are_saved(out: Path) -> None:
    said = (
        r"out\.jsonl cannot be written \(No space left .*\); the 2 finished rows are still in .*unfinished; make room"
    )
    with pytest.raises(OutputError, match=said), unfinished_rows(out, MADE_WITH) as rows:
        write_output(out, {}, full_disk(), None, under_way=rows)


def test_next_run_completes_an_output_that_a_full_disk_interrupted(out: Path) -> None:
    with pytest.raises(OutputError), unfinished_rows(out, MADE_WITH) as rows:
        write_output(out, {}, full_disk(), None, under_way=rows)
    with unfinished_rows(out, MADE_WITH) as rows:
        write_output(out, {}, rows_by_position(rows), None, under_way=rows)
    assert len(out.read_text().splitlines()) == 2
