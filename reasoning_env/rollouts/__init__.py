"""JSONL dumps of rollouts: one writer with two streams (passed, failed), and a reader."""

from __future__ import annotations

from .reader import DumpedGroup, DumpedRollout, DumpFormatError, read_groups
from .writer import DumpStats, RolloutDumper

__all__ = ["DumpFormatError", "DumpStats", "DumpedGroup", "DumpedRollout", "RolloutDumper", "read_groups"]
