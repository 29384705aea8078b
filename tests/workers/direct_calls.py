"""A script that calls the library directly, for the tests to compare the workers with.

`python direct_calls.py WANTED RESULTS`: both files are pickles. WANTED is a list of (task, seed, parameters, answers);
RESULTS becomes a list of the library's entry as bytes with the scores of the answers.
"""

from __future__ import annotations

import copy
import decimal
import math
import pickle
import random
import sys
from typing import Any

import numpy
import reasoning_gym
from reasoning_gym.composite import DatasetSpec


def main(wanted_file: str, results_file: str) -> None:
    with open(wanted_file, "rb") as file:
        wanted = pickle.load(file)
    results = [_call(*one) for one in wanted]
    with open(results_file, "wb") as file:
        pickle.dump(results, file)


def _call(task: str, seed: int, params: dict[str, Any], answers: list[str]) -> tuple[bytes, list[float | None]]:
    # As the workers do, for what draws from the global generators: list_functions and some programs of codeio.
    random.seed(seed)
    numpy.random.seed(seed % 2**32)
    decimal.setcontext(decimal.DefaultContext.copy())
    if task == "composite":
        members = params["datasets"]
        params = {"datasets": [DatasetSpec(m["name"], m.get("weight", 1.0), m.get("config", {})) for m in members]}
    dataset = reasoning_gym.create_dataset(task, seed=seed, size=1, **params)
    entry = dataset[0]
    entry_bytes = pickle.dumps(entry)
    return entry_bytes, [_score(dataset, entry, answer) for answer in answers]


def _score(dataset: Any, entry: Any, answer: str) -> float | None:
    """The higher score of the bare and the tagged answer, clamped; None when the verifier fails on both."""
    scores = []
    for form in (answer, f"<answer>{answer}</answer>"):
        try:
            value = float(dataset.score_answer(form, copy.deepcopy(entry)))
        except Exception:  # verifiers raise anything
            continue
        if math.isfinite(value):
            scores.append(min(1.0, max(0.0, value)))
    return max(scores, default=None)


if __name__ == "__main__":
    main(*sys.argv[1:])
