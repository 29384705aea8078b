"""Compare two evaluations problem by problem: for each task, the change of the mean score with a paired test.

Two problems are a pair if their references are equal, apart from the library's release. A reference contains a hash of
the question. So evaluations with different releases are compared on the questions that both releases have.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import NamedTuple, TypedDict

from ..dumps.format import DumpedGroup
from ..dumps.reader import DumpFormatError, stream_groups
from ..errors import ConfigError
from ..problems.references import without_release
from ..runtime.text import printable
from ..storage.values import describe
from .folder import SAMPLES, Results, load_results
from .summary import SentRequests, bootstrap_interval
from .table import show_values, values_as_sent

logger = logging.getLogger(__name__)

OVERALL = "mean over tasks"


@dataclass(frozen=True)
class ProblemScore:
    """The score of one problem in an evaluation: the mean over its completions.

    `index` is the problem's number among the evaluated problems of its task.
    """

    task: str
    index: int | None
    seed: int | None
    level: float | None
    score: float

    @classmethod
    def of(cls, group: DumpedGroup) -> ProblemScore:
        """Return a problem's score, the mean over the rollouts of its group. The group needs at least one rollout."""
        return cls(group.item_id, group.index, group.seed, group.level, fmean(group.scores))


@dataclass(frozen=True)
class RunScores:
    """The scores of an evaluation or of a file of groups. For a file, `results` is None.

    `problems` maps `without_release(reference)` of each problem to the score.
    """

    path: Path
    results: Results | None = field(repr=False)
    problems: Mapping[str, ProblemScore] = field(repr=False)

    @property
    def settings(self) -> dict[str, object]:
        """The evaluation's preset, settings and versions by name; empty if `results` is None."""
        if self.results is None:
            return {}
        versions = {f"version of {name}": version for name, version in self.results["versions"].items()}
        return {"preset": self.results["preset"], **self.results["settings"], **versions}

    def can_be_compared(self, other: RunScores) -> bool:
        """Return True if at least one problem is in both evaluations."""
        return not self.problems.keys().isdisjoint(other.problems)


@dataclass(frozen=True)
class Difference:
    """The scores of a task, or of all tasks, in two evaluations.

    `low` and `high` are the ends of the change's 95 % interval, and `p` is the p-value (see `paired_test`). `better`
    and `worse` count the problems that score higher and lower in the second evaluation.
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


class ComparisonData(TypedDict):
    """A comparison as JSON; see `Comparison`."""

    overall: dict[str, object]
    tasks: list[dict[str, object]]
    settings: list[str]
    different: list[str]
    unpaired: int


@dataclass(frozen=True)
class Comparison:
    """Two evaluations, compared on their common problems. In `tasks`, the largest changes come first."""

    first: RunScores
    second: RunScores
    overall: Difference
    tasks: Sequence[Difference] = field(repr=False)

    @property
    def unpaired(self) -> int:
        """The number of problems that only one of the evaluations has."""
        return len(self.first.problems.keys() ^ self.second.problems.keys())

    @property
    def different(self) -> Sequence[str]:
        """The tasks and indices at which the two evaluations have different problems."""
        both = _unpaired_places(self.first, self.second) & _unpaired_places(self.second, self.first)
        return [f"{task} {index}" for task, index in sorted(both, key=str)]

    @property
    def settings(self) -> Sequence[str]:
        """A line for each difference (see `differences`)."""
        return differences(self.first, self.second)

    def as_json(self) -> ComparisonData:
        """Return the comparison as JSON values, for `compare --json` and for the page that `report` writes."""
        return {
            "overall": asdict(self.overall),
            "tasks": [asdict(task) for task in self.tasks],
            "settings": list(self.settings),
            "different": list(self.different),
            "unpaired": self.unpaired,
        }


def _unpaired_places(run: RunScores, other: RunScores) -> set[tuple[str, int | None]]:
    """Return task and index of each problem of the evaluation `run` that the evaluation `other` lacks."""
    unpaired = [problem for name, problem in run.problems.items() if name not in other.problems]
    return {(problem.task, problem.index) for problem in unpaired}


def read_scores(path: Path) -> RunScores:
    """Read an evaluation folder.

    Damaged lines are skipped with a warning. Raises ConfigError if

    - the folder has no results of an evaluation, or
    - no problem has both a completion and the field `reference`.
    """
    results = load_results(path)
    samples = path / SAMPLES
    damage: list[DumpFormatError] = []
    problems: dict[str, ProblemScore] = {}
    try:
        for group in stream_groups(samples, strict=False, on_damage=damage.append):
            if group.rollouts and group.reference is not None:
                problems[without_release(group.reference)] = ProblemScore.of(group)
    except OSError as error:
        raise ConfigError(f"{samples} cannot be read: {describe(error)}") from error
    for each in damage:
        logger.warning("%s", each)
    if not problems:
        nothing = f"{samples} contains no problem with a scored completion and the field `reference`"
        raise ConfigError("; ".join([nothing, *map(str, damage[:1])]))
    return RunScores(path, results, problems)


def compare(first: RunScores, second: RunScores) -> Comparison:
    """Compare two evaluations on the problems that both have.

    Raises ConfigError if they have no problem in common. The message names the settings that differ.
    """
    common = sorted(first.problems.keys() & second.problems.keys())
    if not common:
        numbers = f"problems: {len(first.problems)} in the first evaluation, {len(second.problems)} in the second"
        causes = "; ".join([*differences(first, second), numbers])
        remedy = "evaluate both models with the same tasks, seed and release of reasoning-gym"
        raise ConfigError(f"{first.path} and {second.path} have no problem in common: {causes}", remedy=remedy)
    pairs: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for name in common:
        pairs[first.problems[name].task].append((first.problems[name].score, second.problems[name].score))
    tasks = [_difference(task, {task: of_task}) for task, of_task in pairs.items()]
    tasks.sort(key=lambda task: (-abs(task.change), task.p, task.task))
    return Comparison(first, second, _difference(OVERALL, pairs), tasks)


def _difference(name: str, pairs: Mapping[str, Sequence[tuple[float, float]]]) -> Difference:
    """Return the change of the mean score, in which all tasks have equal weight.

    `pairs` has the two scores of each problem, by task.
    """
    before = fmean(fmean(first for first, _ in of_task) for of_task in pairs.values())
    after = fmean(fmean(second for _, second in of_task) for of_task in pairs.values())
    changes = [second - first for of_task in pairs.values() for first, second in of_task]
    weights = [1.0 / (len(pairs) * len(of_task)) for of_task in pairs.values() for _ in of_task]
    low, high, p = paired_test(changes, weights)
    better = sum(change > 0 for change in changes)
    worse = sum(change < 0 for change in changes)
    return Difference(
        task=name,
        problems=len(changes),
        first=before,
        second=after,
        change=after - before,
        low=low,
        high=high,
        better=better,
        worse=worse,
        p=p,
    )


def differences(first: RunScores, second: RunScores) -> list[str]:
    """Return a line for each difference in settings, versions, sent parameters, and model names in replies."""
    names = sorted(first.settings.keys() | second.settings.keys())
    values = [(name, first.settings.get(name), second.settings.get(name)) for name in names]
    lines = [describe_difference(name, one, other) for name, one, other in values if one != other]
    if first.results is None or second.results is None:
        return lines
    one, other = first.results.get("sent"), second.results.get("sent")
    if one is None or other is None or not (one["requests"] and other["requests"]):
        return lines  # earlier versions of this package saved no record of requests
    return [*lines, *_differences_as_sent(one, other)]


def _differences_as_sent(first: SentRequests, second: SentRequests) -> Iterator[str]:
    """Yield a line for each parameter with different sent values, and one if replies name different models."""
    # Parameters that no server refused were sent as set, so `differences` has already compared them.
    for name in sorted(first["changed"].keys() | second["changed"].keys()):
        one, other = values_as_sent(first, name), values_as_sent(second, name)
        if one != other:
            shown = f"{show_values(one)} in the first evaluation, {show_values(other)} in the second"
            yield f"{name} in the requests: {shown}"
    if first["models"] != second["models"]:
        names = [", ".join(record["models"]) or "no name" for record in (first, second)]
        yield f"model that answered: {names[0]} in the first evaluation, {names[1]} in the second"


def describe_difference(name: str, first: object, second: object) -> str:
    """Describe in a line how the two values of a setting differ. The line is safe to print.

    For mappings, the line has the keys whose values differ; for lists, their lengths; otherwise, both values.
    """
    if isinstance(first, dict) and isinstance(second, dict):
        names = [key for key in sorted(first.keys() | second.keys()) if first.get(key) != second.get(key)]
        shown = ", ".join(printable(name, limit=60) for name in names[:3])
        return f"{name}: {len(names)} differ ({shown}{' ...' if len(names) > 3 else ''})"
    if isinstance(first, list) and isinstance(second, list):
        both = sum(value in second for value in first)
        return f"{name}: {len(first)} values in the first evaluation, {len(second)} in the second, {both} in both"
    return f"{name}: {printable(repr(first), limit=60)} and {printable(repr(second), limit=60)}"


# ------------------------------------------------------------------ the paired test


class PairedTest(NamedTuple):
    """The 95 % interval of a weighted mean change, and its two-sided p-value (<= 0.05 if the interval excludes 0)."""

    low: float
    high: float
    p: float


def paired_test(changes: Sequence[float], weights: Sequence[float]) -> PairedTest:
    """Return the 95 % interval and the p-value of the weighted mean of `changes`, by a paired permutation test.

    There is at least one change, in any order. All changes are in [-1, 1], and the weights sum up to 1.

    The test flips the signs of subsets of the changes: of all subsets, or of random ones if there are more than
    `_MAX_EXACT_CHANGES` changes. p is twice the share of flips after which the mean has the same sign as
    before, and is at least as far from 0.

    The interval contains each v for which the test, applied to the changes minus v, does not reject the null
    hypothesis. With fewer than six changes, the interval is [-1, 1]. If all changes are equal, the interval is that of
    `bootstrap_interval`.
    """
    count = len(changes)
    if min(changes) == max(changes):
        change = changes[0]
        return PairedTest(
            *bootstrap_interval(changes, bounds=(-1.0, 1.0)), min(1.0, 2.0 * (1.0 + abs(change)) ** -count)
        )
    import numpy as np

    pairs = np.array(sorted(zip(changes, weights, strict=True)))
    columns = np.stack([pairs[:, 0] * pairs[:, 1], pairs[:, 1]], axis=1)
    if count <= _MAX_EXACT_CHANGES:
        subsets = np.arange(1, 2**count)[:, None] >> np.arange(count) & 1
        sums = subsets @ columns
    else:
        generator = np.random.default_rng(0)
        at_once = max(1, 2**20 // count)  # limits the memory to some megabytes
        sizes = [min(at_once, _RANDOM_SUBSETS - done) for done in range(0, _RANDOM_SUBSETS, at_once)]
        sums = np.concatenate([generator.integers(2, size=(size, count), dtype=bool) @ columns for size in sizes])
        sums = sums[sums[:, 1] > 0.0]
    # Rounded, so that changes that cancel out give exactly 0. The +1 counts the empty subset.
    means = np.sort(np.round(sums[:, 0] / sums[:, 1], 12))
    number = len(means) + 1
    # The ends of the interval are quantiles of the means (Hartigan 1969, "Using subsample values as typical values").
    rejected = int(0.025 * number)  # the number of means beyond each end of the interval
    low = -1.0 if rejected == 0 else float(means[rejected - 1])
    high = 1.0 if rejected == 0 else float(means[-rejected])
    tail = min(1 + int((means <= 0.0).sum()), 1 + int((means >= 0.0).sum()))
    return PairedTest(low, high, min(1.0, 2.0 * tail / number))


_MAX_EXACT_CHANGES = 12
"""Up to this many score changes, `paired_test` tries all subsets of the changes (at most 4,096)."""
_RANDOM_SUBSETS = 4095  # p = 0.05 then has a standard error of 0.005
"""With more than `_MAX_EXACT_CHANGES` score changes, `paired_test` tries this many random subsets of the changes."""
