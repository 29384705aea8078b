"""Reading dumps back, one group at a time, so that memory does not grow with the files.

Only `item_id`, `rollouts`, `conversation` and `score` have to be there; everything else is None or empty where a file
lacks it, and keys that this version does not know are ignored.
"""

from __future__ import annotations

import gzip
import json
import logging
import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from ..errors import ReasoningEnvError

logger = logging.getLogger(__name__)

T = TypeVar("T")


class DumpFormatError(ReasoningEnvError):
    """A line that is no group: names the file and the line, counted from 1."""

    def __init__(self, path: Path, line: int, problem: str) -> None:
        super().__init__(f"{path}, line {line}: {problem}; mend the file, or read with strict=False to skip the damage")
        self.path = path
        self.line = line


@dataclass(frozen=True)
class DumpedRollout:
    """One rollout as it was dumped.

    `conversation` holds messages with `role` and `content`, the completion last. `score` is the reward that was sent,
    `verifier_score` the one before the length penalty.
    """

    conversation: tuple[Mapping[str, str], ...] = field(repr=False)
    score: float
    reason: str | None = None
    answer: str | None = None
    finish_reason: str | None = None
    verifier_score: float | None = None


@dataclass(frozen=True)
class DumpedGroup:
    """One line of a dump; `item_id` is the task's name."""

    item_id: str
    rollouts: tuple[DumpedRollout, ...]
    seed: int | None = None
    index: int | None = None
    split: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    level: float | None = None
    expected_answer: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def scores(self) -> tuple[float, ...]:
        return tuple(rollout.score for rollout in self.rollouts)


def read_groups(path: Path | str, *, strict: bool = True) -> Iterator[DumpedGroup]:
    """The groups of a file, or of every `.jsonl` and `.jsonl.gz` file of a folder in the order of their names.

    Files that are still being written (`.part`) are read only when they are named, and blank lines are passed over.
    Raises OSError when the path cannot be read, and DumpFormatError at a malformed line; with `strict=False` such a
    line is skipped with a warning, as is the rest of a damaged `.gz` file.
    """
    path = Path(path)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.name.endswith((".jsonl", ".jsonl.gz")))
    else:
        path.stat()  # raises here, at the call, rather than at the first group
        files = [path]
    return chain.from_iterable(_read_file(file, strict) for file in files)


def _read_file(path: Path, strict: bool) -> Iterator[DumpedGroup]:
    number = 0
    try:
        with _open(path) as lines:
            for number, line in enumerate(lines, 1):
                if line.isspace():
                    continue
                try:
                    group = _group(_parsed(line))
                except (ValueError, OverflowError, RecursionError) as error:
                    _report(DumpFormatError(path, number, str(error)), strict)
                else:
                    yield group
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        _report(DumpFormatError(path, number + 1, f"damaged gzip data ({error})"), strict)


def _open(path: Path) -> BinaryIO:
    # Bytes, because text mode would also end lines at a lone carriage return.
    return cast(BinaryIO, gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb")


def _report(error: DumpFormatError, strict: bool) -> None:
    if strict:
        raise error
    logger.warning("skipped: %s", error)


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line.decode("utf-8"))
    except json.JSONDecodeError as error:
        # The decoder's own text speaks of a line 1, which would stand beside the line in the file.
        raise ValueError(f"not JSON ({error.msg} at character {error.pos} of {len(error.doc)})") from error


def _group(line: Any) -> DumpedGroup:
    group = _typed(line, dict, "the line")
    return DumpedGroup(
        item_id=_required(group, "item_id", str),
        rollouts=tuple(_rollout(_typed(item, dict, "a rollout")) for item in _required(group, "rollouts", list)),
        seed=_optional(group, "seed", int),
        index=_optional(group, "index", int),
        split=_optional(group, "split", str),
        params=_optional(group, "params", dict) or {},
        level=_optional(group, "level", float),
        expected_answer=_optional(group, "expected_answer", str),
        metadata=_optional(group, "metadata", dict) or {},
    )


def _rollout(rollout: dict[str, Any]) -> DumpedRollout:
    messages = [_typed(item, dict, "a message") for item in _required(rollout, "conversation", list)]
    return DumpedRollout(
        conversation=tuple({key: _required(message, key, str) for key in ("role", "content")} for message in messages),
        score=_required(rollout, "score", float),
        reason=_optional(rollout, "reason", str),
        answer=_optional(rollout, "answer", str),
        finish_reason=_optional(rollout, "finish_reason", str),
        verifier_score=_optional(rollout, "verifier_score", float),
    )


def _required(record: dict[str, Any], key: str, kind: type[T]) -> T:
    if key not in record:
        raise ValueError(f"`{key}` is missing")
    return _typed(record[key], kind, f"`{key}`")


def _optional(record: dict[str, Any], key: str, kind: type[T]) -> T | None:
    value = record.get(key)
    return None if value is None else _typed(value, kind, f"`{key}`")


def _typed(value: Any, kind: type[T], what: str) -> T:
    if kind is float and type(value) is int:
        value = float(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{what} is not a finite number")
    # An exact match, because a JSON true is also an int to Python.
    if type(value) is not kind:
        raise ValueError(f"{what} should be {kind.__name__}, and is {type(value).__name__}")
    return value
