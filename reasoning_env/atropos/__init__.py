"""The adapter to Atropos. Only this folder uses Atropos' inference servers, run-api and environment class.

`reasoning_gym_environment.py` imports the names that are exported here.
"""

from ..program.running import run_until_signal
from ..program.training import DEFAULT_MODEL, ENV_NAME
from ..storage.checkpoints import CheckpointStore
from .cli import commands, own_defaults
from .config import (
    ReasoningGymEnvConfig,
    ServerConfig,
    check_batch_size,
    complete_servers,
    explain_construction,
    set_log_levels,
    tokenizer_if_needed,
)
from .environment import RolloutItem
from .launch import choose_server_class
from .modes.group_file import BackgroundWriter
from .modes.mode import Imported, Mode
from .modes.process import Process
from .modes.serve import Serve
from .modes.shutdown import close
from .run import Run
from .run_api import Registration
from .sending import enqueue, send_groups
from .wandb import go_offline_without_account, keep_rollouts, log_metrics, rollout_table, start_run

__all__ = [
    "DEFAULT_MODEL",
    "ENV_NAME",
    "BackgroundWriter",
    "CheckpointStore",
    "Imported",
    "Mode",
    "Process",
    "ReasoningGymEnvConfig",
    "Registration",
    "RolloutItem",
    "Run",
    "Serve",
    "ServerConfig",
    "check_batch_size",
    "choose_server_class",
    "close",
    "commands",
    "complete_servers",
    "enqueue",
    "explain_construction",
    "go_offline_without_account",
    "keep_rollouts",
    "log_metrics",
    "own_defaults",
    "rollout_table",
    "run_until_signal",
    "send_groups",
    "set_log_levels",
    "start_run",
    "tokenizer_if_needed",
]
