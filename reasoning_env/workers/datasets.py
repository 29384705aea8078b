"""Keep the library's dataset objects between problems: building one takes up to 300 ms.

A dataset is kept for a task and its parameters. Before it generates a problem, it gets the seed of that problem. If the
constructor of a task uses the seed (`built_for_each_seed`), the dataset is built for each problem. If the constructor
loads data that most parameters share (`built_from`), datasets share the data. If it keeps the data on its class
(`data_on_class`), where the next constructor replaces them, each dataset puts its own data there before it is used.
"""

from __future__ import annotations

import json
from collections import OrderedDict, defaultdict
from collections.abc import Mapping
from copy import copy
from types import ModuleType
from typing import Any

from ..tasks import find_task


class DatasetCache:
    """The datasets of the library `module` that were used last, by task."""

    KEPT_OF_A_TASK = 4
    """A curriculum moves slowly from level to level, and a dataset takes up to 20 MB."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._kept: defaultdict[str, OrderedDict[str, Any]] = defaultdict(OrderedDict)
        self._whole: tuple[str, Any] | None = None

    def get(self, task: str, params: Mapping[str, object], seed: int | None) -> Any:
        """Return a dataset with these parameters and this seed, valid until the next call. Raises the library's errors.

        A seed of None is for scoring: the dataset may have any seed and, if the verifier reads no parameters, any
        parameters.
        """
        kept = self._kept[task]
        key = _as_key(params)
        if seed is None and kept and find_task(task).scores_without_params:
            key = next(reversed(kept))
        dataset = kept.get(key)
        if dataset is None:
            dataset = kept[key] = self._share(task, params) or self._build(task, params, seed or 0, 1)
        elif seed is not None and find_task(task).built_for_each_seed:
            dataset = kept[key] = self._build(task, params, seed, 1)
        kept.move_to_end(key)
        if len(kept) > self.KEPT_OF_A_TASK:
            kept.popitem(last=False)
        if seed is not None:
            dataset.seed = seed
            dataset.config.seed = seed
        _put_on_class(task, dataset)
        return dataset

    def get_whole(self, task: str, params: Mapping[str, object], seed: int, size: int) -> Any:
        """Return a dataset of several items at a seed; the last dataset is kept. Raises the library's errors."""
        key = _as_key({"task": task, "params": params, "seed": seed, "size": size})
        if self._whole is None or self._whole[0] != key:
            self._whole = key, self._build(task, params, seed, size)
        _put_on_class(task, self._whole[1])
        return self._whole[1]

    def _share(self, task: str, params: Mapping[str, object]) -> Any:
        """Return a copy of a kept dataset with other parameters, if both load the same data; else None."""
        read = find_task(task).built_from
        if read is None:
            return None
        for other in self._kept[task].values():
            config = type(other.config)(**params, seed=0, size=1)
            config.validate()
            if all(getattr(config, name) == getattr(other.config, name) for name in read):
                shared = copy(other)
                shared.config = config
                return shared
        return None

    def _build(self, task: str, params: Mapping[str, object], seed: int, size: int) -> Any:
        dataset = self._module.create_dataset(task, seed=seed, size=size, **params)
        name = find_task(task).data_on_class
        if name:
            setattr(dataset, name, getattr(type(dataset), name))
        return dataset


def _put_on_class(task: str, dataset: object) -> None:
    """Put the data of a dataset on its class again: the constructor of a later dataset may have replaced the data."""
    name = find_task(task).data_on_class
    if name:
        setattr(type(dataset), name, getattr(dataset, name))


def _as_key(params: Mapping[str, object]) -> str:
    return json.dumps(params, sort_keys=True, default=repr)
