"""Who has a `.part`: claims, locks, and what happens when two reach for the same one."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from reasoning_env.rollouts import Outcome, parts, recover_folder, recovery
from reasoning_env.rollouts.files import BatchFiles
from reasoning_env.rollouts.parts import PASSED_PREFIX, BatchName, Lock, claim, parse_part, take_lock

from .groups import names

PREFIX = f"{PASSED_PREFIX}_run"
FIRST, SECOND = f"{PREFIX}_0000.jsonl", f"{PREFIX}_0001.jsonl"


def _before_the_lock(monkeypatch: pytest.MonkeyPatch, module: object, event: Callable[[], object]) -> None:
    """Let something happen, once, after a file was opened by the module and before it is locked."""
    events = [event]

    def lock(fd: int) -> Lock:
        if events:
            events.pop()()
        return take_lock(fd)

    monkeypatch.setattr(module, "take_lock", lock)


@pytest.mark.parametrize("prefix", [PREFIX, parts.FAILED_PREFIX + "_a_1.b"])
@pytest.mark.parametrize("batch", [0, 9999, 12345])
def test_name_of_a_part_is_read_back(tmp_path: Path, prefix: str, batch: int) -> None:
    name = BatchName(tmp_path, prefix, batch)
    assert parse_part(name.part) == name


@pytest.mark.parametrize(
    "other",
    [FIRST, "x_0000.jsonl.part", f"{PREFIX}_00.jsonl.part", f"{PREFIX}_00000.jsonl.part", f"{FIRST}.part.bak"],
)
def test_other_files_are_no_parts(tmp_path: Path, other: str) -> None:
    assert parse_part(tmp_path / other) is None


def test_claimed_part_is_locked_until_it_is_closed(tmp_path: Path) -> None:
    claimed = claim(tmp_path, PREFIX, 0)
    with claimed.name.part.open("rb+") as other:
        assert take_lock(other.fileno()) is Lock.ANOTHERS
        claimed.file.close()
        assert take_lock(other.fileno()) is Lock.OURS


def test_lock_is_not_passed_on_to_programs_that_are_started(tmp_path: Path) -> None:
    claimed = claim(tmp_path, PREFIX, 0)
    command = [sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, close_fds=False) as child:
        assert child.stdout is not None
        child.stdout.readline()
        claimed.file.close()
        assert [report.outcome for report in recover_folder(tmp_path)] == [Outcome.DELETED]
        child.communicate(b"\n")


def test_part_of_a_living_writer_is_left_alone(tmp_path: Path) -> None:
    files = BatchFiles(tmp_path, PREFIX, 9)
    files.append(b"1\n")
    assert [report.outcome for report in recover_folder(tmp_path)] == [Outcome.IN_USE]
    files.append(b"2\n")
    files.finish()
    assert (tmp_path / FIRST).read_bytes() == b"1\n2\n"


def test_restored_part_is_locked(tmp_path: Path) -> None:
    files = BatchFiles(tmp_path, PREFIX, 9)
    files.append(b"1\n")
    files.name.part.unlink()
    files.append(b"2\n")
    assert [report.outcome for report in recover_folder(tmp_path)] == [Outcome.IN_USE]
    files.finish()


def test_part_that_is_recovered_before_its_writer_locks_it_is_claimed_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _before_the_lock(monkeypatch, parts, lambda: recover_folder(tmp_path))
    claimed = claim(tmp_path, PREFIX, 0)
    with claimed.file:
        assert names(tmp_path) == [claimed.name.part.name]
        assert os.path.samestat(os.fstat(claimed.file.fileno()), claimed.name.part.stat())


def test_part_that_a_recoverer_holds_before_its_writer_locks_it_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recoverer = []

    def hold() -> None:
        recoverer.append((tmp_path / f"{FIRST}.part").open("rb+"))
        assert take_lock(recoverer[0].fileno()) is Lock.OURS

    _before_the_lock(monkeypatch, parts, hold)
    with claim(tmp_path, PREFIX, 0).file, recoverer[0]:
        assert names(tmp_path) == [f"{FIRST}.part", f"{SECOND}.part"]


def test_part_that_its_writer_finishes_before_the_recoverer_locks_it_stays_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = BatchFiles(tmp_path, PREFIX, 9)
    files.append(b"1\n")
    _before_the_lock(monkeypatch, recovery, files.finish)
    assert recover_folder(tmp_path) == []
    assert names(tmp_path) == [FIRST]


def test_part_whose_path_passed_to_another_writer_is_left_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{FIRST}.part").write_bytes(b"old\n")
    theirs = BatchFiles(tmp_path, PREFIX, 9)

    def change_hands() -> None:
        (tmp_path / f"{FIRST}.part").unlink()
        theirs.append(b"new\n")

    _before_the_lock(monkeypatch, recovery, change_hands)
    assert recover_folder(tmp_path) == []
    theirs.finish()
    assert (tmp_path / FIRST).read_bytes() == b"new\n"


def test_part_that_another_recoverer_completes_first_is_completed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{FIRST}.part").write_bytes(b"1\n")
    _before_the_lock(monkeypatch, recovery, lambda: recover_folder(tmp_path))
    assert recover_folder(tmp_path) == []
    assert (tmp_path / FIRST).read_bytes() == b"1\n"
    assert names(tmp_path) == [FIRST]


def _refuse_locks(fd: int, operation: int) -> None:
    raise OSError(errno.ENOLCK, "No locks available")


@pytest.fixture(params=["no locks", "no fcntl"])
def _no_locks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "no locks":
        monkeypatch.setattr(fcntl, "flock", _refuse_locks)
    else:
        monkeypatch.setattr(parts, "fcntl", None)


@pytest.mark.usefixtures("_no_locks")
def test_without_locks_files_are_written_and_it_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = BatchFiles(tmp_path, PREFIX, 1)
    for _ in range(3):
        files.append(b"1\n")
        files.finish()
    assert len(names(tmp_path)) == 3
    assert sum(record.levelname == "WARNING" for record in caplog.records) == 1


@pytest.mark.usefixtures("_no_locks")
@pytest.mark.parametrize(("older_s", "outcome"), [(-60, Outcome.IN_USE), (60, Outcome.COMPLETED)])
def test_without_locks_the_age_of_a_part_decides(tmp_path: Path, older_s: float, outcome: Outcome) -> None:
    part = tmp_path / f"{FIRST}.part"
    part.write_bytes(b"1\n")
    changed_s = part.stat().st_mtime - parts.UNLOCKED_AGE_S - older_s
    os.utime(part, (changed_s, changed_s))
    assert [report.outcome for report in recover_folder(tmp_path)] == [outcome]
