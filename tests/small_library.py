"""A small library that replaces reasoning-gym. It is written into a folder as a checkout."""

from __future__ import annotations

from pathlib import Path

PACKAGE = """
from types import SimpleNamespace


class Dataset:
    def __init__(self, name, config):
        self.name = name
        self.config = config

    def __getitem__(self, index):
        if self.name == "broken":
            raise ValueError("no such puzzle")
        number = self.config.seed + index
        answer = None if self.name == "open_ended" else str(3 * number)
        shown = number % 50 if self.name == "generous" else number
        question = f"First line of {shown}.\\n" + "More of it. " * 30
        return {"question": question, "answer": answer, "metadata": {}}

    def score_answer(self, answer, entry):
        return 1.0 if self.name == "generous" else float(answer == entry["answer"])


class Puzzle(Dataset):
    pass


Dataset.__module__ = "reasoning_gym.family.module"
Puzzle.__module__ = "reasoning_gym.games.module"


def create_dataset(name, **config):
    return Dataset(name, SimpleNamespace(**config))


__version__ = "9.9"
"""
FACTORY = """
from types import SimpleNamespace

from reasoning_gym import Dataset, Puzzle

DATASETS = {name: (Dataset, SimpleNamespace) for name in ("broken", "composite", "exact")}
DATASETS |= {name: (Puzzle, SimpleNamespace) for name in ("generous", "open_ended")}
CURRICULA = {
    name: lambda: SimpleNamespace(attributes={"terms": SimpleNamespace(field_name="terms", levels=[2, 4, 6])})
    for name in ("broken", "exact")
}
"""


def write_small_library(folder: Path) -> Path:
    """Write a checkout of the small library into a folder, and return the folder.

    - broken: a task of `family` with levels; it makes no problem
    - exact: a task of `family` with levels; only its own answer earns 1
    - generous: a game with 50 questions in all; every answer earns 1
    - open_ended: a game without a single right answer
    - composite: a task of `family`
    """
    package = folder / "reasoning-gym" / "reasoning_gym"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(PACKAGE)
    (package / "factory.py").write_text(FACTORY)
    return folder
