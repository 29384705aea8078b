"""Problems and scores for lm-eval-harness: the functions that the YAML files name."""

from __future__ import annotations

import json
import os
from typing import Any

from reasoning_env import Bridge
from reasoning_env.integrations import process_bridge

SETTINGS = os.environ.get("REASONING_SETTINGS", "{}")
"""Keywords of `Bridge` as JSON."""


def load(category: str, **_: object) -> dict[str, Any]:
    """Return the fixed evaluation problems of a category, as a data set with the split `test`."""
    from datasets import Dataset

    return {"test": Dataset.from_list(make_rows(category))}


def make_rows(category: str) -> list[dict[str, str]]:
    """Return a row for each problem. The system prompt is a part of `prompt`, for base models too."""
    with Bridge(**{**json.loads(SETTINGS), "tasks": f"category:{category}"}) as bridge:
        return [
            {
                "task": problem.task,
                "prompt": "\n\n".join(message["content"] for message in bridge.messages(problem)),
                "reference": problem.reference,
            }
            for problem in bridge.evaluation_problems()
        ]


def process_results(doc: dict[str, str], results: list[str]) -> dict[str, float]:
    """Return the score of a completion, and 1 as `acc` for a right answer. Raises RuntimeError without a verdict."""
    [verdict] = process_bridge(SETTINGS).judge(doc["reference"], [results[0]])
    if verdict is None:
        raise RuntimeError(f"no verdict on {doc['reference']}; the log above says why")
    return {"score": verdict.score, "acc": float(verdict.correct)}
