"""Child processes that generate problems and score answers, and the pool that owns them."""

from .pool import LibraryInfo, PoolSettings, PoolStats, WorkerPool
from .prefetch import ProblemStream, StreamStats
from .task_names import KNOWN_TASKS

__all__ = ["KNOWN_TASKS", "LibraryInfo", "PoolSettings", "PoolStats", "ProblemStream", "StreamStats", "WorkerPool"]
