"""A checkout whose questions are in another language: rules for English words step aside."""

from __future__ import annotations

from pathlib import Path

from tests.workers.support import make, running_pool

PACKAGE = """
class Dataset:
    def __init__(self, config):
        self.config = config

    def __getitem__(self, index):
        right = self.config.seed % 2 == 0
        metadata = {"ransom_note": "ab", "magazine": "abc" if right else "xyz"}
        question = f"Kann man {metadata['ransom_note']} legen? Nummer {self.config.seed}"
        return {"question": question, "answer": "Wahr" if right else "Falsch", "metadata": metadata}

    def score_answer(self, answer, entry):
        return float(answer == entry["answer"])


def create_dataset(name, **config):
    from types import SimpleNamespace

    return Dataset(SimpleNamespace(**config))
"""
FACTORY = """
from types import SimpleNamespace

from reasoning_gym import Dataset

DATASETS = {"ransom_note": (Dataset, SimpleNamespace)}
"""


async def test_options_in_another_language(tmp_path: Path) -> None:
    (tmp_path / "reasoning_gym").mkdir()
    (tmp_path / "reasoning_gym" / "__init__.py").write_text(PACKAGE)
    (tmp_path / "reasoning_gym" / "factory.py").write_text(FACTORY)
    async with running_pool(tmp_path) as pool:
        problems = [await make(pool, "ransom_note", seed) for seed in range(4)]
        assert [problem.answer for problem in problems] == ["Wahr", "Falsch", "Wahr", "Falsch"]
        assert [problem.flawed for problem in problems] == [{}] * 4
        verdicts = await pool.score(problems[0], ["Wahr", "Falsch", "True"])
        assert [verdict.score for verdict in verdicts] == [1.0, 0.0, 0.0]
