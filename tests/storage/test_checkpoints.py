"""Save and load checkpoints, with real files, locks and processes."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import reasoning_env
from reasoning_env.errors import ConfigError
from reasoning_env.storage.checkpoints import (
    LATEST,
    Checkpoint,
    CheckpointError,
    CheckpointStore,
    find_checkpoint,
    read_checkpoint,
    write_checkpoint,
)
from tests.waiting import PATIENCE_S, wait_until

SAVED_REGISTRATION = 2
STATE = {
    "stream": {"next_index": 9, "positions": ["position"]},
    "sampler": {"signals": {"é\ud800": 0.1}},
    "registration": SAVED_REGISTRATION,
}
MADE_WITH = {"seed": 1, "tasks": ["gcd", "lcm"], "complexity_mode": "fixed"}
NAME = "reasoning_gym"
CHILD = f"""
import itertools, os, subprocess, sys, time, types
from pathlib import Path
package = types.ModuleType("reasoning_env")
package.__path__ = [{str(Path(reasoning_env.__file__).parent)!r}]
sys.modules["reasoning_env"] = package
from reasoning_env.storage.checkpoints import CheckpointStore

root = Path(sys.argv[1])

def tell(*words):
    print(*words, flush=True)

def take(step=0, registration=0):
    store = CheckpointStore({MADE_WITH}, accept_changes=False)
    store.open(str(root), "{NAME}", 0, step=step, registration=registration)
    return store
"""

Start = Callable[[str], "subprocess.Popen[str]"]
Take = Callable[..., CheckpointStore]
Leave = Callable[..., Path]


@pytest.fixture(autouse=True)
def info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "reasoning_env")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts child processes that run some lines of Python with `tmp_path` as `root`."""
    children: list[subprocess.Popen[str]] = []

    def start_child(lines: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", CHILD + lines, str(tmp_path)]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        children.append(child)
        return child

    yield start_child
    for child in children:
        child.kill()
        child.communicate()


def next_line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


@pytest.fixture
def take(tmp_path: Path) -> Iterator[Take]:
    """Makes stores for runs with the given settings, and opens them in `tmp_path`. `step` is the trainer's step."""
    made: list[CheckpointStore] = []

    def take_one(
        instance: int = 0,
        *,
        step: int = 0,
        registration: int = 0,
        name: str = NAME,
        accept_changes: bool = False,
        **other: Any,
    ) -> CheckpointStore:
        store = CheckpointStore({**MADE_WITH, **other}, accept_changes=accept_changes)
        made.append(store)
        store.open(str(tmp_path), name, instance, step=step, registration=registration)
        return store

    yield take_one
    for store in made:
        store.close()


@pytest.fixture
def leave(take: Take) -> Leave:
    """Writes the folder of a process that has ended, with checkpoints of some steps."""

    def leave_one(*steps: int, **how: Any) -> Path:
        store = take(**how)
        folder = folder_of(store)
        for step in steps:
            store.save(step, STATE)
        store.close()
        return folder

    return leave_one


def folder_of(store: CheckpointStore) -> Path:
    assert store.folder is not None
    return store.folder


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


# ---------------------------------------------------------------------------- one file


def write(folder: Path, step: int, name: str | None = None, state: Any = STATE) -> Path:
    path = folder / (name or f"step-{step}.json")
    write_checkpoint(path, step, {"made_with": MADE_WITH, **state})
    return path


def test_checkpoint_read_from_a_file_equals_the_written_checkpoint(tmp_path: Path) -> None:
    path = write(tmp_path, 5)
    assert read_checkpoint(path) == Checkpoint(path, 5, {"made_with": MADE_WITH, **STATE})


def test_error_names_the_unsupported_version_of_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / LATEST
    path.write_text('{"version": 3, "step": 5, "state": {}}')
    with pytest.raises(CheckpointError, match=rf"{LATEST} .* version 3, but this program reads only version \d+"):
        read_checkpoint(path)


# ---------------------------------------------------------------------------- which file

TRAINER_RESTARTED, RESTARTED_ALONE = 0, 3
"""Numbers of registrations: starting again at 0, or after those in SAVED_REGISTRATION."""


@pytest.mark.parametrize(
    ("steps", "latest", "asked", "alone", "with_trainer"),
    [
        ([], None, 5, None, None),
        ([5, 10, 20], None, 15, "step-10.json", "step-10.json"),
        ([9, 10], None, 10, "step-10.json", "step-10.json"),
        ([10], None, 5, None, None),
        ([0], None, 0, "step-0.json", "step-0.json"),
        ([], 3, 5, LATEST, LATEST),
        ([], 6, 5, None, None),
        ([5], 5, 5, LATEST, "step-5.json"),
        ([5], 6, 5, "step-5.json", "step-5.json"),
        ([5, 6], 6, 6, LATEST, "step-6.json"),
        ([4], 4, 5, LATEST, LATEST),
        ([5, 10], 7, 9, LATEST, LATEST),
        # Step 10 belongs to an earlier run, because no step of a run is after its latest file.
        ([5, 10], 7, 10, LATEST, "step-10.json"),
    ],
)
def test_resuming_selects_the_newest_checkpoint_up_to_the_trainer_step(
    tmp_path: Path, steps: list[int], latest: int | None, asked: int, alone: str | None, with_trainer: str | None
) -> None:
    for step in steps:
        write(tmp_path, step)
    if latest is not None:
        write(tmp_path, latest, LATEST)
    for registration, name in ((RESTARTED_ALONE, alone), (TRAINER_RESTARTED, with_trainer)):
        checkpoint = find_checkpoint(tmp_path, asked, registration)
        assert (checkpoint and checkpoint.path.name) == name


def test_damaged_checkpoint_files_are_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for step in (1, 2, 3, 4):
        write(tmp_path, step)
    damaged = [tmp_path / name for name in (LATEST, "step-3.json", "step-2.json")]
    for path in [*damaged, tmp_path / "step-4.json"]:
        path.write_bytes(b"{")
    found = find_checkpoint(tmp_path, 3, 0)
    assert found is not None and found.step == 1
    assert all(str(path) in message for path, message in zip(damaged, warnings(caplog), strict=True))


def test_files_that_are_no_checkpoints_are_ignored(tmp_path: Path) -> None:
    for name in ("step-04x.json", "step-5.json.part", "step--1.json", "xstep-6.json", "step-x.json"):
        write(tmp_path, 3, name)
    assert find_checkpoint(tmp_path, 9, 0) is None


# ---------------------------------------------------------------------------- saving


def test_latest_state_is_saved_without_a_step_file(take: Take) -> None:
    store = take()
    folder = folder_of(store)
    store.save(5, STATE)
    store.save(6, STATE, latest=True)
    store.close()
    assert [read_checkpoint(folder / name).step for name in ("step-5.json", LATEST)] == [5, 6]
    assert not (folder / "step-6.json").exists()


@pytest.fixture
def hanging_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A disk whose writes do not end before the event is set."""
    answers = threading.Event()
    monkeypatch.setattr(os, "fsync", lambda _: answers.wait())
    yield answers
    answers.set()


def test_checkpoint_store_is_busy_while_it_writes(take: Take, hanging_disk: threading.Event) -> None:
    store = take()
    store.save(1, STATE)
    assert store.busy
    hanging_disk.set()
    wait_until(lambda: not store.busy, "the end of the save")


def test_state_that_json_cannot_represent_is_not_saved(take: Take) -> None:
    store = take()
    folder = folder_of(store)
    store.save(5, {"tasks": {"gcd"}})
    store.save(6, STATE)
    store.close()
    assert read_checkpoint(folder / LATEST).step == 6


def test_checkpoints_are_saved_again_when_the_full_disk_has_space(
    take: Take, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = take()
    folder = folder_of(store)
    store.save(1, STATE)
    wait_until(lambda: not store.busy, "the first save")
    full = OSError(errno.ENOSPC, "No space left on device")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", Mock(side_effect=full))
        for step in (2, 3):
            store.save(step, STATE)
            wait_until(lambda: not store.busy, "the save that fails")
            assert read_checkpoint(folder / LATEST).step == 1
    store.save(4, STATE)
    store.close()
    assert read_checkpoint(folder / LATEST).step == 4
    assert len(warnings(caplog)) == 1
    assert "again" in caplog.messages[-1]


def test_closing_the_checkpoint_store_logs_an_error_if_the_last_save_fails(
    take: Take, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = take()
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(errno.EROFS, "Read-only file system")))
    store.save(1, STATE)
    store.close()
    assert caplog.records[-1].levelname == "ERROR"
    assert "the last state was not saved; the next run resumes from an earlier state" in caplog.text


def test_closing_the_checkpoint_store_writes_the_pending_state(take: Take) -> None:
    store = take()
    folder = folder_of(store)
    for step in range(20):
        store.save(step, STATE)
    store.close()
    store.close()
    assert read_checkpoint(folder / "step-19.json").step == 19
    assert take().folder == folder


def test_closing_the_checkpoint_store_does_not_wait_forever_for_a_hanging_disk(
    take: Take, hanging_disk: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    store = take()
    store.save(1, STATE)
    store.close(0.1)
    assert [record.levelname for record in caplog.records][-1] == "ERROR"
    with pytest.raises(ConfigError):
        take()


def test_program_can_exit_while_a_checkpoint_write_hangs(start: Start) -> None:
    child = start(
        """
store = take()
os.fsync = lambda _: time.sleep(1000)
store.save(1, {})
store.close(0.1)
"""
    )
    assert child.wait(PATIENCE_S) == 0


def test_killed_process_releases_the_checkpoint_lock(start: Start, take: Take) -> None:
    child = start(
        """
store = take()
tell(subprocess.Popen(["sleep", "100"], close_fds=False).pid)
sys.stdin.read()
"""
    )
    orphan = int(next_line(child))
    try:
        with pytest.raises(ConfigError):
            take()
        child.kill()
        child.wait(PATIENCE_S)
        os.kill(orphan, 0)
        take()
    finally:
        os.kill(orphan, signal.SIGKILL)


def test_kill_during_a_save_leaves_a_valid_checkpoint(start: Start, tmp_path: Path) -> None:
    """Repeated in one folder: each child process resumes from the state of the previous child process."""
    lines = """
store = take(step=10**9, registration=1)
found = store.load()
for number in itertools.count(found.state["number"] + 1 if found else 1):
    state = {"number": number, "ballast": [number] * 50_000, "registration": 1}
    store.save(number // 3, state, latest=number % 3 > 0)
    while store.busy:
        time.sleep(0.001)
    tell(number)
"""
    chance = random.Random(1)
    path = tmp_path / "env_checkpoints" / "0"
    for _ in range(3):
        child = start(lines)
        told = [next_line(child) for _ in range(chance.randint(1, 6))]
        time.sleep(chance.uniform(0.0, 0.01))
        child.kill()
        assert child.stdout is not None
        # `communicate` would lose the lines that `readline` has buffered.
        last = int([*told, *child.stdout.read().split()][-1])
        state = read_checkpoint(path / LATEST).state
        assert state["number"] in (last, last + 1)
        assert state["ballast"] == [state["number"]] * 50_000
        for file in path.glob("step-*.json"):
            read_checkpoint(file)


# ---------------------------------------------------------------------------- which folder


def test_checkpoint_folder_is_named_after_the_instance_number(take: Take, tmp_path: Path) -> None:
    assert [take(instance).folder for instance in (0, 2)] == [
        tmp_path / "env_checkpoints" / "0",
        tmp_path / "env_checkpoints" / "2",
    ]


def test_opening_a_checkpoint_folder_in_use_raises(take: Take) -> None:
    folder = folder_of(take())
    with pytest.raises(ConfigError, match=rf"^{folder} .* running; .* env\.instance \(0, 1, 2, \.\.\.\)$"):
        take()


def test_new_run_overwrites_earlier_checkpoints_that_have_the_same_step(
    take: Take, leave: Leave, caplog: pytest.LogCaptureFixture
) -> None:
    folder = leave(5, 10, seed=2)
    store = take()
    assert store.load() is None
    [told] = warnings(caplog)
    assert "starts from the beginning" in told and str(folder) in told
    store.save(5, STATE)
    store.close()
    seeds = {path.stem: read_checkpoint(path).state["made_with"]["seed"] for path in folder.glob("*.json")}
    assert seeds == {"latest": 1, "step-5": 1, "step-10": 2}


def test_run_without_a_matching_checkpoint_starts_from_the_beginning(
    take: Take, leave: Leave, caplog: pytest.LogCaptureFixture
) -> None:
    folder = leave(6)
    store = take(step=5)
    assert (store.folder, store.load()) == (folder, None)
    [told] = warnings(caplog)
    assert "starts anew" in told


@pytest.mark.parametrize(("registration", "saved"), [(0, 1), (8, 2)])
def test_resumed_run_loads_the_latest_state_only_if_the_trainer_was_not_restarted(
    take: Take, registration: int, saved: int
) -> None:
    first = take()
    first.save(5, {**STATE, "saved": 1})
    first.save(5, {**STATE, "saved": 2}, latest=True)
    first.close()
    found = take(step=5, registration=registration).load()
    assert found is not None and found.state["saved"] == saved


# ---------------------------------------------------------------------------- other settings


def test_load_method_returns_the_state_of_a_checkpoint_only_once(take: Take, leave: Leave) -> None:
    leave(5)
    store = take(step=7)
    found = store.load()
    assert found is not None
    assert (found.state["stream"], found.state["sampler"]) == (STATE["stream"], STATE["sampler"])
    assert store.load() is None


def test_prefetched_problems_are_discarded_if_settings_changed_before_a_resume(
    take: Take, leave: Leave, caplog: pytest.LogCaptureFixture
) -> None:
    leave(5)
    found = take(step=7, seed=7, accept_changes=True).load()
    assert found is not None
    assert found.state["stream"] == {"next_index": 9, "positions": []}
    assert found.state["sampler"] == STATE["sampler"]
    [told] = warnings(caplog)
    assert "seed" in told


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"seed": 7}, "seed"),
        ({"tasks": ["a"]}, "tasks"),
        ({"seed": 7, "tasks": ["a"]}, "seed .*tasks"),
        ({"name": "other"}, "name"),
    ],
)
def test_resuming_with_changed_settings_raises(take: Take, leave: Leave, other: dict[str, Any], said: str) -> None:
    path = leave(5) / "step-5.json"
    with pytest.raises(ConfigError, match=rf"{path} .* {said}; .* env\.resume_with_changes"):
        take(step=5, **other)
    assert take(step=5).folder == path.parent


# ---------------------------------------------------------------------------- without a folder


def test_no_state_is_saved_if_checkpoint_dir_is_empty() -> None:
    store = CheckpointStore(MADE_WITH, accept_changes=False)
    store.open("", NAME, 0, step=5, registration=0)
    store.save(5, STATE)
    assert (store.folder, store.load(), store.busy) == (None, None, False)


def test_file_system_without_locks_disables_checkpoints(
    take: Take, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(fcntl, "flock", Mock(side_effect=OSError(errno.ENOLCK, "No locks available")))
    store = take()
    store.open(str(tmp_path), NAME, 0, step=0, registration=0)
    assert store.folder is None
    [told] = warnings(caplog)
    assert "No locks available" in told
