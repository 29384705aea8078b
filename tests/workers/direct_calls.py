"""Call the library directly, to compare the results with those of workers."""

from __future__ import annotations

import contextlib
import copy
import decimal
import math
import multiprocessing
import os
import pickle
import random
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from reasoning_env.tasks import find_task
from reasoning_env.workers.clock import frozen_clock
from reasoning_env.workers.library import sort_fonts


def call_library(
    folder: Path, calls: Sequence[tuple[str, int, Any, list[str]]], *, tagged: bool = True
) -> list[tuple[bytes, Any]]:
    """Return problems and scores of the library, computed in a new process.

    Each result is the pickled entry with the scores of the answers. With `tagged`, each answer is also scored inside
    its tags.
    """
    spawn = multiprocessing.get_context("spawn")
    with (
        mock.patch.dict(os.environ, PYTHONHASHSEED="0", PYTHONWARNINGS="ignore"),
        ProcessPoolExecutor(1, spawn, initializer=os.chdir, initargs=(folder,)) as process,
    ):
        return list(process.map(partial(_call, tagged=tagged), *zip(*calls, strict=True)))


def _call(
    task: str, seed: int, params: Mapping[str, Any], answers: list[str], *, tagged: bool
) -> tuple[bytes, list[float | None]]:
    import numpy
    import reasoning_gym
    from reasoning_gym.composite import DatasetSpec

    sort_fonts()
    # As in workers: list_functions and some codeio programs use the global random generators.
    random.seed(seed)
    numpy.random.seed(seed % 2**32)
    decimal.setcontext(decimal.DefaultContext.copy())
    if task == "composite":
        members = params["datasets"]
        params = {"datasets": [DatasetSpec(m["name"], m.get("weight", 1.0), m.get("config", {})) for m in members]}
    dataset = reasoning_gym.create_dataset(task, seed=seed, size=1, **params)
    with frozen_clock() if find_task(task).reads_clock else contextlib.nullcontext():
        entry = dataset[0]
    entry_bytes = pickle.dumps(entry)
    return entry_bytes, [_score(dataset, entry, answer, tagged) for answer in answers]


def _score(dataset: Any, entry: Any, answer: str, tagged: bool) -> float | None:
    """Return the higher score of the bare and the tagged answer, clamped; None if the verifier raises for both."""
    scores = []
    for form in (answer, f"<answer>{answer}</answer>") if tagged else (answer,):
        with contextlib.suppress(Exception):  # verifiers may raise any exception
            scores.append(float(dataset.score_answer(form, copy.deepcopy(entry))))
    return max((min(1.0, max(0.0, score)) for score in scores if math.isfinite(score)), default=None)
