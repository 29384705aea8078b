"""Checkpoint files: one JSON object each, written beside their target and renamed, and never half used.

A folder holds `step-{step}.json` for every step that was saved, and `latest.json`. Each save renews `latest.json`, and
before the file of its step: of two files with the same step, `latest.json` is the one that was saved later. What a file
holds is covered by a digest, so that damage of any kind is noticed. No clock is asked for anything.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import ReasoningEnvError

CHECKPOINT_VERSION = 2
LATEST = "latest.json"
PART = "checkpoint.part"
"""Where a file is written before it gets its name; one name for all, so that a kill leaves at most one behind."""
_STEP_FILE = re.compile(r"step-(0|[1-9][0-9]*)\.json")
_DIGEST_KEY = b', "digest": "'


class CheckpointError(ReasoningEnvError):
    """A file that is no checkpoint of this version: names the file and says what is wrong with it."""


@dataclass(frozen=True)
class LoadedCheckpoint:
    """A sound checkpoint; `state` is what was saved for `step`, as JSON gives it back."""

    path: Path
    step: int
    state: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True)
class Search:
    """What a search for a checkpoint found, and the damaged files that it came by before."""

    checkpoint: LoadedCheckpoint | None
    damaged: tuple[CheckpointError, ...]


def step_file(step: int) -> str:
    return f"step-{step}.json"


def encode_checkpoint(step: int, state: Mapping[str, Any]) -> Iterator[bytes]:
    """The file's content, without its digest, in pieces.

    A state can hold megabytes; encoded in one go, it would keep every other thread from running for as long as that
    takes. Raises TypeError or ValueError for a state that JSON cannot hold.
    """
    if step < 0:
        raise ValueError(f"a step is 0 or more, and this one is {step}")
    yield f'{{"version": {CHECKPOINT_VERSION}, "step": {step}, "state": '.encode("ascii")
    for piece in json.JSONEncoder().iterencode(state):
        yield piece.encode("ascii")


def write_checkpoint(folder: Path, name: str, content: Iterable[bytes]) -> None:
    """Put a file with this content and its digest into the folder, whole or not at all.

    Raises OSError, and what making the content raises.
    """
    part = folder / PART
    digest = hashlib.sha256()
    try:
        with part.open("wb") as file:
            for piece in content:
                file.write(piece)
                digest.update(piece)
            file.write(_DIGEST_KEY + digest.hexdigest().encode("ascii") + b'"}\n')
            file.flush()
            os.fsync(file.fileno())
        part.replace(folder / name)
    except Exception:
        # On a full disk, what it takes is missing elsewhere.
        with suppress(OSError):
            part.unlink()
        raise
    _sync_folder(folder)


def read_checkpoint(path: Path) -> LoadedCheckpoint:
    """The checkpoint in a file.

    Raises FileNotFoundError when there is none, and CheckpointError for one that is damaged, of another version or
    cannot be read.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read ({error.strerror})") from error
    record = _parsed(path, content)
    version, step, state = (record.get(key) for key in ("version", "step", "state"))
    if type(version) is not int:
        raise CheckpointError(f"{path} is damaged: it names no version")
    if version != CHECKPOINT_VERSION:
        raise CheckpointError(f"{path} is of version {version}, and only version {CHECKPOINT_VERSION} can be read here")
    if record.get("digest") != _digest(content.rpartition(_DIGEST_KEY)[0]).decode():
        raise CheckpointError(f"{path} is damaged: its digest does not fit its content")
    if type(step) is not int or step < 0 or not isinstance(state, dict):
        raise CheckpointError(f"{path} is damaged: it holds no step and state")
    named = _STEP_FILE.fullmatch(path.name)
    if named is not None and int(named[1]) != step:
        raise CheckpointError(f"{path} holds the checkpoint of step {step}")
    return LoadedCheckpoint(path, step, state)


def find_checkpoint(folder: Path, step: int, *, prefer_latest: bool) -> Search:
    """The newest sound checkpoint that is not after `step`; no more files are read than that takes.

    `step-{step}.json` is what the state was when the trainer saved its own; `latest.json` of the same step was saved
    later, and comes first only with `prefer_latest`.
    """
    damaged: list[CheckpointError] = []
    if not prefer_latest and (exact := _sound(folder / step_file(step), damaged)) is not None:
        return Search(exact, tuple(damaged))
    latest = _sound(folder / LATEST, damaged)
    if latest is not None and latest.step > step:
        latest = None
    for saved in saved_steps(folder):
        if latest is not None and latest.step >= saved:
            break
        found = _sound(folder / step_file(saved), damaged) if saved <= step - (not prefer_latest) else None
        if found is not None:
            return Search(found, tuple(damaged))
    return Search(latest, tuple(damaged))


def saved_steps(folder: Path) -> list[int]:
    """The steps that files of the folder are named for, the newest first; none where it cannot be listed."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return sorted((int(name[1]) for name in map(_STEP_FILE.fullmatch, names) if name is not None), reverse=True)


def _sound(path: Path, damaged: list[CheckpointError]) -> LoadedCheckpoint | None:
    """The checkpoint in a file, or None where there is none or it is damaged, which is then added to `damaged`."""
    try:
        return read_checkpoint(path)
    except FileNotFoundError:
        return None
    except CheckpointError as error:
        damaged.append(error)
        return None


def _parsed(path: Path, content: bytes) -> dict[str, Any]:
    try:
        record = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is damaged: {'it is no JSON' if content else 'it is empty'}") from error
    if not isinstance(record, dict):
        raise CheckpointError(f"{path} is damaged: it holds no JSON object")
    return record


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode("ascii")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
