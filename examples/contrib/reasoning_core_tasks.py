"""The tasks of reasoning-core, which register themselves with reasoning-gym, for `task_modules`.

    pip install 'reasoning-core[gen]==0.5.0'
    python reasoning_gym_environment.py tasks arithmetics --task-modules examples/contrib/reasoning_core_tasks.py

Its tasks draw from Python's global generator, which a worker seeds before each problem. Parts of reasoning-core and of
gramforge (its grammars) seed that generator anew from the system, or draw from a new one. `Reproducible` stands in for
their `random`, so that a seed always gives the same problem.
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
    "game_best_move": "its games need a package that is not on PyPI",
    "game_forced_win": "its games need a package that is not on PyPI",
    "metamath_core_select": "it downloads its theorems",
    "metamath_entailment": "it downloads its theorems",
    "constraint_satisfaction": "a problem takes over ten seconds",
    "sequential_induction": "a problem takes over ten seconds",
    "qualitative_causal_reasoning": "it draws from a generator of numpy that has no seed",
    "constrained_continuation": "its problem depends on the problems before",
    "syntax_error_detection": "its problem depends on the problems before",
}
LEVELS = [0, 1, 2, 3, 4]
"""Steps of reasoning-core's difficulty, which has no top."""


class Reproducible:
    """The module `random`, where what would be seeded from the system is seeded from the global generator."""

    class Random(random.Random):
        def __init__(self, seed: Any = None) -> None:
            super().__init__(random.getrandbits(64) if seed is None else seed)

    def seed(self, seed: Any = None) -> None:
        if seed is not None:
            random.seed(seed)

    def __getattr__(self, name: str) -> Any:
        return getattr(random, name)


def register(name: str) -> None:
    """Register a task with reasoning-gym, with levels, and with a seed for the names and sentences of faker."""
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
