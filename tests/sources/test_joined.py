from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from reasoning_env.records import ProblemRequest
from reasoning_env.sources.contract import Answers, Generated, Source, SourceTask
from reasoning_env.sources.joined import JoinedSources
from reasoning_env.sources.modules import TaskModuleError


class Echo(Source):
    """A source whose problems and scores show which source made them."""

    def __init__(self, *names: str) -> None:
        self.names = names

    @property
    def tasks(self) -> Mapping[str, SourceTask]:
        return {name: SourceTask("lab", "lab@1", has_levels=False) for name in self.names}

    def generate(self, request: ProblemRequest) -> Generated:
        if request.params:
            raise ValueError("no parameters")
        return Generated(f"{self.names[0]}?", None, "{}", b"", request.seed, {}, None)

    def scorer(
        self, task: str, params: Mapping[str, Any], entry: bytes, level: float | None, *, plainly: bool
    ) -> Answers:
        return SimpleNamespace(score=lambda answer: float(len(self.names)))


def test_problems_and_scores_of_a_task_come_from_the_source_of_the_task() -> None:
    joined = JoinedSources(Echo("gcd"), [Echo("lab/a", "lab/b")])
    assert list(joined.tasks) == ["gcd", "lab/a", "lab/b"]
    assert [joined.generate(ProblemRequest(task, 1)).question for task in joined.tasks] == ["gcd?", "lab/a?", "lab/a?"]
    assert [joined.scorer(task, {}, b"", None, plainly=False).score("") for task in joined.tasks] == [1, 2, 2]


def test_params_for_a_task_of_an_extra_source_are_checked_by_generating_a_problem() -> None:
    joined = JoinedSources(Echo("gcd"), [Echo("lab/a")])
    assert joined.check("lab/a", {}, None) is None
    assert joined.check("lab/a", {"n": 1}, None) == (
        'lab/a cannot generate a problem with {"n": 1} (ValueError: no parameters)'
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gcd", "two sources have a task gcd"),
        ("a", "must begin with its category, lab/"),
        ("lab/a:b", "must not contain colons"),
    ],
)
def test_duplicate_or_malformed_task_name_of_a_source_raises(name: str, message: str) -> None:
    with pytest.raises(TaskModuleError, match=message):
        JoinedSources(Echo("gcd"), [Echo(name)])
