"""What a dumper tells of itself: its counts, and what a checkpoint keeps of it."""

from __future__ import annotations

from typing import TypedDict


class DumpState(TypedDict):
    """What a checkpoint keeps, fit for JSON: the name of the run and the number of each stream's next file."""

    run_uuid: str
    passed: int
    failed: int
