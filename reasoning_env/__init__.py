"""Tasks, workers, rewards and evaluation over reasoning-gym, for a trainer of any framework.

Every name is imported when it is first asked for, so that commands which need little start at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .errors import ConfigError, GenerationError, ReasoningEnvError, ScoringError, WorkerError
    from .evaluations.problem_set import EvaluationSet
    from .problems import ProblemStream
    from .prompting import build_messages
    from .records import Group, Problem, ProblemSpec, Rollout, Verdict
    from .rewards import extract_answer, score_rollouts
    from .settings import ReasoningSettings
    from .tasks.plan import make_sampler, plan_tasks
    from .workers.pool import PoolSettings, WorkerPool

__version__ = "0.1.0"

_MODULES = {
    ".errors": ("ConfigError", "GenerationError", "ReasoningEnvError", "ScoringError", "WorkerError"),
    ".evaluations.problem_set": ("EvaluationSet",),
    ".problems": ("ProblemStream",),
    ".prompting": ("build_messages",),
    ".records": ("Group", "Problem", "ProblemSpec", "Rollout", "Verdict"),
    ".rewards": ("extract_answer", "score_rollouts"),
    ".settings": ("ReasoningSettings",),
    ".tasks.plan": ("make_sampler", "plan_tasks"),
    ".workers.pool": ("PoolSettings", "WorkerPool"),
}

__all__ = [
    "ConfigError",
    "EvaluationSet",
    "GenerationError",
    "Group",
    "PoolSettings",
    "Problem",
    "ProblemSpec",
    "ProblemStream",
    "ReasoningEnvError",
    "ReasoningSettings",
    "Rollout",
    "ScoringError",
    "Verdict",
    "WorkerError",
    "WorkerPool",
    "build_messages",
    "extract_answer",
    "make_sampler",
    "plan_tasks",
    "score_rollouts",
]


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(module, __package__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
