"""Findings have low severity if default training leaves the task out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from reasoning_audit.tasks import left_out_of_training
from reasoning_env.records import TaskInfo


@pytest.mark.parametrize(("rewards", "left_out"), [("strict", {"tsumego", "mine"}), ("library", set())])
def test_rewards_setting_decides_which_tasks_are_left_out_of_training(rewards: str, left_out: set[str]) -> None:
    tasks = [TaskInfo("gcd", "arithmetic"), TaskInfo("tsumego", "games"), TaskInfo("mine", "own", "it is easy")]
    session: Any = SimpleNamespace(settings=SimpleNamespace(rewards=rewards), library=SimpleNamespace(tasks=tasks))
    assert left_out_of_training(session) == left_out
