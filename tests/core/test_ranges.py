from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from reasoning_env.atropos.config import BASE_RANGES, check_ranges

ALLOWED: dict[str, list[Any]] = {
    "group_size": [1, 64],
    "max_num_workers": [-1, 1, 8],
    "max_eval_workers": [1],
    "max_num_workers_per_node": [1],
    "steps_per_eval": [-1, 0, 100],
    "max_token_length": [16, 2048],
    "eval_limit_ratio": [0.0, 0.5, 1.0],
    "inference_weight": [-1, 0, 2.5],
    "batch_size": [-1, 1],
    "max_batches_offpolicy": [1],
    "total_steps": [-1, 1],
    "num_rollouts_to_keep": [0, 32],
    "num_rollouts_per_group_for_logging": [-1, 0, 1],
    "min_batch_allocation": [None, 0.0, 1.0],
    "worker_timeout": [-1, 0.5, 600],
    "reasoning_effort": [None, "none", "high"],
    "rollout_server_url": ["http://localhost:8000", "https://host"],
    "tokenizer_name": ["some/tokenizer"],
}
REFUSED: dict[str, list[Any]] = {
    "group_size": [0, -1],
    "max_num_workers": [0, -2],
    "max_eval_workers": [0],
    "max_num_workers_per_node": [0],
    "steps_per_eval": [-2],
    "max_token_length": [15, 0, -1],
    "eval_limit_ratio": [-0.1, 1.1, math.nan],
    "inference_weight": [-0.5, -2, math.nan],
    "batch_size": [0, -2],
    "max_batches_offpolicy": [0],
    "total_steps": [0, -2],
    "num_rollouts_to_keep": [-1],
    "num_rollouts_per_group_for_logging": [-2],
    "min_batch_allocation": [-0.1, 1.5, math.nan],
    "worker_timeout": [0, -2, math.nan],
    "reasoning_effort": ["", "enormous"],
    "rollout_server_url": ["localhost:8000", "", "ftp://host"],
    "tokenizer_name": [""],
}


def _values(**changed: Any) -> SimpleNamespace:
    return SimpleNamespace(**{name: values[0] for name, values in ALLOWED.items()} | changed)


def test_every_range_is_tested() -> None:
    assert set(ALLOWED) == set(REFUSED) == set(BASE_RANGES)


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in ALLOWED.items() for value in values])
def test_values_in_range_pass(name: str, value: Any) -> None:
    check_ranges(_values(**{name: value}))


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in REFUSED.items() for value in values])
def test_value_out_of_range_is_refused_by_name_with_what_is_allowed(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be ") as refusal:
        check_ranges(_values(**{name: value}))
    assert str(refusal.value) == f"{name} must be {BASE_RANGES[name].words}; got {value!r}"
