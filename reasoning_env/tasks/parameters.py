"""What a spec has beside task and seed: the parameters that a user set, and the level of difficulty.

Both are pure functions of the stream and of the spec's position and attempt.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import ConfigError
from ..library_facts import COMPOSITE
from ..records import ProblemSpec
from .seeds import HASH_RANGE, hash_int

RANGE_KEYS = frozenset({"low", "high"})
MOST_COMBINED = 4
"""How many ranges of a task are checked in every combination of their ends."""
MAX_END = 1e15
"""Whole numbers up to here are exact in floating point."""


@dataclass(frozen=True)
class SpecRules:
    """Completes the specs of one stream, that of a seed and an instance.

    `params` are the user's, by task, each fixed or a range `{"low": a, "high": b}` with both ends included. `level` is
    that of all specs; with `random_levels` each spec gets its own, uniform in [0, 1].
    """

    run_seed: int
    instance: int = 0
    params: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    level: float | None = None
    random_levels: bool = False

    def complete(self, spec: ProblemSpec, level: float | None = None) -> ProblemSpec:
        """Return the spec with its parameters drawn and at its level; a given `level` wins."""
        if level is None:
            level = self._share(spec, "level") if self.random_levels else self.level
        if spec.task == COMPOSITE:
            members = [
                {**member, "config": drawn} if (drawn := self._draw(spec, member["name"])) else dict(member)
                for member in spec.params["datasets"]
            ]
            return replace(spec, level=level, params={**spec.params, "datasets": members})
        return replace(spec, level=level, params={**spec.params, **self._draw(spec, spec.task)})

    def _draw(self, spec: ProblemSpec, task: str) -> dict[str, Any]:
        return {
            name: draw_from(value, self._share(spec, "param", task, name)) if is_range(value) else value
            for name, value in self.params.get(task, {}).items()
        }

    def _share(self, spec: ProblemSpec, *what: str) -> float:
        """Return a number in [0, 1] that depends on the stream, the position and the attempt alone."""
        return hash_int(*what, self.run_seed, self.instance, spec.index, spec.attempt) / HASH_RANGE


def is_range(value: Any) -> bool:
    return isinstance(value, Mapping) and value.keys() == RANGE_KEYS


def draw_from(bounds: Mapping[str, Any], share: float) -> int | float:
    """Return a range's value at a share in [0, 1]: whole between whole ends, which are both included."""
    low, high = bounds["low"], bounds["high"]
    if isinstance(low, int) and isinstance(high, int):
        return min(high, low + math.floor(share * (high - low + 1)))
    return float(low + share * (high - low))


def check_params(params: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise ConfigError for invalid ranges and for values that JSON cannot hold; `params` is by task.

    A composite has no parameters to set: its members are the selected tasks.
    """
    if params.get(COMPOSITE):
        raise ConfigError(
            f"task_params: {COMPOSITE} is made of the other selected tasks; select those that it should have"
        )
    for task, wanted in params.items():
        for name, value in wanted.items():
            try:
                json.dumps(value)
            except (TypeError, ValueError) as error:
                raise ConfigError(
                    f"task_params: {task}.{name} must be made of numbers, texts, lists and mappings ({error})"
                ) from error
            if not isinstance(value, Mapping) or not RANGE_KEYS & value.keys():
                continue
            where = f"task_params: {task}.{name}"
            if not is_range(value):
                raise ConfigError(f"{where} must have low and high, and nothing else, to be a range; got {dict(value)}")
            ends = (value["low"], value["high"])
            if not all(type(end) in (int, float) and abs(end) <= MAX_END for end in ends):
                raise ConfigError(f"{where}: low and high must be finite numbers; got {ends[0]!r} and {ends[1]!r}")
            if ends[0] > ends[1]:
                raise ConfigError(f"{where}: low is above high ({ends[0]} > {ends[1]}); exchange them")


def extremes(params: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what the library must accept: the parameters with their ranges' ends in every combination.

    With more than MOST_COMBINED ranges, all at their low ends and all at their high ends.
    """
    ranged = [name for name, value in params.items() if is_range(value)]
    lows, highs = ([params[name][end] for name in ranged] for end in ("low", "high"))
    if len(ranged) <= MOST_COMBINED:
        combined = list(itertools.product(*(dict.fromkeys(ends) for ends in zip(lows, highs, strict=True))))
    else:
        combined = [tuple(lows), tuple(highs)]
    return [{**params, **dict(zip(ranged, values, strict=True))} for values in combined]
