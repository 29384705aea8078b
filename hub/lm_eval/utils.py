"""Problems and scores for lm-eval-harness: the functions that the YAML files name."""

from __future__ import annotations

import json
import os
from functools import cache
from typing import Any

from reasoning_env import Bridge
from reasoning_env.integrations import process_bridge
from reasoning_env.tasks import TASKS

SETTINGS = os.environ.get("REASONING_SETTINGS", "{}")
"""Keyword arguments of `Bridge`, as a JSON object."""


def load(task: str, **_: object) -> dict[str, Any]:
    """Return the fixed evaluation problems of a task of reasoning-gym, as a data set with the split `test`."""
    from datasets import Dataset

    return {"test": Dataset.from_list([row for row in make_rows(TASKS[task].category) if row["task"] == task])}


@cache
def make_rows(category: str) -> list[dict[str, str]]:
    """Return a row for each problem of a category. `prompt` includes the system prompt, so that base models get it too.

    The harness loads one task at a time. Starting the workers takes longer than generating the problems, so the first
    call for a category generates the problems of all tasks in this category.
    """
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
        raise RuntimeError(f"no verdict on {doc['reference']}; see the log above for the cause")
    return {"score": verdict.score, "acc": float(verdict.correct)}
