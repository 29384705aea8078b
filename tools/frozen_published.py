"""Score published answers of models again, and compare the scores with recorded scores.

The answers are not copied: the user gives the folder with the result files of the presets' source.
`tests/frozen/published.json` has a hash and a score for each answer of a sample, by preset and task. The sample has all
right answers in another notation than the expected answer, and right, partly right and wrong answers to every task. It
has only questions that the library still makes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from reasoning_env.problems.presets import FIRST_SEED, PRESET_SIZE, load_preset
from reasoning_env.records import ProblemRequest
from reasoning_env.seeds import hash_int
from reasoning_env.sources.contract import Answers
from reasoning_env.tasks import find_task
from reasoning_env.workers.library import Library

FILE = Path(__file__).parents[1] / "tests" / "frozen" / "published.json"
PRESETS = ("easy", "hard")
Scores = dict[str, dict[str, str]]
"""Recorded scores by preset and task, then by hash of the answer."""


@dataclass(frozen=True)
class PublishedAnswer:
    """An answer to a problem of a preset, from an evaluation named ORGANISATION_MODEL_DATE_TIME."""

    task: str
    evaluation: str
    question: str
    answer: str
    right: str

    @property
    def key(self) -> str:
        return f"{hash_int(self.task, self.question, self.answer):016x}"


def read_scores() -> Scores:
    rows: dict[str, str] = json.loads(FILE.read_text()) if FILE.exists() else {}
    return {place: dict(zip(*[iter(row.split())] * 2, strict=True)) for place, row in rows.items()}


def write_scores(scores: Scores) -> None:
    """Write a line for each preset and task."""
    rows = [
        f"{json.dumps(place)}: {json.dumps(' '.join(f'{key} {score}' for key, score in sorted(row.items())))}"
        for place, row in sorted(scores.items())
    ]
    FILE.write_text("{\n" + ",\n".join(rows) + "\n}\n")


def published_answers(folder: Path, preset: str, task: str) -> Iterator[PublishedAnswer]:
    """Yield the answers to a task in the files of a folder."""
    for path in sorted(folder.rglob(f"{preset}/*/*/{task}.json")):
        for result in json.loads(path.read_text())["results"]:
            right = str(result["expected_answer"])
            for completion in result["completions"]:
                answer = completion["model_answer"]
                if answer is not None:
                    yield PublishedAnswer(task, path.parts[-3], result["question"], answer, right)


def scorers(library: Library, preset: str, task: str) -> Mapping[str, Answers]:
    """Return the scorers of a preset's problems by question."""
    found = {}
    for request in preset_requests(preset, task):
        try:
            made = library.generate(request)
        except Exception:  # the library fails to make some of its problems
            continue
        found[made.question] = library.scorer(task, made.params, made.entry, made.level)
    return found


def preset_requests(name: str, task: str) -> Iterator[ProblemRequest]:
    """Yield the requests for the published problems of a task in a preset."""
    preset = load_preset(f"rg-{name}")
    params = preset.params.get(task, {})
    for number in range(PRESET_SIZE) if task in preset.tasks else ():
        if find_task(task).constructor_uses_seed:
            yield ProblemRequest(
                task, FIRST_SEED, params, exact_seed=True, item=number, dataset_size=PRESET_SIZE, uncorrected=True
            )
        else:
            yield ProblemRequest(task, FIRST_SEED + number, params, exact_seed=True, uncorrected=True)
