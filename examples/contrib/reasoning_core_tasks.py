"""The tasks of reasoning-core, which register themselves with reasoning-gym, for `task_modules`.

    pip install 'reasoning-core[gen]==0.5.0'
    python reasoning_gym_environment.py tasks arithmetics --task-modules examples/contrib/reasoning_core_tasks.py

The tasks use Python's global random generator, which a worker seeds before each problem. Parts of reasoning-core and of
gramforge (its grammars) reseed this generator with system entropy, or create a new generator. `Reproducible` replaces
their module `random`, so that a seed always gives the same problem.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import reasoning_core
from faker import Faker
from reasoning_gym import factory
from reasoning_gym.coaching import BaseCurriculum, ScalarAttributeDefinition

LEFT_OUT = {
    "game_best_move": "the task's games need a package that is not on PyPI",
    "game_forced_win": "the task's games need a package that is not on PyPI",
    "metamath_core_select": "the task downloads theorems",
    "metamath_entailment": "the task downloads theorems",
    "constraint_satisfaction": "generating a problem takes more than ten seconds",
    "sequential_induction": "generating a problem takes more than ten seconds",
    "qualitative_causal_reasoning": "the task uses a numpy random generator without a seed",
    "constrained_continuation": "a problem depends on the problems generated earlier",
    "syntax_error_detection": "a problem depends on the problems generated earlier",
}
LEVELS = [0, 1, 2, 3, 4]
"""The difficulties of reasoning-core that level 0 to level 1 use. reasoning-core itself has no maximum difficulty."""


class Reproducible:
    """Replaces the module `random`. Generators without a seed get a seed from the global generator."""

    class Random(random.Random):
        def __init__(self, seed: Any = None) -> None:
            super().__init__(random.getrandbits(64) if seed is None else seed)

    def seed(self, seed: Any = None) -> None:
        if seed is not None:
            random.seed(seed)

    def __getattr__(self, name: str) -> Any:
        return getattr(random, name)


def register(name: str) -> None:
    """Register a task with reasoning-gym. Give the task levels, and seed faker, which makes names and sentences."""
    reasoning_core.register_to_reasoning_gym([name])
    dataset, config = factory.DATASETS.pop(name)

    class Dataset(dataset):  # type: ignore[misc, valid-type]
        def __getitem__(self, index: int) -> dict[str, Any]:
            Faker.seed(random.getrandbits(64))
            return dict(super().__getitem__(index))

    class Curriculum(BaseCurriculum):
        def __init__(self) -> None:
            super().__init__(name, config)
            self._define_attributes(ScalarAttributeDefinition(name="level", field_name="level", levels=LEVELS))

    factory.register_dataset(name, Dataset, config, Curriculum)


for task in reasoning_core.list_tasks():
    if task not in LEFT_OUT:
        register(task)
for name, module in list(sys.modules.items()):
    if name.startswith(("reasoning_core.", "gramforge.")) and getattr(module, "random", None) is random:
        module.random = Reproducible()  # type: ignore[attr-defined]
