"""Keep the library's dataset objects between problems, because some cost 50 to 300 ms to build.

A dataset is kept for a task and its parameters, and gets the seed of each problem before it generates that problem.
Where its constructor consumes the seed, it is built anew for each problem. codeio keeps data of its parameters on its
class, so it is built anew whenever they change.
"""

from __future__ import annotations

import json
from collections import OrderedDict, defaultdict
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from ..library_facts import Rebuild, facts


class DatasetCache:
    """Datasets of the library `module`, those of each task that were used last."""

    KEPT_OF_A_TASK = 4
    """A curriculum moves slowly from level to level; a dataset can take up to 20 MB."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._kept: defaultdict[str, OrderedDict[str, Any]] = defaultdict(OrderedDict)
        self._whole: tuple[str, Any] | None = None

    def get(self, task: str, params: Mapping[str, Any], seed: int | None) -> Any:
        """Return a dataset with these parameters, valid until the next call. Raises what the library does.

        It has the seed `seed`; for None it may have any seed, which is enough for scoring.
        """
        kept = self._kept[task]
        key = _as_key(params)
        dataset = kept.get(key)
        if dataset is None or (seed is not None and facts(task).rebuild is Rebuild.FOR_EACH_SEED):
            dataset = kept[key] = self._build(task, params, seed or 0, 1)
        kept.move_to_end(key)
        if len(kept) > self.KEPT_OF_A_TASK:
            kept.popitem(last=False)
        if seed is not None:
            dataset.seed = seed
            dataset.config.seed = seed
        return dataset

    def get_whole(self, task: str, params: Mapping[str, Any], seed: int, size: int) -> Any:
        """Return a dataset of several items at a seed; the last one is kept. Raises what the library does."""
        key = _as_key({"task": task, "params": params, "seed": seed, "size": size})
        if self._whole is None or self._whole[0] != key:
            self._whole = key, self._build(task, params, seed, size)
        return self._whole[1]

    def _build(self, task: str, params: Mapping[str, Any], seed: int, size: int) -> Any:
        if facts(task).rebuild is Rebuild.FOR_OTHER_PARAMS:  # kept datasets would use the new parameters' data
            self._kept[task].clear()
            self._whole = None
        return self._module.create_dataset(task, seed=seed, size=size, **params)


def _as_key(params: Mapping[str, Any]) -> str:
    return json.dumps(params, sort_keys=True, default=repr)
