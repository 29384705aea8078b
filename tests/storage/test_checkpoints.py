"""Real files, locks and processes; a child imports the module without the rest of the package, so it starts at once."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import random
import signal
import subprocess
import sys
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
    StateKeeper,
    find_checkpoint,
    read_checkpoint,
    write_checkpoint,
)
from tests.waiting import PATIENCE_S, wait_until

STATE = {"stream": {"next_index": 9, "positions": ["position"]}, "sampler": {"signals": {"é\ud800": 0.1}}}
MADE_WITH = {"seed": 1, "tasks": ["gcd", "lcm"], "complexity_mode": "fixed"}
NAME = "reasoning_gym"
CHILD = f"""
import itertools, os, subprocess, sys, time, types
from pathlib import Path
package = types.ModuleType("reasoning_env")
package.__path__ = [{str(Path(reasoning_env.__file__).parent)!r}]
sys.modules["reasoning_env"] = package
from reasoning_env.storage.checkpoints import StateKeeper

root = Path(sys.argv[1])

def tell(*words):
    print(*words, flush=True)

def take(name="{NAME}", number=0, step=0):
    keeper = StateKeeper({MADE_WITH}, accept_changes=False)
    keeper.open(str(root), name, number, step=step)
    return keeper
"""

Start = Callable[[str], "subprocess.Popen[str]"]
Take = Callable[..., StateKeeper]
Leave = Callable[..., Path]


@pytest.fixture(autouse=True)
def info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "reasoning_env")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts children that run some lines, with `tmp_path` as their `root`."""
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
    """Makes keepers for runs with some settings and opens them in `tmp_path`; `step` is the trainer's."""
    made: list[StateKeeper] = []

    def take_one(
        number: int = 0, *, step: int = 0, name: str = NAME, accept_changes: bool = False, **other: Any
    ) -> StateKeeper:
        keeper = StateKeeper({**MADE_WITH, **other}, accept_changes=accept_changes)
        made.append(keeper)
        keeper.open(str(tmp_path), name, number, step=step)
        return keeper

    yield take_one
    for keeper in made:
        keeper.close()


@pytest.fixture
def leave(take: Take) -> Leave:
    """Leaves the folders of processes that are gone, each with the checkpoints of some steps."""

    def leave_one(number: int, *steps: int, **how: Any) -> Path:
        keeper = take(number, **how)
        assert keeper.number == number
        for step in steps:
            keeper.save(step, {**STATE, "from": number})
        folder = keeper.folder
        keeper.close()
        assert folder is not None
        return folder

    return leave_one


def folder_of(keeper: StateKeeper) -> Path:
    assert keeper.folder is not None
    return keeper.folder


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


# ---------------------------------------------------------------------------- one file


def write(folder: Path, step: int, name: str | None = None, state: Any = STATE) -> Path:
    path = folder / (name or f"step-{step}.json")
    write_checkpoint(path, step, state)
    return path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, 5)
    assert read_checkpoint(path) == Checkpoint(path, 5, STATE)


def test_cut_file_is_refused_wherever_it_ends(tmp_path: Path) -> None:
    path = write(tmp_path, 5)
    whole = path.read_bytes()
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        with pytest.raises(CheckpointError):
            read_checkpoint(path)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"\0" * 100, ""),
        (b"\xff\xfe\xfd", ""),
        (b"[" * 100_000, ""),
        (b"[1, 2]", ""),
        (b'"version"', ""),
        (b'{"step": 5, "state": {}}', ""),
        (b'{"version": 3, "step": 5, "state": {}}', r"\b3\b"),
        (None, ""),
    ],
)
def test_file_that_is_no_checkpoint_of_this_version_is_refused(
    tmp_path: Path, content: bytes | None, named: str
) -> None:
    path = tmp_path / LATEST
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(CheckpointError, match=f"{LATEST} .*{named}"):
        read_checkpoint(path)


# ---------------------------------------------------------------------------- which file


@pytest.mark.parametrize(
    ("steps", "latest", "asked", "found", "of_the_step"),
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
        ([5], 4, 5, "step-5.json", "step-5.json"),
        ([4], 4, 5, LATEST, LATEST),
        ([5, 10], 7, 9, LATEST, LATEST),
        ([5, 10], 7, 10, "step-10.json", "step-10.json"),
    ],
)
def test_newest_checkpoint_not_after_the_step_is_found(
    tmp_path: Path, steps: list[int], latest: int | None, asked: int, found: str | None, of_the_step: str | None
) -> None:
    for step in steps:
        write(tmp_path, step)
    if latest is not None:
        write(tmp_path, latest, LATEST)
    for prefer_latest, name in ((True, found), (False, of_the_step)):
        checkpoint = find_checkpoint(tmp_path, asked, prefer_latest=prefer_latest)
        assert (checkpoint and checkpoint.path.name) == name


def test_damaged_checkpoints_are_passed_over_each_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for step in (1, 2, 3, 4):
        write(tmp_path, step)
    damaged = [tmp_path / name for name in (LATEST, "step-3.json", "step-2.json")]
    for path in [*damaged, tmp_path / "step-4.json"]:
        path.write_bytes(b"{")
    found = find_checkpoint(tmp_path, 3, prefer_latest=True)
    assert found is not None and found.step == 1
    assert all(str(path) in message for path, message in zip(damaged, warnings(caplog), strict=True))


def test_only_files_named_for_a_step_are_looked_at(tmp_path: Path) -> None:
    for name in ("step-04x.json", "step-5.json.part", "step--1.json", "xstep-6.json", "step-x.json"):
        write(tmp_path, 3, name)
    assert find_checkpoint(tmp_path, 9, prefer_latest=True) is None


# ---------------------------------------------------------------------------- saving


def test_step_is_saved_under_its_name_and_as_the_latest(take: Take) -> None:
    keeper = take()
    folder = folder_of(keeper)
    keeper.save(5, STATE)
    keeper.save(6, STATE, latest=True)
    keeper.close()
    assert [read_checkpoint(folder / name).step for name in ("step-5.json", LATEST)] == [5, 6]
    assert not (folder / "step-6.json").exists()


def test_keeper_is_busy_until_all_is_written(take: Take) -> None:
    keeper = take()
    pipe = folder_of(keeper) / f"{LATEST}.part"
    os.mkfifo(pipe)  # the next save waits until it is read, and then fails
    keeper.save(1, STATE)
    assert keeper.busy
    pipe.read_bytes()
    wait_until(lambda: not keeper.busy, "the end of the save")


def test_state_that_json_cannot_hold_costs_only_its_own_save(take: Take) -> None:
    keeper = take()
    folder = folder_of(keeper)
    keeper.save(5, {"tasks": {"gcd"}})
    keeper.save(6, STATE)
    keeper.close()
    assert read_checkpoint(folder / LATEST).step == 6


def test_full_disk_leaves_what_was_there_and_is_said_once(take: Take, caplog: pytest.LogCaptureFixture) -> None:
    keeper = take()
    folder = folder_of(keeper)
    keeper.save(1, STATE)
    wait_until(lambda: not keeper.busy, "the first save")
    for step in (2, 3):
        (folder / f"{LATEST}.part").symlink_to("/dev/full")
        keeper.save(step, STATE)
        wait_until(lambda: not keeper.busy, "the save that fails")
        assert read_checkpoint(folder / LATEST).step == 1
    keeper.save(4, STATE)
    keeper.close()
    assert read_checkpoint(folder / LATEST).step == 4
    assert len(warnings(caplog)) == 1
    assert "again" in caplog.messages[-1]


def test_close_writes_what_waits_and_releases_the_folder(take: Take) -> None:
    keeper = take()
    folder = folder_of(keeper)
    for step in range(20):
        keeper.save(step, STATE)
    keeper.close()
    keeper.close()
    assert read_checkpoint(folder / "step-19.json").step == 19
    assert take(0).folder == folder


def test_close_gives_up_on_a_disk_that_hangs_and_keeps_the_folder(take: Take, caplog: pytest.LogCaptureFixture) -> None:
    keeper = take()
    pipe = folder_of(keeper) / f"{LATEST}.part"
    os.mkfifo(pipe)
    keeper.save(1, STATE)
    keeper.close(0.1)
    assert [record.levelname for record in caplog.records][-1] == "ERROR"
    assert take(0).number == 1
    pipe.read_bytes()


def test_process_ends_though_the_disk_hangs(start: Start) -> None:
    child = start(
        """
keeper = take()
os.mkfifo(keeper.folder / "latest.json.part")
keeper.save(1, {})
keeper.close(0.1)
"""
    )
    assert child.wait(PATIENCE_S) == 0


def test_kill_releases_the_folder_though_a_child_of_the_process_lives_on(start: Start, take: Take) -> None:
    child = start(
        """
keeper = take()
tell(subprocess.Popen(["sleep", "100"], close_fds=False).pid)
sys.stdin.read()
"""
    )
    orphan = int(next_line(child))
    try:
        assert take().number == 1
        child.kill()
        child.wait(PATIENCE_S)
        os.kill(orphan, 0)
        assert take().number == 0
    finally:
        os.kill(orphan, signal.SIGKILL)


def test_kill_in_the_middle_of_a_save_loses_nothing_that_was_written(start: Start, tmp_path: Path) -> None:
    """Over and over in one folder, each child going on from what the one before it had saved."""
    lines = """
keeper = take(step=10**9)
found = keeper.load()
for number in itertools.count(found.state["number"] + 1 if found else 1):
    state = {"number": number, "ballast": [number] * 50_000}
    keeper.save(number // 3, state, latest=number % 3 > 0)
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
        assert child.stdout is not None
        # Not `communicate`, which reads past the lines that `readline` has buffered.
        last = int([*told, *child.stdout.read().split()][-1])
        state = read_checkpoint(path / LATEST).state
        assert state["number"] in (last, last + 1)
        assert state["ballast"] == [state["number"]] * 50_000
        for file in path.glob("step-*.json"):
            read_checkpoint(file)


# ---------------------------------------------------------------------------- which folder


def test_own_folder_comes_first_then_the_others_by_number_then_a_new_one(take: Take, leave: Leave) -> None:
    for number in (0, 2, 3, 10):
        leave(number, 5)
    taken = [take(2, step=5) for _ in range(5)]
    assert [keeper.number for keeper in taken] == [2, 0, 3, 10, 4]
    assert [found and found.state["from"] for found in (keeper.load() for keeper in taken)] == [2, 0, 3, 10, None]


@pytest.mark.parametrize("how", [{"name": "other"}, {"seed": 2}, {"tasks": ["gcd"]}])
def test_folder_of_another_name_seed_or_tasks_does_not_fit(take: Take, leave: Leave, how: dict[str, Any]) -> None:
    leave(0, 5, **how)
    leave(1, 5)
    assert [take(0, step=5).number, take(7, step=5).number] == [1, 7]


def test_folder_with_later_or_damaged_checkpoints_only_is_left_alone(
    take: Take, leave: Leave, caplog: pytest.LogCaptureFixture
) -> None:
    leave(0, 6)
    damaged = leave(1, 5)
    for path in damaged.glob("*.json"):
        path.write_bytes(b"{")
    keeper = take(1, step=5)
    assert (keeper.number, keeper.load()) == (2, None)
    assert len(warnings(caplog)) == 3
    assert (damaged / "step-5.json").read_bytes() == b"{"


def test_a_new_run_puts_an_earlier_ones_files_aside(leave: Leave) -> None:
    for _ in range(3):
        folder = leave(0, 0)
    assert sorted(str(path.relative_to(folder)) for path in folder.glob("earlier-*/*")) == [
        f"earlier-{run}/{name}" for run in (1, 2) for name in (LATEST, "step-0.json")
    ]


@pytest.mark.parametrize(("number", "saved"), [(0, 1), (8, 2)])
def test_a_return_alone_goes_on_from_the_newest_state_and_one_with_the_trainer_from_that_of_its_step(
    take: Take, number: int, saved: int
) -> None:
    first = take(0)
    first.save(5, {**STATE, "saved": 1})
    first.save(5, {**STATE, "saved": 2}, latest=True)
    first.close()
    found = take(number, step=5).load()
    assert found is not None and found.state["saved"] == saved


@pytest.mark.parametrize("step", [0, 5])
def test_processes_that_start_together_never_share_a_number(start: Start, leave: Leave, step: int) -> None:
    """Each has a name of its own or shares it with another; what is there goes to one of that name."""
    for number, name in enumerate(("a", "b", "a", "b")):
        leave(number, 5, name=name)
    lines = f"""
tell("ready")
keeper = take(sys.stdin.readline().strip(), 1, {step})
tell(keeper.number, keeper.load() is not None)
sys.stdin.read()
"""
    children = [start(lines) for _ in range(8)]
    assert [next_line(child) for child in children] == ["ready"] * 8
    for number, child in enumerate(children):
        assert child.stdin is not None
        child.stdin.write(f"{'aab'[number % 3]}\n")
        child.stdin.flush()
    told = sorted(next_line(child) for child in children)
    went_on, new = [f"{number} True" for number in range(4)], [f"{number} False" for number in range(4, 8)]
    assert told == (went_on + new if step else [f"{number} False" for number in range(1, 9)])


# ---------------------------------------------------------------------------- other settings


def test_state_is_handed_over_once(take: Take, leave: Leave) -> None:
    leave(0, 5)
    keeper = take(0, step=7)
    found = keeper.load()
    assert found is not None
    assert (found.state["stream"], found.state["sampler"]) == (STATE["stream"], STATE["sampler"])
    assert keeper.load() is None


def test_a_run_goes_on_with_changes_that_it_accepts_without_what_was_drawn(
    take: Take, leave: Leave, caplog: pytest.LogCaptureFixture
) -> None:
    leave(0, 5)
    found = take(0, step=7, seed=7, accept_changes=True).load()
    assert found is not None
    assert found.state["stream"] == {"next_index": 9, "positions": []}
    assert found.state["sampler"] == STATE["sampler"]
    [told] = warnings(caplog)
    assert "seed" in told


@pytest.mark.parametrize(
    ("other", "said"),
    [({"seed": 7}, "seed"), ({"tasks": ["a"]}, "tasks"), ({"seed": 7, "tasks": ["a"]}, "seed .*tasks")],
)
def test_a_checkpoint_of_its_own_number_but_other_settings_is_refused(
    take: Take, leave: Leave, other: dict[str, Any], said: str
) -> None:
    path = leave(0, 5) / "step-5.json"
    leave(1, 5)
    with pytest.raises(ConfigError, match=rf"{path} .* {said}; .* env\.resume_with_changes"):
        take(0, step=5, **other)
    assert take(0, step=5).number == 0


# ---------------------------------------------------------------------------- without a folder


def test_without_a_checkpoint_dir_nothing_is_kept() -> None:
    keeper = StateKeeper(MADE_WITH, accept_changes=False)
    keeper.open("", NAME, 0, step=5)
    keeper.save(5, STATE)
    assert (keeper.folder, keeper.number, keeper.load(), keeper.busy) == (None, None, None, False)


def test_file_system_without_locks_is_told_once(
    take: Take, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(fcntl, "flock", Mock(side_effect=OSError(errno.ENOLCK, "No locks available")))
    keeper = take(0)
    keeper.open(str(tmp_path), NAME, 0, step=0)
    assert keeper.folder is None
    [told] = warnings(caplog)
    assert "No locks available" in told
