"""The bookkeeping of the soak; what it counts is the work of real processes, which the end-to-end tests drive."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path

import pytest

from benchmarks._faults import KINDS, run_of_dump, schedule
from benchmarks._usage import Usage, growth
from benchmarks.soak import Balance, DumpedGroup, balance, passes, read_dumps, torn_checkpoints
from testing import Delivery
from testing.trainer import key_of_messages

CONVERSATION = [{"role": "user", "content": "1 + 1?"}, {"role": "assistant", "content": "<answer>2</answer>"}]


def group(key: str, run: str = "run", *, has_signal: bool = True) -> DumpedGroup:
    return DumpedGroup(key, run, has_signal)


def delivery(key: str, at: float = 0.0) -> Delivery:
    return Delivery(key, 0, at, (0.0, 1.0), 10)


def line(scores: tuple[float, ...]) -> str:
    rollouts = [{"conversation": CONVERSATION, "score": score} for score in scores]
    return json.dumps({"item_id": "chain_sum", "rollouts": rollouts}) + "\n"


@pytest.mark.parametrize(
    ("delivered", "dumped", "expected"),
    [
        ([], [group("a")], Balance(1, 0, 0, 0, 0)),
        (["a"], [], Balance(0, 1, 0, 0, 0)),
        ([], [group("a", "killed")], Balance(0, 0, 1, 0, 0)),
        (["a", "a"], [group("a")], Balance(0, 0, 0, 1, 0)),
        (["a"], [group("a"), group("a")], Balance(0, 0, 0, 0, 1)),
        ([], [group("a", has_signal=False)], Balance(0, 0, 0, 0, 0)),
    ],
    ids=["never delivered", "never dumped", "unsent when killed", "delivered twice", "dumped twice", "no signal"],
)
def test_each_disagreement_of_deliveries_and_dumps_is_counted_as_what_it_is(
    delivered: list[str], dumped: list[DumpedGroup], expected: Balance
) -> None:
    assert balance(map(delivery, delivered), dumped, {"killed"}) == expected


@pytest.mark.parametrize(("broken", "twice", "repeated"), [([(9.0, 11.0)], 0, 1), ([(30.0, 40.0)], 1, 0)])
def test_what_came_again_after_a_broken_connection_is_counted_apart(
    broken: list[tuple[float, float]], twice: int, repeated: int
) -> None:
    found = balance([delivery("a", at=10.0), delivery("a", at=20.0)], [group("a")], set(), broken)
    assert (found.delivered_twice, found.repeated) == (twice, repeated)


def test_dumped_groups_have_the_key_under_which_they_are_delivered(tmp_path: Path) -> None:
    (tmp_path / "reasoning_gym_environment_rollouts_some-run_0000.jsonl").write_text(line((0.0, 1.0)))
    (found,) = read_dumps([tmp_path], [])
    assert found == DumpedGroup(key_of_messages([CONVERSATION, CONVERSATION]), "some-run", has_signal=True)


def test_damaged_dumps_are_named(tmp_path: Path) -> None:
    name = "reasoning_gym_environment_rollouts_run_0000.jsonl"
    (tmp_path / name).write_text(line((0.0, 1.0))[:-20] + "\n")
    torn: list[str] = []
    list(read_dumps([tmp_path], torn))
    assert len(torn) == 1
    assert name in torn[0]


def test_checkpoints_that_are_no_json_are_named(tmp_path: Path) -> None:
    (tmp_path / "sound.json").write_text("{}")
    (tmp_path / "half.json").write_text('{"seed": 4')
    assert torn_checkpoints(tmp_path) == [str(tmp_path / "half.json")]


@pytest.mark.parametrize("name", ["notes.txt", "reasoning_gym_environment_rollouts_run_0000.txt", "x_0000.jsonl"])
def test_other_files_belong_to_no_run(name: str) -> None:
    assert run_of_dump(Path(name)) is None


def test_connections_that_come_and_go_are_no_growth() -> None:
    before, after = [Usage(100, 20, 6), Usage(101, 30, 6)], [Usage(100, 40, 6), Usage(102, 20, 6)]
    assert [one["percent"] for one in growth(before, after).values()] == [0, 0, 0]


def test_what_stays_open_is_growth() -> None:
    grown = growth([Usage(100, 20, 6)], [Usage(110, 22, 6)])
    assert {name: one["percent"] for name, one in grown.items()} == {
        "memory_mb": 10,
        "open_files": 10,
        "processes": 0,
    }


def test_every_kind_of_fault_comes_before_any_comes_again() -> None:
    assert sorted(itertools.islice(schedule(random.Random(3)), len(KINDS))) == sorted(KINDS)


@pytest.mark.parametrize(
    "change",
    [
        {"lost": 1},
        {"duplicated": 1},
        {"torn": 1},
        {"unrecovered": 1},
        {"wrong_exit_statuses": [1]},
        {"growth": {"memory_mb": {"percent": 5.1}}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_one_thing_that_went_wrong_fails_the_run(change: dict[str, object]) -> None:
    clean = {"lost": 0, "duplicated": 0, "torn": 0, "unrecovered": 0, "wrong_exit_statuses": []}
    good = {**clean, "growth": {"memory_mb": {"percent": 5.0}}}
    assert passes(good)
    assert not passes({**good, **change})
