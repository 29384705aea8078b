"""Lines of groups, and folders with such lines, as dumps, `process` and evaluations write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from reasoning_env.problems.references import hash_question
from reasoning_env.reports.html.page import collect, encode
from reasoning_env.reports.runs import find_runs


def row(**figures: Any) -> dict[str, Any]:
    """Return a row of results.json with the given values."""
    return {"problems": 1, "completions": 2, "failed": 0, **figures}


def published(overall: float, **more: Any) -> dict[str, Any]:
    """Return the published means of a model."""
    return {"short": "pub", "overall": overall, "comparable": None, "categories": {}, "tasks": {}, **more}


RESULTS: dict[str, Any] = {
    "format": 1,
    "finished": True,
    "model": "m",
    "server": {},
    "started": "2026-01-01T00:00:00+0000",
    "seconds": 1.0,
    "problems": 1,
    **dict.fromkeys(("preset", "step", "fingerprint")),
    "versions": {},
    "settings": {"eval_temperature": 0.6},
    "remarks": ["fewer problems"],
    "overall": row(mean_score=0.5, library_score=0.75),
    "categories": {},
    "tasks": {},
    "published": {"a model": published(0.25, tasks={"gcd": 0.125})},
}
"""The content of results.json with all keys that an evaluation writes."""


def rollout(score: float = 1.0, text: str = "<think>hm</think><answer>1</answer>", **more: Any) -> dict[str, Any]:
    conversation = [{"role": "user", "content": "How many?"}, {"role": "assistant", "content": text}]
    return {"conversation": conversation, "score": score, "reason": "scored", "verifier_score": score, **more}


def group(*rollouts: dict[str, Any], task: str = "gcd", **more: Any) -> dict[str, Any]:
    reference = reference_of(task, more.get("index") or 0)
    return {
        "item_id": task,
        "rollouts": list(rollouts),
        "seed": 7,
        "expected_answer": "11",
        "reference": reference,
        **more,
    }


def reference_of(task: str, seed: int, *, question: str = "How many?", release: str = "0.1.25") -> str:
    return f"{task}:eval:{seed}:-:{release}:{hash_question(question)}:{{}}"


def write(path: Path, *groups: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in groups))
    return path


def write_evaluation(folder: Path, *groups: dict[str, Any], results: Any = RESULTS) -> Path:
    write(folder / "samples.jsonl", *groups)
    (folder / "results.json").write_text(json.dumps(results))
    return folder


def report(*paths: Path, characters: int = 10**6) -> dict[str, Any]:
    """Return the page's data about these paths. The sample has at most this many characters."""
    data: dict[str, Any] = json.loads(encode(collect(find_runs(paths), "env", characters / 1_000_000)))
    return data
