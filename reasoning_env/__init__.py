"""Tasks, workers, rewards and evaluation over reasoning-gym, for a trainer of any framework."""

from .errors import ConfigError, GenerationError, ReasoningEnvError, ScoringError, WorkerError
from .evaluations.problem_set import EvaluationSet
from .problems import ProblemStream
from .prompting import build_messages
from .records import Group, Problem, ProblemSpec, Rollout, Verdict
from .rewards import extract_answer, score_rollouts
from .settings import ReasoningSettings
from .tasks.plan import TaskStream, plan_tasks
from .workers.pool import PoolSettings, WorkerPool

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
    "TaskStream",
    "Verdict",
    "WorkerError",
    "WorkerPool",
    "build_messages",
    "extract_answer",
    "plan_tasks",
    "score_rollouts",
]
