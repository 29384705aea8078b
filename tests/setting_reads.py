"""Record which settings a command reads."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from reasoning_env.problems.plan import EvaluationPlan, TaskPlan
from reasoning_env.session import Session
from reasoning_env.settings import ReasoningSettings

EVALUATION_SET = {
    "eval_tasks",
    "num_eval_samples_per_task",
    "eval_level",
    "eval_seed",
    "eval_preset",
    "complexity_level",
}
MADE_FROM: Mapping[type, Mapping[str, set[str]]] = {
    TaskPlan: {
        "tasks": {"tasks", "exclude_tasks"},
        "training_tasks": {"tasks", "exclude_tasks"},
        "params": {"task_params"},
        "all_params": {"task_params"},
        "weights": {"task_weights"},
    },
    EvaluationPlan: {"repeats": {"eval_repeats"}},
    Session: {"thinking": {"thinking"}, "evaluation_set": EVALUATION_SET, "eval_plan": EVALUATION_SET},
}
"""Attributes that every session derives from settings. Reading an attribute counts as reading these settings."""
FOR_ALL_COMMANDS = {
    "ReasoningSettings._check_difficulty_and_sampling",
    "ReasoningSettings.evaluation_level",
    "ReasoningGymEnvConfig._check",
    "check_base_settings",
    "fingerprint",
    "made_with",
    "without_effect",
    "Session.__init__",
    "BaseEnv.__init__",
    "select",
    "plan_evaluation",
    "EvaluationPlan.make_set",
    "_check_params",
    "_log_without_levels",
}
"""Functions that check settings or derive the attributes in MADE_FROM, even for settings that the command does not use.
"""


@contextmanager
def recorded_reads(*functions: str) -> Iterator[set[str]]:
    """Yield a set that collects the names of settings that are read, except in FOR_ALL_COMMANDS and these functions."""
    found: set[str] = set()

    def read_setting(self: Any, name: str) -> Any:
        if name in type(self).model_fields and reader() not in not_counted:
            found.add(name)
        return object.__getattribute__(self, name)

    def dump(self: Any, **options: Any) -> Any:
        found.update(options.get("include", ()))
        return dump_all(self, **options)

    def read_derived(self: Any, name: str) -> Any:
        settings = MADE_FROM[type(self)].get(name)
        if settings and reader() not in not_counted:
            found.update(settings)
        return object.__getattribute__(self, name)

    not_counted = FOR_ALL_COMMANDS.union(functions)
    dump_all = ReasoningSettings.model_dump
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ReasoningSettings, "__getattribute__", read_setting, raising=False)
        patch.setattr(ReasoningSettings, "model_dump", dump)
        for owner in MADE_FROM:
            patch.setattr(owner, "__getattribute__", read_derived, raising=False)
        yield found


def reader() -> str:
    """Return the name of the outermost function that reads an attribute, without inner functions."""
    return sys._getframe(2).f_code.co_qualname.partition(".<locals>")[0]
