"""Tasks without facts are audited before they are trained on, and left out where their rewards fail."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from reasoning_env.errors import ConfigError
from reasoning_env.records import Problem, ProblemSpec, Reason, Verdict
from reasoning_env.reports.unmeasured_tasks import audit_unmeasured
from reasoning_env.tasks.plan import TaskPlan


class Workers:
    """`sound` pays for its answer alone, `mute` for nothing, `generous` for everything."""

    def __init__(self) -> None:
        self.audited: set[str] = set()

    async def generate(self, spec: ProblemSpec, deadline_s: float) -> Problem:
        self.audited.add(spec.task)
        return Problem(spec, "What?", "abcdefghijkl"[spec.index % 12] * 5, "{}", b"")

    async def score(self, problem: Problem, answers: Sequence[str]) -> list[Verdict]:
        paid = {"sound": lambda answer: answer == problem.answer, "mute": lambda answer: False}
        pays = paid.get(problem.task, lambda answer: True)
        return [Verdict(float(pays(answer)), Reason.SCORED, answer) for answer in answers]


async def _audited(*tasks: str, named: Sequence[str] = (), **config: Any) -> tuple[tuple[str, ...], set[str]]:
    workers = Workers()
    plan = TaskPlan(tasks, tasks, tasks, frozenset(), {}, {})
    settings = SimpleNamespace(**{"exclude_gameable": True, "tasks": named, **config})
    return (await audit_unmeasured(plan, settings, workers)).training_tasks, workers.audited


async def test_known_tasks_are_not_audited() -> None:
    assert await _audited("gcd", "maze") == (("gcd", "maze"), set())


async def test_task_whose_rewards_fail_is_left_out_with_one_line(caplog: pytest.LogCaptureFixture) -> None:
    assert await _audited("gcd", "generous", "mute", "sound") == (("gcd", "sound"), {"generous", "mute", "sound"})
    assert len(caplog.records) == 1


@pytest.mark.parametrize("config", [{"named": ("generous", "mute")}, {"exclude_gameable": False}])
async def test_task_that_is_wanted_all_the_same_is_left_out_where_its_oracle_fails(config: dict[str, Any]) -> None:
    assert (await _audited("generous", "mute", **config))[0] == ("generous",)


async def test_nothing_left_to_train_on_is_an_error() -> None:
    with pytest.raises(ConfigError, match="mute"):
        await _audited("mute")
