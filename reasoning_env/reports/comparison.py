"""Compare evaluations of one set by problem: differences per task, intervals and a sign test."""

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
from ..settings import ReasoningSettings, decides
from ..statistics import bootstrap_interval, sign_test
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
    fingerprint: str | None
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
    versions = {f"version of {name}": version for name, version in results["versions"].items()}
    return EvaluationScores(path, results["fingerprint"], {**results["settings"], **versions}, scores)


def compare(first: EvaluationScores, second: EvaluationScores) -> Comparison:
    """Compare two evaluations; raises ConfigError, which says what differs, if their sets differ."""
    shared = first.scores.keys() & second.scores.keys()
    both_finished = None not in (first.fingerprint, second.fingerprint)
    if not shared or (both_finished and first.fingerprint != second.fingerprint):
        raise ConfigError(
            f"{first.path} and {second.path} are not of the same evaluation set: {_explain(first, second, len(shared))}"
        )
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


def _explain(first: EvaluationScores, second: EvaluationScores, shared: int) -> str:
    differing = differing_settings(first, second)
    fields = ReasoningSettings.model_fields
    deciding = [
        name
        for name in differing
        if name.startswith("version of") or (name in fields and decides(fields[name], "problems"))
    ]
    said = [f"{name}: {first.settings.get(name)!r} and {second.settings.get(name)!r}" for name in deciding or differing]
    said.append(f"{shared} problems are in both, of {len(first.scores)} and {len(second.scores)}")
    return "; ".join(said)
