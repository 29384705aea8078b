"""Make chat data for fine-tuning from files of groups: one line for each completion that is kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..records import Verdict
from ..storage.files import replace_file
from .format import model_of

RolloutJson = Mapping[str, Any]


def _best(rollouts: Sequence[RolloutJson]) -> list[RolloutJson]:
    best = max(rollouts, key=lambda rollout: rollout["score"], default={"score": 0.0})
    return [best] if best["score"] > 0.0 else []


def _correct(rollouts: Sequence[RolloutJson]) -> list[RolloutJson]:
    return [rollout for rollout in rollouts if (rollout["verifier_score"] or 0.0) >= Verdict.CORRECT_SCORE]


KEEP: Mapping[str, Callable[[Sequence[RolloutJson]], Sequence[RolloutJson]]] = {
    "best": _best,
    "correct": _correct,
    "all": lambda rollouts: rollouts,
}
"""Selections of a group's completions, by the value of the option `keep`."""


def chat_path(groups: Path, keep: str) -> Path:
    """Return the path of the chat data of a file of groups."""
    return groups.with_stem(f"{groups.stem}-{keep}")


def chat_paths(groups: Path) -> list[Path]:
    """Return the paths of all chat data of a file of groups."""
    return [chat_path(groups, keep) for keep in KEEP]


def write_chat(groups: Path, keep: str) -> int:
    """Write chat data beside its file of groups, whole or not at all. Return the number of lines.

    Each line has `messages` and the facts of its completion and its group: `pass_rate` is the share of correct
    completions among the `group_size` completions of the problem. A column has the same type in every line, since
    readers take the types from the first lines: a missing answer or model is "", a missing level -1, and parameters are
    JSON. Raises ConfigError if another file is at their path.
    """
    out = chat_path(groups, keep)
    _check_replaceable(out)
    count = 0
    model = model_of(groups) or ""

    def rows() -> Iterator[bytes]:
        nonlocal count
        with open(groups, encoding="ascii") as lines:
            for line in lines:
                for row in _rows(json.loads(line), keep, model):
                    count += 1
                    yield json.dumps(row).encode("ascii") + b"\n"

    replace_file(out, rows(), mode=0o666)
    return count


def _check_replaceable(path: Path) -> None:
    """Raise ConfigError if a file at the path holds anything but chat data of ours."""
    with suppress(FileNotFoundError), path.open("rb") as lines:
        first = lines.readline()
        if first and not all(f'"{column}": '.encode() in first for column in ("messages", "pass_rate", "group_size")):
            raise ConfigError(f"{path} exists, and holds no chat data", remedy="move the file, or name other groups")


def _rows(group: Mapping[str, Any], keep: str, model: str) -> Iterator[dict[str, Any]]:
    level = group["level"]
    rollouts = group["rollouts"]
    pass_rate = len(_correct(rollouts)) / len(rollouts)
    for rollout in KEEP[keep](rollouts):
        yield {
            "messages": rollout["conversation"],
            "task": group["item_id"],
            "seed": group["seed"],
            "index": group["index"],
            "reference": group["reference"],
            "params": json.dumps(group["params"]),
            "pass_rate": pass_rate,
            "group_size": len(rollouts),
            "model": model,
            "level": -1.0 if level is None else float(level),
            "score": float(rollout["score"]),
            "thinking": rollout.get("thinking", ""),
            "reason": rollout["reason"] or "",
            "answer": rollout["answer"] or "",
            "expected_answer": group["expected_answer"] or "",
            "finish_reason": rollout["finish_reason"],
        }
