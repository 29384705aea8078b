"""The core of a reasoning-gym environment: tasks, workers, rewards, dumps. Knows nothing of any RL framework."""

from .attendance import Attendance, Registration
from .background import BackgroundWriter
from .chat import ChatFormat, Prompt
from .errors import ConfigError, GenerationError, ReasoningEnvError, ScoringError, ServerError, WorkerError
from .evaluation import EvalResult, EvaluationSet, Evaluator, choose_eval_tasks, sample_record, summarise
from .inference import (
    IncompleteReply,
    InferenceClient,
    Mode,
    Patience,
    Sampling,
    check_servers,
    describe_failure,
)
from .lifecycle import Interrupted, finish_within, run_until_signal
from .metrics import Loss, MetricsRecorder, Outcome, task_metrics
from .outbox import Outbox, saved_groups
from .plan import TaskPlan, TaskStream, plan_tasks
from .prompts import SYSTEM_PROMPT, build_messages
from .ranges import check_ranges
from .records import Group, Problem, ProblemSpec, Reason, Rollout, Split, TaskInfo, Verdict
from .resume import StateKeeper
from .rewards import extract_answer, has_signal, judge_texts, score_rollouts
from .rollouts import RolloutDumper
from .run_api import RunApi
from .settings import ReasoningSettings
from .surroundings import find_checkout, has_wandb_account
from .tasks import UniformSampler, composite_members, select_tasks, task_params
from .trouble import Trouble
from .workers import LibraryInfo, PoolSettings, ProblemStream, WorkerPool

__all__ = [
    "SYSTEM_PROMPT",
    "Attendance",
    "BackgroundWriter",
    "ChatFormat",
    "ConfigError",
    "EvalResult",
    "EvaluationSet",
    "Evaluator",
    "GenerationError",
    "Group",
    "IncompleteReply",
    "InferenceClient",
    "Interrupted",
    "LibraryInfo",
    "Loss",
    "MetricsRecorder",
    "Mode",
    "Outbox",
    "Outcome",
    "Patience",
    "PoolSettings",
    "Problem",
    "ProblemSpec",
    "ProblemStream",
    "Prompt",
    "Reason",
    "ReasoningEnvError",
    "ReasoningSettings",
    "Registration",
    "Rollout",
    "RolloutDumper",
    "RunApi",
    "Sampling",
    "ScoringError",
    "ServerError",
    "Split",
    "StateKeeper",
    "TaskInfo",
    "TaskPlan",
    "TaskStream",
    "Trouble",
    "UniformSampler",
    "Verdict",
    "WorkerError",
    "WorkerPool",
    "build_messages",
    "check_ranges",
    "check_servers",
    "choose_eval_tasks",
    "composite_members",
    "describe_failure",
    "extract_answer",
    "find_checkout",
    "finish_within",
    "has_signal",
    "has_wandb_account",
    "judge_texts",
    "plan_tasks",
    "run_until_signal",
    "sample_record",
    "saved_groups",
    "score_rollouts",
    "select_tasks",
    "summarise",
    "task_metrics",
    "task_params",
]
