"""Problems and verdicts from reasoning-gym, for any trainer. Start reading in `session.py`.

Import names from this package (`from reasoning_env import Bridge, Session`), or public names from these modules.
Everything else is internal and may change in any release.

- `bridge`, `session`, `errors`, `records`, `rewards`, `seeds`, `settings`, `tasks`: the names that this package
  exports, and the types, errors and settings that these names use
- `sources.contract`, `sources.score_function`: tasks and score functions of your own
- `judging.client`: verdicts from a `judge` server
- `data.problems`, `data.verdicts`, `data.tables`: write problem files, judge rows of completions, read and write rows
- `commands.evaluate`, `evaluations.results`, `evaluations.comparison`: evaluate a model, read results, compare them
- `integrations`: a module for each trainer
- `problems.selection`, `problems.evaluation_set`, `answers.shortcuts`: select tasks by pattern, make the fixed
  problems of a task, make answers without reasoning; for tools that examine tasks, such as `reasoning_audit`
- `program`, `runtime`, `storage`: for programs with similar commands and files

Names are imported at their first use, so that commands start quickly.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .bridge import Bridge as Bridge
    from .errors import ConfigError as ConfigError
    from .errors import GenerationError as GenerationError
    from .errors import InvalidReferenceError as InvalidReferenceError
    from .errors import ReasoningEnvError as ReasoningEnvError
    from .errors import ScoringError as ScoringError
    from .errors import WorkerError as WorkerError
    from .evaluations.results import read_evaluation as read_evaluation
    from .evaluations.results import read_groups as read_groups
    from .judging.client import JudgeClient as JudgeClient
    from .problems.references import Reference as Reference
    from .records import DropReason as DropReason
    from .records import Group as Group
    from .records import Problem as Problem
    from .records import ProblemSpec as ProblemSpec
    from .records import Reason as Reason
    from .records import Rollout as Rollout
    from .records import Verdict as Verdict
    from .rewards import apply_length_penalty as apply_length_penalty
    from .rewards import extract_answer as extract_answer
    from .session import Session as Session
    from .settings import ReasoningSettings as ReasoningSettings
    from .workers.pool import PoolSettings as PoolSettings
    from .workers.pool import WorkerPool as WorkerPool

__version__ = "1.0.0"

_MODULES = {
    ".bridge": ("Bridge",),
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
    ".judging.client": ("JudgeClient",),
    ".problems.references": ("Reference",),
    ".rewards": ("apply_length_penalty", "extract_answer"),
    ".session": ("Session",),
    ".settings": ("ReasoningSettings",),
}

__all__ = sorted(name for names in _MODULES.values() for name in names)


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(module, __package__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
