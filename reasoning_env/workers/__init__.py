"""Child processes that generate problems and score answers, and the pool that owns them."""

from .pool import LibraryInfo, PoolSettings, PoolStats, WorkerPool
from .prefetch import ProblemStream, StreamStats

__all__ = ["LibraryInfo", "PoolSettings", "PoolStats", "ProblemStream", "StreamStats", "WorkerPool"]
