"""A script that calls the library directly, for the tests to compare the workers with.

`python direct_calls.py WANTED RESULTS WRONG_ANSWER`: both files are pickles. WANTED is a mapping from (task, seed) to
parameters; RESULTS becomes a mapping from (task, seed) to what the library made of them.
"""

from __future__ import annotations

import copy
import math
import pickle
import sys
from collections.abc import Callable
from typing import Any

import reasoning_gym
from reasoning_gym.composite import DatasetSpec


def main(wanted_file: str, results_file: str, wrong_answer: str) -> None:
    with open(wanted_file, "rb") as file:
        wanted = pickle.load(file)
    results = {key: _call(*key, params, wrong_answer) for key, params in wanted.items()}
    with open(results_file, "wb") as file:
        pickle.dump(results, file)


def _call(task: str, seed: int, params: dict[str, Any], wrong_answer: str) -> dict[str, Any]:
    if task == "composite":
        params = {"datasets": [DatasetSpec(member["name"], weight=1.0, config={}) for member in params["datasets"]]}
    dataset = reasoning_gym.create_dataset(task, seed=seed, size=1, **params)
    entry = dataset[0]
    entry_bytes = pickle.dumps(entry)

    def score(answer: str) -> float:
        return float(dataset.score_answer(answer, copy.deepcopy(entry)))

    oracle = entry["answer"]
    return {
        "question": entry["question"],
        "answer": None if oracle is None else str(oracle),
        "entry": entry_bytes,
        "oracle_score": None if oracle is None else _best_of_both_forms(score, str(oracle)),
        "wrong_score": _best_of_both_forms(score, wrong_answer),
    }


def _best_of_both_forms(score: Callable[[str], float], answer: str) -> float | None:
    """The higher score of the bare and the tagged answer, clamped; None when the verifier fails on both."""
    scores = []
    for form in (answer, f"<answer>{answer}</answer>"):
        try:
            value = score(form)
        except Exception:  # what a verifier raises is its own affair
            continue
        if math.isfinite(value):
            scores.append(min(1.0, max(0.0, value)))
    return max(scores, default=None)


if __name__ == "__main__":
    main(*sys.argv[1:])
