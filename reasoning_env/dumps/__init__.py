"""JSONL dumps of rollouts: a writer that no kill can cheat of a group, a reader, and recovery of torn files."""

from __future__ import annotations

from .reader import DumpedGroup, DumpedRollout, DumpFormatError, read_groups
from .recovery import TornFile, recover_file, recover_folder
from .writer import RolloutDumper

__all__ = [
    "DumpFormatError",
    "DumpedGroup",
    "DumpedRollout",
    "RolloutDumper",
    "TornFile",
    "read_groups",
    "recover_file",
    "recover_folder",
]
