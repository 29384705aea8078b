"""JSONL dumps of rollouts: a writer that syncs each group to disk, a reader, recovery of torn files."""

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
