"""Keep the library's dataset objects between problems, because building one takes up to 300 ms.

A dataset is cached by task and by the parameters that its constructor reads. Before each use, the dataset gets the
other parameters and the seed of the problem. The declaration of a task says what its constructor does:

- `constructor_params`: the parameters that the constructor reads; by default all.
- `constructor_uses_seed`: if true, the dataset is built again for each problem.
- `class_data`: the constructor stores data on the class, and its next call overwrites the data. So the cache restores a
  dataset's data before each use.
"""

from __future__ import annotations

import json
from collections import OrderedDict, defaultdict
from collections.abc import Mapping
from copy import copy
from types import ModuleType
from typing import Any

from ..records import LEVEL_STEPS
from ..tasks import find_task


class DatasetCache:
    """Caches the latest datasets of each task. `module` is the imported library."""

    DATASETS_PER_TASK = LEVEL_STEPS + 1
    """Maximum number of cached datasets per task: one for each level. The datasets of all tasks take 180 MB."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._kept: defaultdict[str, OrderedDict[str, Any]] = defaultdict(OrderedDict)
        self._whole: tuple[str, Any] | None = None

    def get(self, task: str, params: Mapping[str, object], seed: int | None) -> Any:
        """Return a dataset with these parameters and this seed, valid until the next call. Raises the library's errors.

        For scoring, pass None as the seed. The dataset may then have any seed and, if the task's verifier does not read
        parameters, any parameters.
        """
        kept = self._kept[task]
        read = find_task(task).constructor_params
        key = _cache_key(params if read is None else {name: params.get(name) for name in read})
        if seed is None and kept and find_task(task).scores_without_params:
            key = next(reversed(kept))
        dataset = kept.get(key)
        if dataset is None or (seed is not None and find_task(task).constructor_uses_seed):
            dataset = kept[key] = self._build(task, params, seed or 0, 1)
        elif read is not None:
            dataset = kept[key] = _with_params(dataset, params)
        kept.move_to_end(key)
        if len(kept) > self.DATASETS_PER_TASK:
            kept.popitem(last=False)
        if seed is not None:
            dataset.seed = seed
            dataset.size = 1  # word_ladder sets the size to 0 if a seed has no ladder; later seeds would then fail
            dataset.config.seed = seed
        _restore_class_data(task, dataset)
        return dataset

    def get_whole(self, task: str, params: Mapping[str, object], seed: int, size: int) -> Any:
        """Return a dataset of several items for a seed. The latest dataset is cached. Raises the library's errors."""
        key = _cache_key({"task": task, "params": params, "seed": seed, "size": size})
        if self._whole is None or self._whole[0] != key:
            self._whole = key, self._build(task, params, seed, size)
        _restore_class_data(task, self._whole[1])
        return self._whole[1]

    def _build(self, task: str, params: Mapping[str, object], seed: int, size: int) -> Any:
        dataset = self._module.create_dataset(task, seed=seed, size=size, **params)
        name = find_task(task).class_data
        if name:
            setattr(dataset, name, getattr(type(dataset), name))
        return dataset


def _with_params(dataset: Any, params: Mapping[str, object]) -> Any:
    """Return a copy of a dataset with new values of the parameters that the dataset's constructor does not read."""
    changed = copy(dataset)
    changed.config = type(dataset.config)(**params, seed=0, size=1)
    changed.config.validate()
    return changed


def _restore_class_data(task: str, dataset: object) -> None:
    """Store the data of a dataset on its class again, because another dataset's constructor may have replaced it."""
    name = find_task(task).class_data
    if name:
        setattr(type(dataset), name, getattr(dataset, name))


def _cache_key(params: Mapping[str, object]) -> str:
    return json.dumps(params, sort_keys=True, default=repr)
