"""JSONL dumps of rollouts: a writer with its own thread, and a reader."""

from __future__ import annotations

from .format import DumpedGroup, DumpedRollout
from .reader import DumpFormatError, stream_groups
from .writer import RolloutDumper

__all__ = ["DumpFormatError", "DumpedGroup", "DumpedRollout", "RolloutDumper", "stream_groups"]
