"""Finds what a run dumped and shows a piece of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

QUESTION_CHARS = 200
REPLY_CHARS = 100


@dataclass(frozen=True)
class DumpFile:
    """A file of rollouts, one line for each group."""

    path: Path
    groups: int


def find_dumps(folder: Path) -> set[Path]:
    """Return the paths of the dump files in a folder."""
    return set(folder.glob("*.jsonl"))


def measure(paths: Iterable[Path]) -> list[DumpFile]:
    """Return dump files with their numbers of groups, in the order of their names."""
    return [DumpFile(path, path.read_bytes().count(b"\n")) for path in sorted(paths)]


@dataclass(frozen=True)
class Example:
    """A group whose scores differ: a few lines of text that show it, and where it stands (lines count from 1)."""

    text: str
    path: Path
    line: int


def find_example(files: Iterable[DumpFile]) -> Example | None:
    """Return the first group whose scores differ, shown by its best and its worst rollout; None if there is none."""
    for file in files:
        with file.path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                group = json.loads(line)
                rollouts = sorted(group["rollouts"], key=lambda rollout: float(rollout["score"]))
                if rollouts[0]["score"] < rollouts[-1]["score"]:
                    return Example(_show(group["item_id"], rollouts[-1], rollouts[0]), file.path, number)
    return None


def _show(task: str, best: Mapping[str, Any], worst: Mapping[str, Any]) -> str:
    question = next(turn["content"] for turn in best["conversation"] if turn["role"] == "user")
    lines = [f"task   {task}", f"asked  {_shorten(question, QUESTION_CHARS)}"]
    for rollout in (best, worst):
        reply = _shorten(rollout["conversation"][-1]["content"], REPLY_CHARS, keep_end=True)
        lines.append(f"{rollout['score']:.2f}   {reply}")
    return "\n".join(lines)


def _shorten(text: str, most: int, *, keep_end: bool = False) -> str:
    text = " ".join(text.split())
    if len(text) <= most:
        return text
    return f"... {text[-most:]}" if keep_end else f"{text[:most]} ..."
