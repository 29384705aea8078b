"""Ranges of Atropos' own settings, which its config class does not check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Range:
    """A test on a value and, in words, what passes it."""

    allows: Callable[[Any], bool]
    words: str


def _at_least(low: float) -> Range:
    return Range(lambda value: value >= low, f"at least {low}")


def _or_minus_one(low: float) -> Range:
    return Range(lambda value: value == -1 or value >= low, f"at least {low}, or -1")


SHARE = Range(lambda value: value is None or 0.0 <= value <= 1.0, "between 0 and 1")
POSITIVE_OR_MINUS_ONE = Range(lambda value: value == -1 or value > 0, "positive, or -1 for none")
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")

BASE_RANGES = {
    "group_size": _at_least(1),
    "max_num_workers": _or_minus_one(1),
    "max_eval_workers": _at_least(1),
    "max_num_workers_per_node": _at_least(1),
    "steps_per_eval": _at_least(-1),
    "max_token_length": _at_least(16),
    "eval_limit_ratio": SHARE,
    "inference_weight": Range(lambda value: value == -1 or value >= 0, "at least 0, or -1 to ignore it"),
    "batch_size": _or_minus_one(1),
    "max_batches_offpolicy": _at_least(1),
    "total_steps": _or_minus_one(1),
    "num_rollouts_to_keep": _at_least(0),
    "num_rollouts_per_group_for_logging": _at_least(-1),
    "min_batch_allocation": SHARE,
    "worker_timeout": POSITIVE_OR_MINUS_ONE,
    "reasoning_effort": Range(lambda value: value is None or value in EFFORTS, f"one of {', '.join(EFFORTS)}, or none"),
    "rollout_server_url": Range(
        lambda value: value.startswith(("http://", "https://")), "a URL that begins with http:// or https://"
    ),
    "tokenizer_name": Range(bool, "the name or folder of a tokenizer"),
}


def check_ranges(values: object) -> None:
    """Raises ValueError naming the first field that is out of its range, what is allowed and what came."""
    for name, allowed in BASE_RANGES.items():
        value = getattr(values, name)
        if not allowed.allows(value):
            raise ValueError(f"{name} must be {allowed.words}; got {value!r}")
