"""The cache of datasets, with a fake library that records each construction."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from reasoning_env.workers.datasets import DatasetCache

KEPT, ON_CLASS, SHARED, PER_SEED, UNKNOWN = "gcd", "codeio", "group_anagrams", "acre", "brand_new"
TASKS = (KEPT, ON_CLASS, SHARED, PER_SEED, UNKNOWN)
EASY, HARD = {"width": 1, "words": ["a"]}, {"width": 9}


@dataclass
class Config:
    seed: int
    size: int
    width: int = 5
    words: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.validate()

    def validate(self) -> None:
        if self.width < 0:
            raise ValueError("no such width")


class Dataset:
    """A dataset whose item shows all values from which the dataset was made."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.seed = config.seed

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"index": index, "seed": self.seed, **vars(self.config)}


class CodeDataset(Dataset):
    """A dataset that stores data made from its parameters in a class attribute, as codeio does."""

    _jsonl_data: ClassVar[str] = ""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        CodeDataset._jsonl_data = f"data of width {config.width}"

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {**super().__getitem__(index), "data": CodeDataset._jsonl_data}


class Factory:
    """A fake of the library's module that counts created and living datasets."""

    def __init__(self) -> None:
        self.built: list[str] = []
        self.alive: weakref.WeakSet[Dataset] = weakref.WeakSet()

    def create_dataset(self, task: str, **config: Any) -> Dataset:
        dataset = (CodeDataset if task == ON_CLASS else Dataset)(Config(**config))
        self.built.append(task)
        self.alive.add(dataset)
        return dataset


@pytest.fixture
def factory() -> Factory:
    return Factory()


@pytest.fixture
def cache(factory: Factory) -> DatasetCache:
    return DatasetCache(SimpleNamespace(create_dataset=factory.create_dataset))


def _item(cache: DatasetCache, task: str, seed: int, params: dict[str, Any]) -> dict[str, Any]:
    item: dict[str, Any] = cache.get(task, params, seed)[0]
    return item


def _fresh(task: str, seed: int, params: dict[str, Any]) -> dict[str, Any]:
    item: dict[str, Any] = Factory().create_dataset(task, seed=seed, size=1, **params)[0]
    return item


@pytest.mark.parametrize("task", TASKS)
def test_cached_dataset_gives_the_same_items_as_a_newly_built_dataset(cache: DatasetCache, task: str) -> None:
    for seed, params in enumerate([EASY, HARD, {}, HARD, EASY, {}, EASY] * 2):
        item = _item(cache, task, seed, params)
        # A new codeio dataset overwrites the class attributes of all others.
        assert item == _fresh(task, seed, params)


@pytest.mark.parametrize(("task", "builds"), [(KEPT, 2), (ON_CLASS, 2), (SHARED, 1), (PER_SEED, 6), (UNKNOWN, 6)])
def test_task_declaration_decides_when_the_dataset_is_rebuilt(
    cache: DatasetCache, factory: Factory, task: str, builds: int
) -> None:
    for seed, params in enumerate((EASY, EASY, HARD, HARD, EASY, HARD)):
        _item(cache, task, seed, params)
    assert factory.built == [task] * builds


@pytest.mark.parametrize("task", [KEPT, SHARED])
def test_cache_resets_the_changed_size_of_a_dataset_to_1(cache: DatasetCache, task: str) -> None:
    cache.get(task, EASY, 1).size = 0
    assert cache.get(task, HARD if task == SHARED else EASY, 2).size == 1


@pytest.mark.parametrize("task", TASKS)
def test_scoring_reuses_the_dataset_that_generation_cached(cache: DatasetCache, factory: Factory, task: str) -> None:
    _item(cache, task, 8, EASY)
    cache.get(task, EASY, None)
    assert factory.built == [task]


@pytest.mark.parametrize("task", [KEPT, SHARED, PER_SEED, UNKNOWN])
def test_cached_dataset_has_the_requested_params(cache: DatasetCache, task: str) -> None:
    for params in (EASY, HARD, {}, EASY):
        config = cache.get(task, params, None).config
        assert (config.width, config.words) == (params.get("width", 5), params.get("words", []))


def test_dataset_is_reused_for_other_params_if_the_verifier_ignores_params(
    cache: DatasetCache, factory: Factory
) -> None:
    for params in (EASY, HARD, {}):
        cache.get("spell_backward", params, None)
    assert factory.built == ["spell_backward"]
    assert _item(cache, "spell_backward", 3, HARD) == _fresh("spell_backward", 3, HARD)


def test_cached_dataset_is_found_if_its_params_are_in_another_order(cache: DatasetCache, factory: Factory) -> None:
    cache.get(KEPT, {"width": 1, "words": []}, 0)
    cache.get(KEPT, {"words": [], "width": 1}, 0)
    assert len(factory.built) == 1


def test_similar_params_get_separate_datasets(cache: DatasetCache) -> None:
    for words in ({1}, {2}, ["1"], [1], [True], [1.0]):
        params: dict[str, Any] = {"words": words}
        assert repr(_item(cache, KEPT, 0, params)) == repr(_fresh(KEPT, 0, params))


@pytest.mark.parametrize("task", TASKS)
def test_cached_dataset_still_works_after_the_library_rejected_params(cache: DatasetCache, task: str) -> None:
    _item(cache, task, 0, EASY)
    with pytest.raises(ValueError, match="no such width"):
        _item(cache, task, 1, {"width": -1})
    assert _item(cache, task, 2, EASY) == _fresh(task, 2, EASY)


def test_dataset_cache_size_is_limited(cache: DatasetCache, factory: Factory) -> None:
    for width in range(20):
        _item(cache, KEPT, 0, {"width": width})
    assert {dataset.config.width for dataset in factory.alive} == set(range(20 - DatasetCache.DATASETS_PER_TASK, 20))


def test_least_recently_used_dataset_is_removed_from_the_cache(cache: DatasetCache, factory: Factory) -> None:
    most = DatasetCache.DATASETS_PER_TASK
    for width in (*range(most), 0, most):
        _item(cache, KEPT, 0, {"width": width})
    assert {dataset.config.width for dataset in factory.alive} == {0, *range(2, most + 1)}


def test_dataset_is_built_only_once_for_several_items(cache: DatasetCache, factory: Factory) -> None:
    items = [cache.get_whole(PER_SEED, EASY, 7, 50)[number] for number in range(3)]
    assert items == [{"index": number, "seed": 7, "size": 50, **EASY} for number in range(3)]
    assert factory.built == [PER_SEED]


def test_building_a_dataset_of_several_items_does_not_change_cached_datasets(cache: DatasetCache) -> None:
    _item(cache, ON_CLASS, 0, EASY)
    cache.get_whole(ON_CLASS, HARD, 0, 2)
    assert _item(cache, ON_CLASS, 1, EASY)["data"] == "data of width 1"
