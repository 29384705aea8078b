"""The writer on a small disk of its own that really fills up."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from reasoning_env.rollouts import RolloutDumper, read_groups, writer

from .conftest import MakeDumper
from .groups import PASSED, indices, make_group, passed, wait_until

DISK_KB = 256
TEXT = "x" * 4_000


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file system of 256 kB, and a writer that looks often whether it has room again."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    if mount is None:
        pytest.skip("there is no mount command")
    command = [mount, "-t", "tmpfs", "-o", f"size={DISK_KB}k", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"a file system cannot be mounted, which takes root: {mounted.stderr.strip()}")
    monkeypatch.setattr(writer, "RETRY_S", 0.01)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _fill(disk: Path, dumper: RolloutDumper) -> int:
    """Offer groups until the disk refuses one; returns how many."""
    (disk / "filler").write_bytes(b"x" * 150_000)
    count = 0
    while dumper.stats().waiting == 0:
        dumper.offer(make_group((1.0,), count, text=TEXT))
        count += 1
        dumper.settled().result(10)
    assert 0 < dumper.stats().passed_groups < count
    return count


def test_full_disk_that_gets_room_again_has_every_group_in_order(disk: Path, make_dumper: MakeDumper) -> None:
    dumper = make_dumper(disk)
    count = _fill(disk, dumper)
    for index in range(count, count + 5):
        dumper.offer(make_group((1.0,), index, text=TEXT))
    (disk / "filler").unlink()
    wait_until(lambda: dumper.stats().waiting == 0)
    assert indices(read_groups(disk / (PASSED.format(0) + ".part"))) == list(range(count + 5))
    assert dumper.stats().dropped == 0


def test_groups_beyond_the_memory_limit_on_a_full_disk_are_counted(
    disk: Path, make_dumper: MakeDumper, monkeypatch: pytest.MonkeyPatch
) -> None:
    dumper = make_dumper(disk)
    count = _fill(disk, dumper)
    monkeypatch.setattr(writer, "MAX_WAITING_BYTES", 20_000)
    for index in range(count, count + 20):
        dumper.offer(make_group((1.0,), index, text=TEXT))
    waiting, lost = dumper.stats().waiting, dumper.stats().dropped
    assert waiting + lost == 21 and lost > 0
    (disk / "filler").unlink()
    wait_until(lambda: dumper.stats().waiting == 0)
    assert dumper.stats().dropped == lost
    assert dumper.stats().passed_groups == count + 20 - lost


def test_what_fits_is_written_at_the_end_though_not_all_does(disk: Path, make_dumper: MakeDumper) -> None:
    dumper = make_dumper(disk)
    (disk / "filler").write_bytes(b"x" * 150_000)
    for index in range(40):  # at once, so that they are one batch
        dumper.offer(make_group((1.0,), index, text=TEXT))
    dumper.close()
    stats = dumper.stats()
    assert 10 < stats.passed_groups < 30
    assert stats.passed_groups + stats.dropped == 40
    assert indices(read_groups(disk / PASSED.format(0))) == list(range(stats.passed_groups))


def test_torn_line_on_a_full_disk_is_cut_off_by_the_next_run(disk: Path, make_dumper: MakeDumper) -> None:
    dumper = make_dumper(disk)
    count = _fill(disk, dumper)
    dumper.freeze()
    dumper.close()
    make_dumper(disk, "next").close()
    assert indices(read_groups(disk / PASSED.format(0))) == list(range(count - 1))


def test_folder_removed_from_a_full_disk_is_made_again_with_every_group(disk: Path, make_dumper: MakeDumper) -> None:
    dumper = make_dumper(disk / "dumps")
    dumper.offer(passed(0))
    dumper.settled().result(10)
    (disk / "filler").write_bytes(b"x" * (DISK_KB - 8) * 1024)
    shutil.rmtree(disk / "dumps")
    for index in range(1, 60):
        dumper.offer(passed(index))
    dumper.settled().result(10)
    assert dumper.stats().waiting > 0
    (disk / "filler").unlink()
    wait_until(lambda: dumper.stats().waiting == 0)
    dumper.close()
    assert indices(read_groups(disk / "dumps")) == list(range(60))
