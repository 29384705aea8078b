"""Which problem comes next: selection of tasks, sampling and seeds."""

from .sampling import UniformSampler, evaluation_spec, task_params
from .selection import COMPOSITE, composite_members, select_tasks

__all__ = ["COMPOSITE", "UniformSampler", "composite_members", "evaluation_spec", "select_tasks", "task_params"]
