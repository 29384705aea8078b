"""Compare evaluations by problem: differences per task, intervals and a sign test; and rank them."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from ..dumps.reader import DumpedGroup
from ..errors import ConfigError
from ..evaluations.folder import RESULTS, SAMPLES, read_results
from ..metrics.intervals import bootstrap_interval, sign_test
from ..runtime.terminal import Table, visible
from ..settings import ReasoningSettings, decides
from .runs import StoredRun

logger = logging.getLogger(__name__)


class ProblemKey(NamedTuple):
    """What identifies a problem across sets; `problem` is the hash of question and answer, if known."""

    task: str
    position: int | None
    seed: int | None
    problem: str | None

    @classmethod
    def of(cls, group: DumpedGroup) -> ProblemKey:
        return cls(group.item_id, group.index, group.seed, group.problem)


@dataclass(frozen=True)
class EvaluationScores:
    """An evaluation folder: problems' mean scores over completions, and what the set was made from."""

    path: Path
    results: Mapping[str, Any]
    settings: Mapping[str, Any]
    scores: Mapping[ProblemKey, float]


@dataclass(frozen=True)
class Difference:
    """One task, or all of them, in two evaluations.

    `low` and `high` are the ends of the 95 % interval of the change. Of the problems, so many are `better` and `worse`
    in the second evaluation; `p` is how likely their numbers are at least as uneven by chance.
    """

    task: str
    problems: int
    first: float
    second: float
    change: float
    low: float
    high: float
    better: int
    worse: int
    p: float


@dataclass(frozen=True)
class Comparison:
    """Two evaluations over the problems that both have; `tasks` are sorted by the size of their change."""

    first: EvaluationScores
    second: EvaluationScores
    overall: Difference
    tasks: Sequence[Difference]

    @property
    def unpaired(self) -> int:
        """How many problems only one of the two has, the other having failed at them or been stopped before."""
        return len(self.first.scores.keys() ^ self.second.scores.keys())

    @property
    def different(self) -> Sequence[str]:
        """Names of the problems that have one place in both sets, and are not the same in both."""
        places = [
            {(key.task, key.position) for key in evaluation.scores.keys() - other.scores.keys()}
            for evaluation, other in ((self.first, self.second), (self.second, self.first))
        ]
        return [f"{task} {position}" for task, position in sorted(places[0] & places[1], key=str)]

    @property
    def settings(self) -> Sequence[str]:
        """Lines that say which settings, and which versions, are not the same in both."""
        first, second = self.first.settings, self.second.settings
        return [
            describe_difference(name, first.get(name), second.get(name))
            for name in differing_settings(self.first, self.second)
        ]


def read_evaluation(path: Path, *, accuracy: bool = False) -> EvaluationScores:
    """Read an evaluation folder; `accuracy` takes the share of right answers, not the mean score.

    Raises ConfigError where there is none. Damaged lines are skipped with a warning.
    """
    try:
        results = read_results(path)
    except OSError as error:
        raise ConfigError(f"{path} is no folder of an evaluation: {error.filename}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{path / RESULTS} cannot be read: {error}") from error
    scores: dict[ProblemKey, float] = {}
    run = StoredRun(path.name, path, [path / SAMPLES])
    for group in run.groups():
        marks = [float(rollout.correct) if accuracy else rollout.score for rollout in group.rollouts]
        if marks:
            scores[ProblemKey.of(group)] = fmean(marks)
    for fault in run.faults:
        logger.warning("%s", fault)
    if not scores:
        raise ConfigError(f"{path / SAMPLES} holds not one scored completion")
    return EvaluationScores(path, results, settings_of(results), scores)


def settings_of(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return an evaluation's preset, settings and versions by name; nothing for a run without results."""
    if not results:
        return {}
    versions = {f"version of {name}": version for name, version in results["versions"].items()}
    return {"preset": results["preset"], **results["settings"], **versions}


def compare(first: EvaluationScores, second: EvaluationScores) -> Comparison:
    """Compare two evaluations over the problems that both have.

    Raises ConfigError, which says what differs, where there is none.
    """
    if not first.scores.keys() & second.scores.keys():
        raise ConfigError(f"{first.path} and {second.path} have no problem in common: {_explain(first, second)}")
    return Comparison(first, second, *compare_problems(first.scores, second.scores))


def compare_problems(
    first: Mapping[ProblemKey, float], second: Mapping[ProblemKey, float]
) -> tuple[Difference, list[Difference]]:
    """Return the difference of all tasks and of each, by the size of its change, over the problems that both have.

    There must be such a problem.
    """
    pairs: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for key in sorted(first.keys() & second.keys(), key=str):
        pairs[key.task].append((first[key], second[key]))
    tasks = [_difference(task, of_task, _changes(of_task)) for task, of_task in pairs.items()]
    if len(tasks) == 1:  # a single task cannot be resampled
        return replace(tasks[0], task="mean over tasks"), tasks
    means = [(task.first, task.second) for task in tasks]
    changes = [change for of_task in pairs.values() for change in _changes(of_task)]
    overall = _difference("mean over tasks", means, changes)
    return overall, sorted(tasks, key=lambda task: (-abs(task.change), task.p, task.task))


def _difference(task: str, pairs: Sequence[tuple[float, float]], changes: Sequence[float]) -> Difference:
    """Return the difference of the pairs' means; `changes` are those of problems, which are counted."""
    before, after = (fmean(scores) for scores in zip(*pairs, strict=True))
    low, high = bootstrap_interval(_changes(pairs), bounds=(-1.0, 1.0))
    better, worse = sum(change > 0 for change in changes), sum(change < 0 for change in changes)
    p = sign_test(better, worse)
    return Difference(task, len(changes), before, after, after - before, low, high, better, worse, p)


def _changes(pairs: Sequence[tuple[float, float]]) -> list[float]:
    return [after - before for before, after in pairs]


def differing_settings(first: EvaluationScores, second: EvaluationScores) -> list[str]:
    """Return the names of settings, and of versions, that are not the same in both."""
    names = sorted(first.settings.keys() | second.settings.keys())
    return [name for name in names if first.settings.get(name) != second.settings.get(name)]


def describe_difference(name: str, first: Any, second: Any) -> str:
    """Return in a short line how two values of a setting differ; of long lists, how much they have in common."""
    if isinstance(first, dict) and isinstance(second, dict):
        names = [key for key in sorted(first.keys() | second.keys()) if first.get(key) != second.get(key)]
        return f"{name}: {len(names)} differ ({', '.join(names[:3])}{' ...' if len(names) > 3 else ''})"
    if isinstance(first, list) and isinstance(second, list):
        both = sum(value in second for value in first)
        return f"{name}: {len(first)} and {len(second)}, {both} of them in both"
    return f"{name}: {visible(repr(first), limit=60)} and {visible(repr(second), limit=60)}"


def _explain(first: EvaluationScores, second: EvaluationScores) -> str:
    """Return what decides the problems and differs, else what differs at all; no more than three settings."""
    differing = differing_settings(first, second)
    fields = ReasoningSettings.model_fields
    deciding = [
        name
        for name in differing
        if name in ("preset", "tasks")
        or name.startswith("version of")
        or (name in fields and decides(fields[name], "problems"))
    ]
    said = [
        describe_difference(name, first.settings.get(name), second.settings.get(name))
        for name in (deciding or differing)[:3]
    ]
    return "; ".join([*said, f"they have {len(first.scores)} and {len(second.scores)} problems"])


def rank(evaluations: Sequence[EvaluationScores]) -> Table:
    """Return a row for each evaluation, and for each model that was published beside one of them, the best first."""
    rows: dict[str, tuple[Any, ...]] = {}
    for evaluation in evaluations:
        overall, comparable = evaluation.results["overall"] or {}, evaluation.results.get("comparable", {})
        ours = (overall.get("mean_score"), *overall.get("mean_score_interval", (None, None)), overall.get("accuracy"))
        plain = (comparable.get("library_score"), overall.get("library_score"))
        name = f"{evaluation.results['model']} ({evaluation.path.name})"
        rows[name] = (name, *plain, *ours, overall.get("problems"))
        for model, means in evaluation.results.get("published", {}).items():
            rows.setdefault(model, (model, means.get("comparable"), means["overall"], *[None] * 5))
    best_first = sorted(rows.values(), key=lambda row: [-(value or 0.0) for value in row[1:4]])
    # The second and the third are the library's own scores, as published; the others are ours.
    columns = {
        "MODEL": "",
        "COMPARABLE TASKS": ".3f",
        "ALL TASKS": ".3f",
        "SCORE": ".3f",
        "FROM": ".3f",
        "TO": ".3f",
        "RIGHT": ".3f",
        "PROBLEMS": "d",
    }
    return Table(columns, best_first)
