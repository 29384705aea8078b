"""Keep the library's dataset objects between problems, because some cost 50 to 300 ms to build.

One is kept for each task and the parameters that a user set, and moved to another seed or level of difficulty where
that gives the same items as building it anew; where it does not, one is kept for each level, or none.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from ..library_facts import Rebuild, facts

CLASS_DATA = "_jsonl_data"
"""What codeio keeps on its class, where the next dataset of other parameters overwrites it."""
KEPT = 512
KEPT_OF_A_TASK = 20
"""Enough for all levels; a user's parameter ranges could need any number of datasets, of up to 14 MB each."""


@dataclass
class _Kept:
    task: str
    dataset: Any
    params_json: str
    class_data: Any


class DatasetCache:
    """`module` is the library; `configs` are its config classes by task, where they are known."""

    def __init__(self, module: ModuleType, configs: Mapping[str, Any]) -> None:
        self._module = module
        self._configs = configs
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._whole: tuple[str, Any] | None = None

    def get(self, task: str, overrides: Mapping[str, Any], params: Mapping[str, Any], seed: int | None) -> Any:
        """Return a dataset of the parameters `params`, of which a user set `overrides`.

        It is at `seed` or, for None, at any seed, which is good enough to score with. It is the caller's until the next
        call. Raises what the library does.
        """
        rebuild = facts(task).rebuild
        params_json = _as_key(params)
        moves_to_levels = rebuild is Rebuild.NEVER and task in self._configs
        key = task + (_as_key(overrides) if moves_to_levels else params_json)
        kept = self._kept.get(key)
        if kept is None or (seed is not None and rebuild is Rebuild.FOR_EACH_SEED):
            dataset = self._module.create_dataset(task, seed=seed or 0, size=1, **params)
            self._keep(key, _Kept(task, dataset, params_json, getattr(type(dataset), CLASS_DATA, None)))
            return dataset
        self._kept.move_to_end(key)
        if kept.params_json != params_json:
            kept.dataset.config = self._configs[task](**params, seed=seed or 0, size=1)
            kept.params_json = params_json
        if kept.class_data is not None:
            setattr(type(kept.dataset), CLASS_DATA, kept.class_data)
        if seed is not None:
            kept.dataset.seed = seed
            kept.dataset.config.seed = seed
        return kept.dataset

    def get_whole(self, task: str, params: Mapping[str, Any], seed: int, size: int) -> Any:
        """Return a dataset of several items at a seed; the last one is kept. Raises what the library does."""
        key = _as_key({"task": task, "params": params, "seed": seed, "size": size})
        if self._whole is None or self._whole[0] != key:
            self._whole = key, self._module.create_dataset(task, seed=seed, size=size, **params)
        return self._whole[1]

    def _keep(self, key: str, kept: _Kept) -> None:
        """Keep a dataset; where there are too many, drop the one that was used longest ago."""
        self._kept[key] = kept
        self._kept.move_to_end(key)
        of_task = [other for other, held in self._kept.items() if held.task == kept.task]
        if len(of_task) > KEPT_OF_A_TASK:
            del self._kept[of_task[0]]
        elif len(self._kept) > KEPT:
            self._kept.popitem(last=False)


def _as_key(params: Mapping[str, Any]) -> str:
    return json.dumps(params, sort_keys=True, default=repr) if params else ""
