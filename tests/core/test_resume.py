from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reasoning_env.errors import ConfigError
from reasoning_env.resume import StateKeeper
from reasoning_env.settings import ReasoningSettings
from reasoning_env.tasks.plan import TaskPlan

STATE = {
    "stream": {"next_index": 9, "owed": ["spec"]},
    "sampler": {"draws": [[1, 0, "gcd", None]], "signals": {"a": 1}},
}
NAME = "reasoning_gym"

Make = Callable[..., StateKeeper]


@pytest.fixture
def make() -> Iterator[Make]:
    """Makes keepers for runs with some tasks and settings, and closes them at the end."""
    made: list[StateKeeper] = []

    def make_one(tasks: tuple[str, ...] = ("gcd", "lcm"), **settings: Any) -> StateKeeper:
        plan = TaskPlan(tasks, tasks, tasks, frozenset(), {"gcd": {"sizes": (1, 2)}}, dict.fromkeys(tasks, 1.0))
        keeper = StateKeeper(ReasoningSettings(**settings), plan)
        made.append(keeper)
        return keeper

    yield make_one
    for keeper in made:
        keeper.close()


def save(keeper: StateKeeper, folder: Path, step: int, name: str = f"{NAME}_0") -> None:
    """Save a state for a step, as a run that began at step 0, and end that run."""
    keeper.open(str(folder), name, step=0)
    keeper.save(step, lambda: STATE)
    keeper.close()


def test_a_run_with_the_same_settings_goes_on(make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    save(make(), tmp_path, 5)
    keeper = make()
    keeper.open(str(tmp_path), f"{NAME}_0", step=5)
    state = keeper.load(5)
    assert state is not None
    assert {key: state[key] for key in STATE} == STATE
    assert [record for record in caplog.records if record.levelname == "WARNING"] == []


@pytest.mark.parametrize(
    ("other", "name"),
    [({"seed": 7}, "seed"), ({"tasks": ("gcd",)}, "tasks"), ({"seed": 7, "tasks": ("a",)}, "seed and")],
)
def test_a_run_of_another_seed_or_other_tasks_is_refused(
    make: Make, tmp_path: Path, other: dict[str, Any], name: str
) -> None:
    save(make(), tmp_path, 5)
    keeper = make(**other)
    keeper.open(str(tmp_path), f"{NAME}_0", step=5)
    with pytest.raises(ConfigError, match=f"made with other {name}"):
        keeper.load(5)


def test_told_so_it_goes_on_without_what_was_drawn(make: Make, tmp_path: Path) -> None:
    save(make(), tmp_path, 5)
    keeper = make(seed=7, resume_with_changes=True)
    keeper.open(str(tmp_path), f"{NAME}_0", step=5)
    state = keeper.load(5)
    assert state is not None
    assert state["stream"] == {"next_index": 9, "owed": []}
    assert state["sampler"] == {"draws": [], "signals": {"a": 1}}


def test_other_settings_are_named_and_count_from_then_on(
    make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    save(make(), tmp_path, 5)
    keeper = make(complexity_mode="random", task_sampling="adaptive")
    keeper.open(str(tmp_path), f"{NAME}_0", step=5)
    state = keeper.load(5)
    assert state is not None and state["stream"]["owed"] == ["spec"]
    assert "was made with other complexity_mode, task_sampling" in caplog.text


def test_a_lone_comer_takes_the_place_that_suits_it_best(make: Make, tmp_path: Path) -> None:
    save(make(complexity_mode="random"), tmp_path, 5, f"{NAME}_0")
    save(make(), tmp_path, 4, f"{NAME}_1")
    keeper = make(complexity_mode="random")
    keeper.open(str(tmp_path), f"{NAME}_7", step=6)
    assert keeper.folder == tmp_path / "env_checkpoints" / f"{NAME}_0"


@pytest.mark.parametrize(("name", "still_there"), [("0", False), ("1", True)])
def test_deliveries_count_where_the_run_api_that_got_them_lives_on(
    make: Make, tmp_path: Path, name: str, still_there: bool
) -> None:
    """Which is where a lone comer got another number than its predecessor."""
    first = make()
    first.open(str(tmp_path), f"{NAME}_0", step=0)
    first.save(5, lambda: STATE)
    first.note_delivered(17)
    first.close()
    second = make()
    second.open(str(tmp_path), f"{NAME}_{name}", step=5)
    assert second.delivered() == (17, still_there)


def test_streams_are_claimed_whatever_the_environments_are_called(make: Make, tmp_path: Path) -> None:
    keepers = [make(), make()]
    for keeper, name in zip(keepers, ("one_0", "other_0"), strict=True):
        keeper.open(str(tmp_path), name, step=0)
    assert [keeper.claim_instance(3) for keeper in keepers] == [3, 4]


def test_without_a_folder_nothing_is_kept(make: Make, tmp_path: Path) -> None:
    keeper = make()
    keeper.open("", f"{NAME}_0", step=5)
    keeper.save(5, lambda: STATE)
    assert (keeper.folder, keeper.load(5), keeper.claim_instance(3)) == (None, None, 3)
