"""Define a task of your own: which letter of a word comes last in the alphabet?

    python reasoning_gym_environment.py audit --task-modules examples/own_task.py --tasks last_letter

`docs/own.md` explains this file step by step.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Any

from reasoning_gym.coaching import BaseCurriculum, RangeAttributeDefinition
from reasoning_gym.factory import ProceduralDataset, register_dataset


@dataclass
class LastLetterConfig:
    min_length: int = 8
    max_length: int = 14
    seed: int | None = None
    size: int = 500

    def validate(self) -> None:
        assert 2 <= self.min_length <= self.max_length <= 20, "a word has 2 to 20 letters"


class LastLetterDataset(ProceduralDataset):
    def __init__(self, config: LastLetterConfig) -> None:
        super().__init__(config=config, seed=config.seed, size=config.size)

    def __getitem__(self, index: int) -> dict[str, Any]:
        rng = random.Random(self.seed + index)
        word = "".join(rng.sample(ascii_lowercase, rng.randint(self.config.min_length, self.config.max_length)))
        return {
            "question": f"Which letter of {word} stands last in the alphabet? Answer with its position in the word, "
            "counted from 1.",
            "answer": str(word.index(max(word)) + 1),
            "metadata": {"word": word},
        }

    def score_answer(self, answer: str | None, entry: dict[str, Any]) -> float:
        return float(answer is not None and answer.strip() == entry["answer"])


class LastLetterCurriculum(BaseCurriculum):
    def __init__(self) -> None:
        super().__init__(LastLetterCurriculum.__name__, LastLetterConfig)
        self._define_attributes(
            RangeAttributeDefinition(
                name="length",
                levels=[8, 14, 20],
                lower_field_name="min_length",
                upper_field_name="max_length",
            )
        )


register_dataset("last_letter", LastLetterDataset, LastLetterConfig, LastLetterCurriculum)
