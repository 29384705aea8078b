"""Choose how many problems an evaluation completes concurrently during training."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from reasoning_env.atropos.config import ReasoningGymEnvConfig
from reasoning_env.atropos.evaluations import ModelEvaluations


@pytest.mark.parametrize(
    ("settings", "repeats", "workers"),
    [
        ({}, 1, 2 * 8 * 4),
        ({"eval_handling": "LIMIT_TRAIN"}, 1, 2 * 8 * 4 // 2),
        ({"eval_handling": "LIMIT_TRAIN", "eval_limit_ratio": 1.0}, 1, 1),
        ({"eval_handling": "NONE", "group_size": 16, "max_num_workers": 10}, 8, 10),
        ({}, 500, 1),
        ({"max_eval_workers": 3}, 1, 3),
    ],
)
def test_default_eval_concurrency_is_derived_from_training_concurrency(
    settings: dict[str, Any], repeats: int, workers: int
) -> None:
    config = ReasoningGymEnvConfig(**settings)
    run: Any = SimpleNamespace(
        config=config,
        servers=["a", "b"],
        session=SimpleNamespace(eval_plan=SimpleNamespace(repeats=repeats)),
    )
    model: Any = None
    ModelEvaluations(run, model).choose_workers()
    assert config.max_eval_workers == workers
