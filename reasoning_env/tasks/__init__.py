"""Which problem comes next: selection of tasks, sampling and seeds."""

from .gameable import gameable_tasks
from .sampling import UniformSampler, evaluation_spec, task_params
from .selection import COMPOSITE, composite_members, exclude_tasks, select_tasks

__all__ = [
    "COMPOSITE",
    "UniformSampler",
    "composite_members",
    "evaluation_spec",
    "exclude_tasks",
    "gameable_tasks",
    "select_tasks",
    "task_params",
]
