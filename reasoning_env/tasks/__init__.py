"""Which problem comes next: selection of tasks, sampling and seeds."""

from .adaptive import Observation, SteeredSampler, TaskReport, static_weights
from .curriculum import Curriculum, CurriculumSettings
from .gameable import gameable_tasks
from .parameters import SpecRules, check_ranges, extremes
from .sampling import UniformSampler, evaluation_spec, task_params
from .selection import COMPOSITE, composite_members, match_tasks, resolve_patterns, select_tasks, without_gameable
from .spaces import SMALL_SPACES

__all__ = [
    "COMPOSITE",
    "SMALL_SPACES",
    "Curriculum",
    "CurriculumSettings",
    "Observation",
    "SpecRules",
    "SteeredSampler",
    "TaskReport",
    "UniformSampler",
    "check_ranges",
    "composite_members",
    "evaluation_spec",
    "extremes",
    "gameable_tasks",
    "match_tasks",
    "resolve_patterns",
    "select_tasks",
    "static_weights",
    "task_params",
    "without_gameable",
]
