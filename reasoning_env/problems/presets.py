"""Presets: the protocols of published evaluations, with the published models' results.

`rg-easy` and `rg-hard` are the zero-shot runs of the Reasoning Gym paper: 50 problems a task with the library's own
seeds (45 and up), none of them rejected, the library's own system prompt, temperature 0.6, top_p 0.95 and 32,768 tokens
a completion. A published score is the mean over a task's problems and completions of the library's verifier, applied to
the last answer of a completion. The published headline is the unweighted mean over tasks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

PRESET_SIZE = 50
"""Problems of a task in the published sets."""
FIRST_SEED = 45
"""Seed of a task's first problem in the published sets."""
MAX_COMPLETION_TOKENS = 32_768
"""Most tokens of a completion in the published runs."""


@dataclass(frozen=True)
class Preset:
    """A protocol and its published results.

    `params` holds the parameters, by task, that are not the library's defaults. `library` is a release of the library:
    in the tasks of `other_questions` the release asks other questions than the published models were asked, in the
    tasks of `other_scoring` the release asks the same questions with changed verifiers. `published` holds mean scores
    by model and task, `short` the models' names for narrow columns.
    """

    name: str
    source: str
    library: str
    repeats: int
    tasks: tuple[str, ...]
    params: Mapping[str, Mapping[str, object]]
    other_questions: frozenset[str]
    other_scoring: frozenset[str]
    published: Mapping[str, Mapping[str, float]]
    short: Mapping[str, str]

    @property
    def comparable(self) -> frozenset[str]:
        """The tasks whose questions and scoring are those of the published runs."""
        return frozenset(self.tasks) - self.other_questions - self.other_scoring

    def difference(self, task: str) -> Literal["questions", "scoring"] | None:
        """Return what differs from the published runs in a task; None where nothing does."""
        if task in self.other_questions:
            return "questions"
        return "scoring" if task in self.other_scoring else None


def load_preset(name: str) -> Preset:
    """Read a preset from this package's files."""
    content = json.loads((Path(__file__).with_name("published") / f"{name}.json").read_text())
    tasks = tuple(content["tasks"])
    published = {
        model: {task: score for task, score in zip(tasks, scores, strict=True) if score is not None}
        for model, scores in content["mean_score"].items()
    }
    return Preset(
        name=name,
        source=content["source"],
        library=content["library"],
        repeats=content["repeats"],
        tasks=tasks,
        params=content["params"],
        other_questions=frozenset(content["other_questions"]),
        other_scoring=frozenset(content["other_scoring"]),
        published=published,
        short=content["short"],
    )
