"""Checkpoint files: one JSON object each, synced, and written whole or not at all.

A folder holds `step-{step}.json` for each step at which the trainer saved, and `latest.json`, the newest state. Each
save writes `latest.json` first, so of two files with the same step `latest.json` was saved later.

A run at step N goes on from the newest sound checkpoint that is not after N. Of two with the same step, `latest.json`
comes first, with one exception: `step-N.json` comes first where the trainer itself went back to what it saved at N. No
clock is read.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import ReasoningEnvError
from ..files import replace_file

logger = logging.getLogger(__name__)

CHECKPOINT_VERSION = 4
LATEST = "latest.json"


class CheckpointError(ReasoningEnvError):
    """A file that is no checkpoint of this version: names the file and says what is wrong with it."""


@dataclass(frozen=True)
class Checkpoint:
    """A sound checkpoint; `state` is what was saved at `step`, as JSON gives it back."""

    path: Path
    step: int
    state: Mapping[str, Any] = field(repr=False)


def step_file(step: int) -> str:
    return f"step-{step}.json"


def write_checkpoint(path: Path, step: int, state: Mapping[str, Any]) -> None:
    """Write a state whole or not at all.

    Raises OSError, and TypeError or ValueError for a state that JSON cannot hold.
    """
    record = {"version": CHECKPOINT_VERSION, "step": step, "state": state}
    # In small pieces: megabytes encoded in one call would stop every other thread meanwhile.
    replace_file(path, (text.encode("ascii") for text in json.JSONEncoder().iterencode(record)))


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint.

    Raises FileNotFoundError when there is none, and CheckpointError for one that is damaged, of another version or
    cannot be read.
    """
    try:
        record = json.loads(path.read_bytes())
        version = record["version"]
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read ({error.strerror})") from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CheckpointError(f"{path} is damaged: it is no JSON object that names a version") from error
    if version != CHECKPOINT_VERSION:
        raise CheckpointError(f"{path} is of version {version}, and only version {CHECKPOINT_VERSION} can be read here")
    return Checkpoint(path, record["step"], record["state"])


def find_checkpoint(folder: Path, step: int, *, prefer_latest: bool) -> Checkpoint | None:
    """Find what a run at `step` goes on from; warns of each damaged file that it passes over.

    With `prefer_latest` not even `step-{step}.json` comes before a `latest.json` of that step.
    """
    latest = _sound(folder / LATEST)
    if latest is not None and latest.step > step:
        latest = None
    for saved in _saved_steps(folder):
        if latest is not None and latest.step >= saved and (prefer_latest or saved < step):
            break
        found = _sound(folder / step_file(saved)) if saved <= step else None
        if found is not None:
            return found
    return latest


def _sound(path: Path) -> Checkpoint | None:
    try:
        return read_checkpoint(path)
    except FileNotFoundError:
        return None
    except CheckpointError as error:
        logger.warning("%s; it is passed over", error)
        return None


def _saved_steps(folder: Path) -> list[int]:
    """Return the steps that files of the folder are named for, the newest first."""
    named = (path.stem.partition("-")[2] for path in folder.glob("step-*.json"))
    return sorted((int(step) for step in named if step.isdecimal()), reverse=True)
