from __future__ import annotations

import errno
import fcntl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from reasoning_env.checkpoints.files import LATEST, step_file
from reasoning_env.checkpoints.keeper import StateKeeper
from reasoning_env.errors import ConfigError

from .conftest import Start, encoded, next_line

STATE = {
    "stream": {"next_index": 9, "owed": ["spec"]},
    "sampler": {"signals": {"a": 1}},
}
MADE_WITH = {"seed": 1, "tasks": ["gcd", "lcm"], "complexity_mode": "fixed"}
NAME = "reasoning_gym"

Take = Callable[..., StateKeeper]


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
def leave(take: Take) -> Callable[..., Path]:
    """Leaves the folders of processes that are gone, each with the checkpoints of some steps."""

    def leave_one(number: int, *steps: int, **how: Any) -> Path:
        keeper = take(number, **how)
        assert keeper.number == number
        for step in steps:
            keeper.save(step, {**STATE, "from": number}, [], 0)
        folder = keeper.folder
        keeper.close()
        assert folder is not None
        return folder

    return leave_one


Leave = Callable[..., Path]


def warnings(caplog: pytest.LogCaptureFixture) -> list[Any]:
    """Return what each warning names."""
    return [record.args for record in caplog.records if record.levelname == "WARNING"]


# ---------------------------------------------------------------------------- which folder


def test_own_folder_comes_first_then_the_others_by_number_then_a_new_one(take: Take, leave: Leave) -> None:
    for number in (0, 2, 3, 10):
        leave(number, 5)
    taken = [take(2, step=5) for _ in range(5)]
    assert [keeper.number for keeper in taken] == [2, 0, 3, 10, 4]
    assert [resumed and resumed.state["from"] for resumed in (keeper.load() for keeper in taken)] == [2, 0, 3, 10, None]


@pytest.mark.parametrize("how", [{"name": "other"}, {"seed": 2}, {"tasks": ["gcd"]}])
def test_folder_of_another_name_seed_or_tasks_does_not_fit(take: Take, leave: Leave, how: dict[str, Any]) -> None:
    leave(0, 5, **how)
    leave(1, 5)
    assert [take(0, step=5).number, take(7, step=5).number] == [1, 7]


def test_folder_with_later_or_damaged_checkpoints_only_does_not_fit_and_is_left_alone(
    take: Take, leave: Leave, caplog: pytest.LogCaptureFixture
) -> None:
    leave(0, 6)
    damaged = leave(1, 5)
    for path in damaged.glob("*.json"):
        path.write_bytes(b"{")
    keeper = take(1, step=5)
    assert (keeper.number, keeper.load()) == (2, None)
    assert len(warnings(caplog)) == 3
    assert (damaged / step_file(5)).read_bytes() == b"{"


def test_a_new_run_puts_an_earlier_ones_files_aside(leave: Leave) -> None:
    for _ in range(3):
        folder = leave(0, 0)
    assert sorted(str(path.relative_to(folder)) for path in folder.glob("earlier-*/*")) == [
        f"earlier-{run}/{name}" for run in (1, 2) for name in (LATEST, step_file(0))
    ]


def test_a_return_alone_goes_on_from_the_newest_state_and_one_with_the_trainer_from_that_of_its_step(
    take: Take,
) -> None:
    first = take(0)
    first.save(5, {**STATE, "saved": 1}, [], 0)
    first.save(5, {**STATE, "saved": 2}, [], 0, latest=True)
    first.close()
    for number, saved in ((0, 1), (8, 2)):
        keeper = take(number, step=5)
        resumed = keeper.load()
        assert resumed is not None and resumed.state["saved"] == saved
        keeper.close()


@pytest.mark.parametrize("step", [0, 5])
def test_processes_that_start_together_never_share_a_number(
    start: Start, leave: Leave, tmp_path: Path, step: int
) -> None:
    """Each has a name of its own or shares it with another; what is there goes to one of that name."""
    for number, name in enumerate(("a", "b", "a", "b")):
        leave(number, 5, name=name)
    lines = f"""
tell("ready")
name = sys.stdin.readline().strip()
keeper = StateKeeper({MADE_WITH}, accept_changes=False)
keeper.open(str(root), name, 1, step={step})
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


# ---------------------------------------------------------------------------- what is gone on with


@pytest.mark.parametrize(
    ("other", "owed", "named"),
    [
        ({}, ["spec"], []),
        ({"seed": 7, "accept_changes": True}, [], [("seed",)]),
    ],
)
def test_a_run_goes_on_with_other_settings_named_and_told_so_without_what_another_seed_drew(
    take: Take, leave: Leave, caplog: pytest.LogCaptureFixture, other: dict[str, Any], owed: list[str], named: list[Any]
) -> None:
    leave(0, 5)
    keeper = take(0, step=7, **other)
    resumed = keeper.load()
    assert resumed is not None
    assert resumed.state["stream"] == {"next_index": 9, "owed": owed}
    assert resumed.state["sampler"] == {"signals": {"a": 1}}
    assert warnings(caplog) == named
    assert keeper.load() is None  # it is not kept in memory


@pytest.mark.parametrize(
    ("other", "said"),
    [({"seed": 7}, "seed"), ({"tasks": ["a"]}, "tasks"), ({"seed": 7, "complexity_mode": "random"}, "seed .*mode")],
)
def test_a_checkpoint_of_its_own_number_but_of_other_problems_is_refused(
    take: Take, leave: Leave, other: dict[str, Any], said: str
) -> None:
    path = leave(0, 5) / step_file(5)
    leave(1, 5)
    with pytest.raises(ConfigError, match=rf"{path} .* {said}; .* env\.resume_with_changes"):
        take(0, step=5, **other)
    assert take(0, step=5).number == 0


@pytest.mark.parametrize(
    ("number", "step", "undelivered", "next_number"),
    [
        (8, 2, [(2, b"2"), (3, b"3"), (4, b"4")], 5),
        # Problems whose groups came after the checkpoint are served again; the first was delivered meanwhile.
        (0, 1, [(2, b"2")], 3),
    ],
)
def test_groups_that_waited_at_a_checkpoint_come_back_with_it_unless_they_were_delivered(
    take: Take, number: int, step: int, undelivered: list[tuple[int, bytes]], next_number: int
) -> None:
    keeper = take(0)
    waiting = list(enumerate(encoded(b"1", b"2", b"3", b"4"), start=1))
    keeper.save(1, STATE, waiting[:2], 0)
    keeper.save(2, STATE, waiting[1:], 1, latest=True)
    keeper.close()
    resumed = take(number, step=step).load()
    assert resumed is not None
    assert (resumed.undelivered, resumed.next_number) == (undelivered, next_number)


# ---------------------------------------------------------------------------- without a folder


def test_without_a_checkpoint_dir_nothing_is_kept(tmp_path: Path) -> None:
    keeper = StateKeeper(MADE_WITH, accept_changes=False)
    keeper.open("", NAME, 0, step=5)
    keeper.save(5, STATE, [], 0)
    assert (keeper.folder, keeper.number, keeper.load(), keeper.busy) == (None, None, None, False)


def test_file_system_without_locks_is_told_once(
    take: Take, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    without_locks = OSError(errno.ENOLCK, "No locks available")
    monkeypatch.setattr(fcntl, "flock", Mock(side_effect=without_locks))
    keeper = take(0)
    keeper.open(str(tmp_path), NAME, 0, step=0)
    assert keeper.folder is None
    [named] = warnings(caplog)
    assert without_locks in named
