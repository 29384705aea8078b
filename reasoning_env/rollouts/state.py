"""What a dumper tells of itself: its counts, and what a checkpoint keeps of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict


@dataclass(frozen=True)
class DumpStats:
    """What became of the groups that were chosen for dumping: each is written, waiting or lost.

    `passed_groups` and `failed_groups` are written, `files_finished` counts files under their final name. What killed
    runs left in the folder, and was completed at the start, is counted apart: `recovered_files`, `recovered_groups`.
    """

    passed_groups: int
    failed_groups: int
    files_finished: int
    waiting: int
    lost: int
    recovered_files: int = 0
    recovered_groups: int = 0


class DumpState(TypedDict):
    """What a checkpoint keeps, fit for JSON: the name of the run and the number of each stream's next file."""

    run_uuid: str
    passed: int
    failed: int
