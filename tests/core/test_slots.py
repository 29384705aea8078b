"""With real files, real locks and real processes; a child imports the module alone, which makes it start at once."""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import reasoning_env
from reasoning_env.checkpoints import (
    LATEST,
    PART,
    encode_checkpoint,
    find_checkpoint,
    read_checkpoint,
    step_file,
    write_checkpoint,
)
from reasoning_env.slots import LOCK, Saved, Slot, claim_number, open_slot

NAME = "reasoning_gym"
WAIT_S = 60.0

CHILD = f"""
import itertools, json, subprocess, sys, time, types
from pathlib import Path
package = types.ModuleType("reasoning_env")
package.__path__ = [{str(Path(reasoning_env.__file__).parent)!r}]
sys.modules["reasoning_env"] = package
from reasoning_env.slots import Saved, open_slot

def tell(*words):
    print(*words, flush=True)

def open_for(number, **how):
    slot = open_slot(Path(sys.argv[1]), {NAME!r}, number, **how)
    tell(slot.number)
    return slot
"""
HOLD = "slot = open_for(int(sys.argv[2]), step=0, rank=len, adopt=False)\nsys.stdin.read()"


@pytest.fixture(autouse=True)
def info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "reasoning_env")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts children that run some lines with `tmp_path` as their first argument."""
    children: list[subprocess.Popen[str]] = []

    def start_child(lines: str, *arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", CHILD + lines, str(tmp_path), *map(str, arguments)]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        children.append(child)
        return child

    yield start_child
    for child in children:
        child.kill()
        child.communicate()


@pytest.fixture
def take(tmp_path: Path) -> Iterator[Callable[..., Slot]]:
    """Opens slots in `tmp_path`."""
    slots: list[Slot] = []

    def open_one(
        number: int = 0,
        *,
        step: int = 0,
        adopt: bool = False,
        rank: Callable[[Mapping[str, Any]], int | None] = lambda _: 0,
    ) -> Slot:
        slot = open_slot(tmp_path, NAME, number, step=step, rank=rank, adopt=adopt)
        assert slot is not None
        slots.append(slot)
        return slot

    yield open_one
    for slot in slots:
        slot.close()


Take = Callable[..., Slot]
Start = Callable[..., "subprocess.Popen[str]"]


def leave(root: Path, number: int, *steps: int, state: dict[str, Any] | None = None) -> Path:
    """What a process that is gone left behind: its folder with the checkpoints of some steps."""
    folder = root / f"{NAME}_{number}"
    folder.mkdir(exist_ok=True)
    (folder / LOCK).touch()
    for step in steps:
        write_checkpoint(folder, step_file(step), encode_checkpoint(step, state or {"number": number}))
    return folder


def given(state: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    return lambda: state


def line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


# ---------------------------------------------------------------------------- which folder


def test_first_step_takes_its_own_folder_whatever_others_left(take: Take, tmp_path: Path) -> None:
    leave(tmp_path, 0, 5)
    assert take(1).folder == tmp_path / "reasoning_gym_1"


def test_own_checkpoints_come_before_newer_ones_of_others(take: Take, tmp_path: Path) -> None:
    leave(tmp_path, 0, 5, 10)
    leave(tmp_path, 1, 5)
    assert take(1, step=10, adopt=True).number == 1


def test_restart_alone_goes_on_in_the_place_of_its_predecessor(
    take: Take, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = leave(tmp_path, 0, 5)
    slot = take(1, step=7, adopt=True)
    assert (slot.number, slot.folder) == (0, folder)
    assert caplog.messages == [
        f"checkpoints are kept in {folder}: this environment takes the place of one whose process is gone"
    ]


def test_predecessor_with_the_newest_checkpoint_comes_first(take: Take, tmp_path: Path) -> None:
    for number, steps in enumerate([(5,), (5, 10), (5, 20), (5, 10)]):
        leave(tmp_path, number, *steps)
    assert [take(4 + late, step=15, adopt=True).number for late in range(5)] == [1, 3, 0, 2, 8]


def test_latest_checkpoint_of_a_predecessor_counts(take: Take, tmp_path: Path) -> None:
    leave(tmp_path, 0, 5)
    write_checkpoint(leave(tmp_path, 1), LATEST, encode_checkpoint(6, {}))
    assert take(2, step=6, adopt=True).number == 1


def test_state_that_does_not_fit_is_not_adopted(take: Take, tmp_path: Path) -> None:
    leave(tmp_path, 0, 5, state={"seed": 1})
    leave(tmp_path, 1, 4, state={"seed": 2})
    assert take(2, step=5, adopt=True, rank=lambda state: 0 if state["seed"] == 2 else None).number == 1
    assert take(3, step=5, adopt=True, rank=lambda state: 0 if state["seed"] == 2 else None).number == 3


def test_place_of_a_living_process_is_not_adopted(start: Start, take: Take, tmp_path: Path) -> None:
    child = start(HOLD, 0)
    assert line(child) == "0"
    write_checkpoint(tmp_path / "reasoning_gym_0", step_file(5), encode_checkpoint(5, {}))
    assert take(1, step=5, adopt=True).number == 1


@pytest.mark.parametrize(
    "left", ["reasoning_gym_2_0", "other_0", "reasoning_gym", "reasoning_gym_x", "reasoning_gym_00"]
)
def test_folder_of_another_name_is_not_adopted(take: Take, tmp_path: Path, left: str) -> None:
    leave(tmp_path, 0, 5).rename(tmp_path / left)
    assert take(1, step=5, adopt=True).number == 1


def test_own_folder_with_later_checkpoints_only_is_the_last_resort(take: Take, tmp_path: Path) -> None:
    leave(tmp_path, 0, 5)
    leave(tmp_path, 1, 10)
    assert take(1, step=7, adopt=True).number == 0
    assert take(1, step=7, adopt=True).number == 1


def test_own_folder_with_damaged_checkpoints_is_still_its_own(take: Take, tmp_path: Path) -> None:
    leave(tmp_path, 0, 5)
    (leave(tmp_path, 1, 5) / step_file(5)).write_bytes(b"{")
    assert take(1, step=5, adopt=True).number == 1


def test_damaged_checkpoints_of_others_are_not_adopted(take: Take, tmp_path: Path) -> None:
    (leave(tmp_path, 0, 5) / step_file(5)).write_bytes(b"{")
    assert take(1, step=5, adopt=True).number == 1


def test_folder_held_by_another_process_gives_way_to_the_next_free_one(
    start: Start, take: Take, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert [line(start(HOLD, number)) for number in (1, 2)] == ["1", "2"]
    slot = take(1)
    assert (slot.number, slot.folder) == (3, tmp_path / "reasoning_gym_3")
    assert caplog.messages == [
        f"checkpoints are kept in {slot.folder}: another process holds the folder of this environment's number"
    ]


def test_free_folder_with_checkpoints_is_taken_at_the_first_step_only(take: Take, tmp_path: Path) -> None:
    leave(tmp_path, 1, 5)
    first = take(0)
    assert take(0, step=3, adopt=True).number == 2
    assert take(0).number == 1
    first.close()
    assert take(0).number == 0


def test_of_several_predecessors_the_one_that_suits_best_is_taken(take: Take, tmp_path: Path) -> None:
    leave(tmp_path, 0, 4, state={"differences": 0})
    leave(tmp_path, 1, 5, state={"differences": 2})
    assert take(7, step=5, adopt=True, rank=lambda state: state["differences"]).number == 0


def test_a_new_run_puts_an_earlier_ones_checkpoints_aside(take: Take, tmp_path: Path) -> None:
    for _ in range(2):
        folder = leave(tmp_path, 0, 4, 9)
        slot = take(0)
        assert list(folder.glob("*.json")) == []
        slot.close()
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*.json")) == [
        "earlier-1/step-4.json",
        "earlier-1/step-9.json",
        "earlier-2/step-4.json",
        "earlier-2/step-9.json",
    ]


def test_numbers_are_claimed_by_one_process_each(tmp_path: Path) -> None:
    claims = [claim_number(tmp_path, wanted) for wanted in (3, 3, 0, 3)]
    assert [number for number, _ in claims] == [3, 4, 0, 5]
    os.close(claims[1][1])
    number, lock = claim_number(tmp_path, 3)
    assert number == 4
    for held in (lock, *(claims[index][1] for index in (0, 2, 3))):
        os.close(held)


def test_name_with_a_folder_in_it_has_its_own_neighbours(tmp_path: Path) -> None:
    (tmp_path / "team").mkdir()
    leave(tmp_path / "team", 0, 5)
    slot = open_slot(tmp_path, f"team/{NAME}", 1, step=5, rank=lambda _: 0, adopt=True)
    assert slot is not None and slot.number == 0
    slot.close()


@pytest.mark.parametrize("adopt", [False, True])
def test_processes_that_start_together_never_share_a_folder(start: Start, tmp_path: Path, adopt: bool) -> None:
    for number in range(4):
        leave(tmp_path, number, 5)
    lines = (
        "tell('ready')\nsys.stdin.readline()\n"
        f"slot = open_for(1, step=5, rank=lambda state: 0, adopt={adopt})\nsys.stdin.read()"
    )
    children = [start(lines) for _ in range(8)]
    assert [line(child) for child in children] == ["ready"] * 8
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    numbers = sorted(int(line(child)) for child in children)
    assert numbers == (list(range(8)) if adopt else list(range(1, 9)))


def test_kill_releases_the_folder_though_a_child_of_the_process_lives_on(start: Start, take: Take) -> None:
    child = start(
        "slot = open_for(0, step=0, rank=len, adopt=False)\n"
        "tell(subprocess.Popen(['sleep', '100'], close_fds=False).pid)\n"
        "sys.stdin.read()"
    )
    assert line(child) == "0"
    orphan = int(line(child))
    try:
        child.kill()
        child.wait(WAIT_S)
        os.kill(orphan, 0)
        assert take(0).number == 0
    finally:
        os.kill(orphan, signal.SIGKILL)


def test_folder_that_cannot_be_made_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    root = tmp_path / "file"
    root.touch()
    assert open_slot(root, NAME, 0, step=5, rank=lambda _: 0, adopt=True) is None
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith(f"no checkpoints can be kept in {root} (")


def test_file_system_without_locks_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    assert open_slot(tmp_path, NAME, 0, step=0, rank=lambda _: 0, adopt=False) is None
    (message,) = caplog.messages
    assert "No locks available" in message and "runs without them" in message


# ---------------------------------------------------------------------------- saving


def test_save_writes_the_step_and_the_latest(take: Take) -> None:
    slot = take()
    assert slot.save(given({"seed": 7}), 5).result(WAIT_S) is Saved.WRITTEN
    for name in (step_file(5), LATEST):
        checkpoint = read_checkpoint(slot.folder / name)
        assert (checkpoint.step, checkpoint.state) == (5, {"seed": 7})


def test_save_of_the_latest_leaves_the_steps_alone(take: Take) -> None:
    slot = take()
    slot.save(given({"saved": 1}), 5)
    assert slot.save(given({"saved": 2}), 5, latest=True).result(WAIT_S) is Saved.WRITTEN
    assert read_checkpoint(slot.folder / step_file(5)).state == {"saved": 1}
    assert read_checkpoint(slot.folder / LATEST).state == {"saved": 2}


def test_state_is_asked_for_on_another_thread(take: Take) -> None:
    slot = take()
    slot.save(lambda: {"thread": threading.get_ident()}, 5).result(WAIT_S)
    assert read_checkpoint(slot.folder / step_file(5)).state["thread"] != threading.get_ident()


def test_state_that_json_cannot_hold_costs_only_its_own_save(take: Take) -> None:
    slot = take()
    assert slot.save(lambda: {"tasks": {"gcd"}}, 5).result(WAIT_S) is Saved.FAILED
    assert slot.save(given({}), 5, latest=True).result(WAIT_S) is Saved.WRITTEN


def hang(slot: Slot) -> Path:
    """Makes the next save wait until the path that is returned is opened for reading; that save then fails."""
    os.mkfifo(slot.folder / PART)
    return slot.folder / PART


def release(pipe: Path) -> None:
    with pipe.open("rb") as file:
        file.read()


def test_latest_gives_way_to_a_newer_save_that_waits_too(take: Take) -> None:
    slot = take()
    pipe = hang(slot)
    hung = slot.save(given({}), 1)
    saved = [slot.save(given({"saved": number}), 2, latest=number != 2) for number in range(5)]
    release(pipe)
    assert hung.result(WAIT_S) is Saved.FAILED
    assert [save.result(WAIT_S) for save in saved] == [
        Saved.SKIPPED,
        Saved.SKIPPED,
        Saved.WRITTEN,
        Saved.SKIPPED,
        Saved.WRITTEN,
    ]
    assert read_checkpoint(slot.folder / step_file(2)).state == {"saved": 2}
    assert read_checkpoint(slot.folder / LATEST).state == {"saved": 4}


def test_trouble_is_said_once_and_when_it_is_over(take: Take, caplog: pytest.LogCaptureFixture) -> None:
    slot = take()
    slot.save(given({"saved": 1}), 1).result(WAIT_S)
    (slot.folder / PART).mkdir()
    assert [slot.save(given({}), step).result(WAIT_S) for step in (2, 3)] == [Saved.FAILED] * 2
    assert find_checkpoint(slot.folder, 3, prefer_latest=True).checkpoint == read_checkpoint(slot.folder / LATEST)
    (slot.folder / PART).rmdir()
    assert slot.save(given({}), 4).result(WAIT_S) is Saved.WRITTEN
    told, over = caplog.messages
    assert told.startswith(f"the environment's state cannot be saved to {slot.folder} (")
    assert over.startswith(f"the environment's state is saved to {slot.folder} again")


def test_full_disk_costs_only_the_save_that_met_it(take: Take) -> None:
    slot = take()
    slot.save(given({"saved": 1}), 1).result(WAIT_S)
    (slot.folder / PART).symlink_to("/dev/full")
    assert slot.save(given({"saved": 2}), 2).result(WAIT_S) is Saved.FAILED
    loaded = slot.load(2)
    assert loaded is not None and loaded.state == {"saved": 1}
    assert slot.save(given({"saved": 3}), 3).result(WAIT_S) is Saved.WRITTEN


def test_folder_that_was_removed_is_made_again_and_held(take: Take) -> None:
    slot = take()
    shutil.rmtree(slot.folder)
    assert slot.save(given({"saved": 1}), 5).result(WAIT_S) is Saved.WRITTEN
    assert read_checkpoint(slot.folder / step_file(5)).state == {"saved": 1}
    assert take().number == 1


def test_folder_that_another_process_made_again_is_not_written_to(
    start: Start, take: Take, caplog: pytest.LogCaptureFixture
) -> None:
    slot = take()
    shutil.rmtree(slot.folder)
    assert line(start(HOLD, 0)) == "0"
    assert slot.save(given({}), 5).result(WAIT_S) is Saved.FAILED
    assert [path.name for path in slot.folder.iterdir()] == [LOCK]
    assert "another process has made it again" in caplog.text


def test_close_writes_what_waits_and_releases_the_folder(take: Take) -> None:
    slot = take()
    for step in range(20):
        slot.save(given({"step": step}), step)
    slot.close()
    slot.close()
    assert read_checkpoint(slot.folder / step_file(19)).state == {"step": 19}
    assert take().number == 0


def test_number_of_the_newest_delivered_group_outlasts_a_kill(start: Start, take: Take) -> None:
    child = start(
        """
slot = open_for(0, step=0, rank=len, adopt=False)
for number in range(1, 8):
    slot.note_delivered(number)
slot.save(lambda: {}, 1).result()
tell("noted")
sys.stdin.read()
"""
    )
    assert [line(child), line(child)] == ["0", "noted"]
    child.kill()
    child.wait()
    slot = take(0, adopt=True)
    assert slot.delivered() == 7
    slot.note_delivered(8)
    slot.close()
    assert slot.delivered() == 8


def test_without_a_readable_number_none_was_delivered(take: Take) -> None:
    slot = take(0)
    assert slot.delivered() == 0
    (slot.folder / "delivered").write_text("no number")
    assert slot.delivered() == 0


def test_save_after_the_close_raises(take: Take) -> None:
    slot = take()
    slot.close()
    with pytest.raises(RuntimeError, match="is closed"):
        slot.save(given({}), 5)


def test_close_gives_up_on_a_disk_that_hangs_and_keeps_the_folder(take: Take, caplog: pytest.LogCaptureFixture) -> None:
    slot = take()
    pipe = hang(slot)
    slot.save(given({}), 1)
    slot.close(0.1)
    assert "is the disk hanging?" in caplog.text
    assert take().number == 1
    release(pipe)
    slot.close()
    assert take().number == 0


def test_kill_in_the_middle_of_a_save_loses_nothing_that_was_written(start: Start, take: Take) -> None:
    """Twenty times over one folder, each child going on from what the one before it had saved."""
    lines = """
slot = open_for(0, step=10**9, rank=lambda state: 0, adopt=True)
loaded = slot.load(10**9, prefer_latest=True)
for saved in itertools.count(loaded.state["saved"] + 1 if loaded else 0):
    state = {"saved": saved, "ballast": [saved] * 50_000}
    assert slot.save(lambda: state, saved // 3, latest=saved % 3 > 0).result() is Saved.WRITTEN
    tell(saved)
"""
    chance = random.Random(1)
    for _ in range(20):
        child = start(lines)
        assert line(child) == "0"
        told = [line(child) for _ in range(chance.randint(1, 6))]
        time.sleep(chance.uniform(0.0, 0.01))
        child.kill()
        last = [*told, *child.communicate()[0].split()][-1]
        slot = take(0, step=10**9, adopt=True)
        loaded = slot.load(10**9, prefer_latest=True)
        assert loaded is not None and loaded.state["saved"] in (int(last), int(last) + 1)
        for path in slot.folder.glob("*.json"):
            state = read_checkpoint(path).state
            assert state["ballast"] == [state["saved"]] * 50_000
        slot.close()


# ---------------------------------------------------------------------------- loading


def test_exact_step_is_loaded_without_a_word(take: Take, caplog: pytest.LogCaptureFixture) -> None:
    slot = take()
    slot.save(given({"saved": 1}), 5)
    slot.save(given({"saved": 2}), 10).result(WAIT_S)
    loaded = slot.load(5)
    assert loaded is not None
    assert (loaded.path, loaded.step, loaded.state) == (slot.folder / step_file(5), 5, {"saved": 1})
    assert caplog.messages == []


@pytest.mark.parametrize(("prefer_latest", "saved"), [(False, 1), (True, 2)])
def test_state_saved_after_that_of_its_step_is_loaded_on_demand(take: Take, prefer_latest: bool, saved: int) -> None:
    slot = take()
    slot.save(given({"saved": 1}), 5)
    slot.save(given({"saved": 2}), 5, latest=True).result(WAIT_S)
    loaded = slot.load(5, prefer_latest=prefer_latest)
    assert loaded is not None and loaded.state == {"saved": saved}


def test_step_that_is_saved_anew_after_a_return_to_it_is_preferred(take: Take) -> None:
    slot = take()
    slot.save(given({"saved": 1}), 5)
    slot.save(given({"saved": 2}), 5, latest=True).result(WAIT_S)
    slot.close()
    slot = take()
    slot.save(given({"saved": 3}), 5).result(WAIT_S)
    loaded = slot.load(5, prefer_latest=True)
    assert loaded is not None and loaded.state == {"saved": 3}


def test_older_step_than_asked_for_is_told(take: Take, caplog: pytest.LogCaptureFixture) -> None:
    slot = take()
    slot.save(given({}), 5).result(WAIT_S)
    assert slot.load(8) is not None
    assert caplog.messages == [f"{slot.folder} holds no checkpoint of step 8; that of step 5 is used"]


def test_damaged_checkpoint_is_named_with_the_one_used_in_its_place(
    take: Take, caplog: pytest.LogCaptureFixture
) -> None:
    slot = take()
    slot.save(given({}), 5)
    slot.save(given({}), 10).result(WAIT_S)
    for name in (LATEST, step_file(10)):
        path = slot.folder / name
        path.write_bytes(path.read_bytes()[:-20])
    loaded = slot.load(10, prefer_latest=True)
    assert loaded is not None and loaded.step == 5
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings == [
        f"{slot.folder / name} is damaged: it is no JSON; {slot.folder / step_file(5)} is used in its place"
        for name in (LATEST, step_file(10))
    ]


def test_folder_without_a_usable_checkpoint_is_named(take: Take, caplog: pytest.LogCaptureFixture) -> None:
    slot = take()
    (slot.folder / step_file(5)).write_text(json.dumps({"version": 1}))
    assert slot.load(5) is None
    assert caplog.messages == [
        f"{slot.folder / step_file(5)} is of version 1, and only version 2 can be read here; it is passed over",
        f"{slot.folder} holds no usable checkpoint of step 5 or of one before it",
    ]
