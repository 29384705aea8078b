from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from reasoning_env.checkpoints.files import LATEST, read_checkpoint, step_file
from reasoning_env.checkpoints.folder import GROUP_FILES, CheckpointFolder, group_file, take_folder
from tests.waiting import PATIENCE_S

from .conftest import Start, encoded, next_line

Take = Callable[[], "CheckpointFolder | None"]


@pytest.fixture
def take(tmp_path: Path) -> Iterator[Take]:
    """Takes the folder `0` in `tmp_path`."""
    taken: list[CheckpointFolder] = []

    def take_it() -> CheckpointFolder | None:
        folder = take_folder(tmp_path / "0")
        taken.extend([folder] if folder else [])
        return folder

    yield take_it
    for folder in taken:
        folder.close()


@pytest.fixture
def folder(take: Take) -> CheckpointFolder:
    folder = take()
    assert folder is not None
    return folder


def kept(folder: CheckpointFolder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.path.glob(GROUP_FILES)}


def test_groups_that_wait_are_kept_but_those_that_could_not_be_encoded(folder: CheckpointFolder) -> None:
    failed: Future[bytes] = Future()
    cancelled: Future[bytes] = Future()
    pending: Future[bytes] = Future()
    failed.set_exception(TypeError())
    cancelled.cancel()
    saved = folder.save(5, {}, list(enumerate([*encoded(b"first"), failed, cancelled, pending], start=1)))
    pending.set_result(b"last")
    assert saved.result(PATIENCE_S)
    assert kept(folder) == {"undelivered-1.gz": b"first", "undelivered-4.gz": b"last"}


def test_each_group_is_written_once_and_removed_when_it_waits_no_more(folder: CheckpointFolder) -> None:
    waiting = list(enumerate(encoded(b"1", b"2", b"3"), start=1))
    folder.save(1, {}, waiting[:2]).result(PATIENCE_S)
    file = group_file(folder.path, 2).stat().st_ino
    folder.save(2, {}, waiting[1:]).result(PATIENCE_S)
    assert kept(folder) == {"undelivered-2.gz": b"2", "undelivered-3.gz": b"3"}
    assert group_file(folder.path, 2).stat().st_ino == file
    folder.save(3, {}).result(PATIENCE_S)
    assert kept(folder) == {}


def test_groups_of_an_earlier_process_are_replaced_with_the_first_save(folder: CheckpointFolder, take: Take) -> None:
    folder.save(1, {}, list(enumerate(encoded(b"1", b"2", b"3"), start=1))).result(PATIENCE_S)
    folder.close()
    again = take()
    assert again is not None
    # It went on from a checkpoint that names the first of them alone, so that their numbers are given again.
    again.save(1, {}, list(enumerate(encoded(b"1", b"new"), start=1))).result(PATIENCE_S)
    assert kept(again) == {"undelivered-1.gz": b"1", "undelivered-2.gz": b"new"}


def test_state_that_json_cannot_hold_costs_only_its_own_save(folder: CheckpointFolder) -> None:
    assert not folder.save(5, {"tasks": {"gcd"}}).result(PATIENCE_S)
    assert folder.save(5, {}, latest=True).result(PATIENCE_S)


def test_full_disk_is_said_once_and_when_it_is_over(folder: CheckpointFolder, caplog: pytest.LogCaptureFixture) -> None:
    folder.save(1, {"saved": 1}).result(PATIENCE_S)
    for step in (2, 3):
        (folder.path / f"{LATEST}.part").symlink_to("/dev/full")
        assert not folder.save(step, {}, list(enumerate(encoded(b"group"), start=step))).result(PATIENCE_S)
        assert read_checkpoint(folder.path / LATEST).state == {"saved": 1}
    assert folder.save(4, {}).result(PATIENCE_S)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


def test_close_writes_what_waits_and_releases_the_folder(folder: CheckpointFolder, take: Take) -> None:
    assert take() is None
    for step in range(20):
        folder.save(step, {"step": step})
    folder.close()
    folder.close()
    assert read_checkpoint(folder.path / step_file(19)).state == {"step": 19}
    assert take() is not None


def test_close_gives_up_on_a_disk_that_hangs_and_keeps_the_folder(
    folder: CheckpointFolder, take: Take, caplog: pytest.LogCaptureFixture
) -> None:
    pipe = folder.path / f"{LATEST}.part"
    os.mkfifo(pipe)  # the next save waits until it is read, and then fails
    folder.save(1, {})
    folder.close(0.1)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert take() is None
    pipe.read_bytes()
    folder.close()
    assert take() is not None


def test_process_ends_though_the_disk_hangs(start: Start) -> None:
    child = start(
        """
folder = take_folder(root / "0")
os.mkfifo(folder.path / "latest.json.part")
folder.save(1, {})
folder.close(0.1)
"""
    )
    assert child.wait(PATIENCE_S) == 0


def test_kill_releases_the_folder_though_a_child_of_the_process_lives_on(start: Start, take: Take) -> None:
    child = start(
        """
folder = take_folder(root / "0")
tell(subprocess.Popen(["sleep", "100"], close_fds=False).pid)
sys.stdin.read()
"""
    )
    orphan = int(next_line(child))
    try:
        assert take() is None
        child.kill()
        child.wait(PATIENCE_S)
        os.kill(orphan, 0)
        assert take() is not None
    finally:
        os.kill(orphan, signal.SIGKILL)


def test_kill_in_the_middle_of_a_save_loses_nothing_that_was_written(start: Start, tmp_path: Path) -> None:
    """Over and over in one folder, each child going on from what the one before it had saved."""
    lines = """
keeper = StateKeeper({}, accept_changes=False)
keeper.open(str(root), "env", 0, step=10**9)
resumed = keeper.load()
waiting = [(number, body(number)) for number, _ in resumed.undelivered] if resumed else []
for number in itertools.count(resumed.next_number if resumed else 1):
    waiting = [*waiting, (number, body(number))] if number % 20 else []  # all were delivered
    keeper.save(number // 3, {"ballast": [number] * 50_000}, waiting, number - len(waiting), latest=number % 3 > 0)
    while keeper.busy:
        time.sleep(0.001)
    tell(number)
"""
    chance = random.Random(1)
    path = tmp_path / "env_checkpoints" / "0"
    for _ in range(8):
        child = start(lines)
        told = [next_line(child) for _ in range(chance.randint(1, 6))]
        time.sleep(chance.uniform(0.0, 0.01))
        child.kill()
        last = int([*told, *child.communicate()[0].split()][-1])
        state = read_checkpoint(path / LATEST).state
        saved = state["delivery"]["next_number"] - 1
        assert saved in (last, last + 1)
        assert state["ballast"] == [saved] * 50_000
        for number in range(state["delivery"]["delivered_up_to"] + 1, saved + 1):
            assert group_file(path, number).read_bytes() == bytes([number % 256]) * 5000
        for file in path.glob("step-*.json"):
            read_checkpoint(file)
