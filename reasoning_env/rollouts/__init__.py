"""JSONL dumps of rollouts: one writer with two streams (passed, failed), a reader, and recovery after a kill."""

from __future__ import annotations

from ..records import DumpStats
from .reader import DumpedGroup, DumpedRollout, DumpFormatError, read_groups
from .recovery import Outcome, PartReport, recover_folder
from .state import DumpState
from .writer import RolloutDumper

__all__ = [
    "DumpFormatError",
    "DumpState",
    "DumpStats",
    "DumpedGroup",
    "DumpedRollout",
    "Outcome",
    "PartReport",
    "RolloutDumper",
    "read_groups",
    "recover_folder",
]
