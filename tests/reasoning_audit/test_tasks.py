"""Which tasks an audit excuses, and what the audits of a task's levels show together."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from reasoning_audit.tasks import left_out_of_training, same_questions
from reasoning_env.records import TaskInfo
from tests.records import make_spec, problem_of


@pytest.mark.parametrize(("rewards", "left_out"), [("strict", {"tsumego", "mine"}), ("library", set())])
def test_left_out_of_training(rewards: str, left_out: set[str]) -> None:
    tasks = [TaskInfo("gcd", "arithmetic"), TaskInfo("tsumego", "games"), TaskInfo("mine", "own", "it is easy")]
    session: Any = SimpleNamespace(settings=SimpleNamespace(rewards=rewards), library=SimpleNamespace(tasks=tasks))
    assert left_out_of_training(session) == left_out


@pytest.mark.parametrize(
    ("by_level", "same"),
    [
        ({0.0: "abc", 1.0: "abc"}, True),
        ({0.0: "abc", 0.5: "abc", 1.0: "abd"}, False),
        ({0.0: "ab", 1.0: "ab"}, False),
        ({1.0: "abc"}, False),
    ],
)
def test_level_changes_nothing(by_level: dict[float, str], same: bool) -> None:
    problems = {
        level: [problem_of(make_spec("gcd"), question, "7") for question in texts] for level, texts in by_level.items()
    }
    assert same_questions(problems) is same
