"""Problems and verdicts over reasoning-gym, for a trainer of any framework. Begin with `session.py`.

Names are imported at their first use, so that commands that need few of them start at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .bridge import Bridge
    from .errors import (
        ConfigError,
        GenerationError,
        InvalidReferenceError,
        ReasoningEnvError,
        ScoringError,
        WorkerError,
    )
    from .evaluations.problem_set import EvaluationSet
    from .evaluations.results import read_evaluation, read_groups
    from .problems.references import Reference
    from .records import DropReason, Group, Problem, ProblemSpec, Reason, Rollout, Verdict
    from .rewards import apply_length_penalty, extract_answer
    from .session import Session
    from .settings import ReasoningSettings
    from .workers.pool import PoolSettings, WorkerPool

__version__ = "1.0.0"

_MODULES = {
    ".bridge": ("Bridge",),
    ".evaluations.problem_set": ("EvaluationSet",),
    ".evaluations.results": ("read_evaluation", "read_groups"),
    ".workers.pool": ("PoolSettings", "WorkerPool"),
    ".errors": (
        "ConfigError",
        "GenerationError",
        "InvalidReferenceError",
        "ReasoningEnvError",
        "ScoringError",
        "WorkerError",
    ),
    ".records": ("DropReason", "Group", "Problem", "ProblemSpec", "Reason", "Rollout", "Verdict"),
    ".problems.references": ("Reference",),
    ".rewards": ("apply_length_penalty", "extract_answer"),
    ".session": ("Session",),
    ".settings": ("ReasoningSettings",),
}

__all__ = [
    "Bridge",
    "ConfigError",
    "DropReason",
    "EvaluationSet",
    "GenerationError",
    "Group",
    "InvalidReferenceError",
    "PoolSettings",
    "Problem",
    "ProblemSpec",
    "Reason",
    "ReasoningEnvError",
    "ReasoningSettings",
    "Reference",
    "Rollout",
    "ScoringError",
    "Session",
    "Verdict",
    "WorkerError",
    "WorkerPool",
    "apply_length_penalty",
    "extract_answer",
    "read_evaluation",
    "read_groups",
]


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(module, __package__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
