"""Compute the statistics of groups, by task, by category and over all tasks, for results.json, tables and reports.

A task's values are means over its problems, with 95 % intervals from a bootstrap over problems. The values of a
category, and of all tasks, are unweighted means over tasks, with intervals from `interval_of_means`. Completions that
the server never returned are counted in `failed` alone.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist, fmean, stdev
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, NotRequired

from pydantic import Field, JsonValue
from typing_extensions import TypedDict  # pydantic cannot read the TypedDict of Python 3.11

from ..dumps.format import DumpedGroup
from ..inference.token_limits import LIMIT_NAMES
from ..metrics.outcomes import Tally
from ..storage.values import Count, Name, Number

if TYPE_CHECKING:
    from ..inference.formats.reply_format import SentRequest

Ends = Annotated[list[Number], Field(min_length=2, max_length=2)]
"""The low and the high end of an interval."""
NumberOfTries = Annotated[str, Field(pattern=r"^[1-9][0-9]{0,6}$")]
"""The k of pass@k, in decimal digits."""

Figure = Literal["mean_score", "accuracy", "library_score"]
INTERVALS: Mapping[Figure, Literal["mean_score_interval", "accuracy_interval", "library_score_interval"]] = {
    "mean_score": "mean_score_interval",
    "accuracy": "accuracy_interval",
    "library_score": "library_score_interval",
}
"""For each statistic with a 95 % interval, the SummaryRow field that has this interval."""


class SummaryRow(TypedDict):
    """The statistics of a task, of a category or of all tasks, as in results.json.

    Scores, accuracies, shares and pass@k are in [0, 1]; an interval is [low, high]. Without a scored completion, a
    row has only counts. `tokens` and `seconds` are None if unknown.
    """

    problems: Count
    """Number of problems with at least one scored completion."""
    completions: Count
    """Number of scored completions."""
    failed: Count
    """Number of completions that the server never returned."""
    not_made: NotRequired[Count]
    """Problems of the set that could not be generated; 0 until the evaluation is finished."""
    tasks: NotRequired[Count]
    """In the row of a category or of all tasks: the number of tasks."""
    category: NotRequired[Name]
    """The category of a task."""
    differs: NotRequired[Literal["questions", "scoring"] | None]
    """With a preset, in the row of a task: what has changed since the published runs."""
    mean_score: NotRequired[Number]
    mean_score_interval: NotRequired[Ends]
    accuracy: NotRequired[Number]
    """The share of correct completions."""
    accuracy_interval: NotRequired[Ends]
    library_score: NotRequired[Number]
    """With a preset: the mean score that the library itself gives."""
    library_score_interval: NotRequired[Ends]
    pass_at: NotRequired[Annotated[dict[NumberOfTries, Number], Field(min_length=1)]]
    """pass@k by k; the keys are strings."""
    reasons: NotRequired[dict[Name, Number]]
    """The share of completions by outcome."""
    tokens: NotRequired[Number | None]
    """Mean number of tokens of a completion."""
    seconds: NotRequired[Number | None]
    """Mean time in seconds until all completions of a problem arrived."""


class Summary(TypedDict):
    """The statistics of an evaluation. The keys of `categories` and `tasks` are names."""

    overall: SummaryRow
    categories: dict[str, SummaryRow]
    tasks: dict[str, SummaryRow]


@dataclass
class TaskTally:
    """Counts and sums over groups. Memory grows with the number of problems, not of completions."""

    figures: dict[Figure, list[float]] = field(
        default_factory=lambda: {"mean_score": [], "accuracy": [], "library_score": []}
    )
    """For each statistic, a list with each problem's mean over the problem's completions."""
    correct_counts: Counter[tuple[int, int]] = field(default_factory=Counter)
    """Number of problems by (number of completions, number of correct completions)."""
    outcomes: Counter[str] = field(default_factory=Counter)
    tokens: Tally = field(default_factory=Tally)
    seconds: Tally = field(default_factory=Tally)
    failed: int = 0

    @property
    def problems(self) -> int:
        return len(self.figures["mean_score"])

    @property
    def completions(self) -> int:
        return self.outcomes.total()

    def add(self, group: DumpedGroup) -> None:
        """Count a group. For a group without rollouts, count only the failed completions."""
        self.failed += group.failed or 0
        rollouts = group.rollouts
        if not rollouts:
            return
        correct = sum(rollout.correct for rollout in rollouts)
        self.figures["mean_score"].append(fmean(group.scores))
        self.figures["accuracy"].append(correct / len(rollouts))
        library_scores = [rollout.library_score for rollout in rollouts if rollout.library_score is not None]
        if library_scores:
            self.figures["library_score"].append(fmean(library_scores))
        self.correct_counts[len(rollouts), correct] += 1
        self.outcomes.update(rollout.outcome for rollout in rollouts)
        self.tokens.add(*(rollout.tokens for rollout in rollouts if rollout.tokens is not None))
        if rollouts[0].seconds is not None:
            self.seconds.add(rollouts[0].seconds)

    def merge(self, other: TaskTally) -> None:
        """Add the counts of another tally."""
        for name, values in other.figures.items():
            self.figures[name] += values
        self.correct_counts += other.correct_counts
        self.outcomes += other.outcomes
        self.tokens.merge(other.tokens)
        self.seconds.merge(other.seconds)
        self.failed += other.failed

    def row(self) -> SummaryRow:
        """Return the tally as a row (see `SummaryRow`)."""
        row: SummaryRow = {"problems": self.problems, "completions": self.completions, "failed": self.failed}
        if not self.completions:
            return row
        for name, values in self.figures.items():
            if values:
                _set_figure(row, name, fmean(values), bootstrap_interval(values))
        most = max(completions for completions, _ in self.correct_counts)
        row["pass_at"] = {str(k): fmean(self.pass_at(k)) for k in range(1, most + 1)}
        row["reasons"] = {word: count / self.completions for word, count in self.outcomes.most_common()}
        row["tokens"] = self.tokens.mean
        row["seconds"] = self.seconds.mean
        return row

    def pass_at(self, k: int) -> list[float]:
        """Return pass@k of each problem that has `k` completions or more."""
        chances: list[float] = []
        for (completions, correct), problems in sorted(self.correct_counts.items()):
            if completions >= k:
                chances += [pass_at_k(completions, correct, k)] * problems
        return chances


def tally_by_task(groups: Iterable[DumpedGroup]) -> dict[str, TaskTally]:
    """Return a tally of each task's groups."""
    tallies: defaultdict[str, TaskTally] = defaultdict(TaskTally)
    for group in groups:
        tallies[group.item_id].add(group)
    return tallies


def summarise(tallies: Mapping[str, TaskTally], categories: Mapping[str, str], not_made: Mapping[str, int]) -> Summary:
    """Return the statistics of each task, of each category and of all tasks. Each argument has the tasks as keys.

    Tasks without a scored completion affect no mean. Use a thread: hundreds of tasks take a second.
    """
    tasks: dict[str, SummaryRow] = {}
    by_category: defaultdict[str, list[SummaryRow]] = defaultdict(list)
    for task in sorted({*tallies, *not_made}):
        category = categories.get(task, "other")
        row = tallies.get(task, TaskTally()).row()
        tasks[task] = {"category": category, "not_made": not_made.get(task, 0), **row}
        by_category[category].append(tasks[task])
    return {
        "overall": combine(tasks.values()),
        "categories": {name: combine(rows) for name, rows in sorted(by_category.items())},
        "tasks": tasks,
    }


def combine(rows: Collection[SummaryRow]) -> SummaryRow:
    """Combine the rows of several tasks: unweighted means of scores and shares, and sums of counts."""
    row: SummaryRow = {
        "tasks": len(rows),
        "problems": sum(of_task["problems"] for of_task in rows),
        "completions": sum(of_task["completions"] for of_task in rows),
        "failed": sum(of_task["failed"] for of_task in rows),
        "not_made": sum(of_task["not_made"] for of_task in rows),
    }
    scored = [of_task for of_task in rows if of_task["completions"]]
    if not scored:
        return row
    for name, interval_name in INTERVALS.items():
        with_figure = [of_task for of_task in scored if name in of_task]
        if with_figure:
            means = [of_task[name] for of_task in with_figure]
            interval = interval_of_means(means, [of_task[interval_name] for of_task in with_figure])
            _set_figure(row, name, fmean(means), interval)
    shares: Counter[str] = Counter()
    for of_task in scored:
        shares.update(of_task["reasons"])
    ks = [k for k in scored[0]["pass_at"] if all(k in of_task["pass_at"] for of_task in scored)]
    row["pass_at"] = {k: fmean(of_task["pass_at"][k] for of_task in scored) for k in ks}
    row["reasons"] = {word: share / len(scored) for word, share in shares.most_common()}
    row["tokens"] = mean_of_known([of_task["tokens"] for of_task in scored])
    row["seconds"] = mean_of_known([of_task["seconds"] for of_task in scored])
    return row


def pass_at_interval(tallies: Collection[TaskTally], k: int) -> Interval:
    """Return the 95 % interval of mean pass@k over tasks.

    In each task that has completions, at least one problem must have `k` or more.
    """
    chances = [tally.pass_at(k) for tally in tallies if tally.completions]
    return interval_of_means([fmean(of_task) for of_task in chances], [bootstrap_interval(each) for each in chances])


def _set_figure(row: SummaryRow, name: Figure, mean: float, interval: Interval) -> None:
    row[name] = mean
    row[INTERVALS[name]] = list(interval)


def mean_of_known(values: Sequence[float | None]) -> float | None:
    """Return the mean of the values that are not None; None if all are None."""
    numbers = [value for value in values if value is not None]
    return fmean(numbers) if numbers else None


# ------------------------------------------------------------------ intervals and pass@k


class Interval(NamedTuple):
    """A 95 % confidence interval."""

    low: float
    high: float


def bootstrap_interval(
    values: Sequence[float], *, bounds: tuple[float, float] = (0.0, 1.0), many: int = 1000
) -> Interval:
    """Return the 95 % percentile-bootstrap interval of the mean of one or more independent values, all in `bounds`.

    For `many` values or more, return the normal approximation, which is faster. The values' order does not matter.
    If all values are equal, the interval allows for other values that the sample may have missed.
    """
    count = len(values)
    tail = 0.025  # the probability beyond each end of the interval
    if min(values) == max(values):
        # Each end assumes that the share `unseen` of the population is at this end of `bounds`. A sample misses this
        # share with the probability `tail`.
        unseen = 1.0 - tail ** (1.0 / count)
        return Interval(*(values[0] + unseen * (bound - values[0]) for bound in bounds))
    if count >= many:
        half = NormalDist().inv_cdf(1.0 - tail) * stdev(values) / math.sqrt(count)
        return Interval(max(bounds[0], fmean(values) - half), min(bounds[1], fmean(values) + half))
    import numpy as np  # imported here, because the import takes 0.1 s and only intervals need it

    sample = np.sort(np.asarray(values, dtype=float))
    means = sample[np.random.default_rng(0).integers(count, size=(2000, count))].mean(axis=1)
    low, high = np.quantile(means, [tail, 1.0 - tail])
    return Interval(float(low), float(high))


def interval_of_means(means: Sequence[float], intervals: Sequence[Sequence[float]]) -> Interval:
    """Return the 95 % interval of the average of several means in [0, 1], given each mean's own 95 % interval.

    The interval is a bootstrap over the means. A few means may be nearly equal by chance. So the interval is at least
    as wide as the given intervals imply for independent means.
    """
    if len(means) == 1:
        return Interval(*intervals[0])
    low = high = mean = sum(means) / len(means)
    if min(means) < max(means) or mean in (0.0, 1.0):  # between 0 and 1, equal means are a coincidence
        low, high = bootstrap_interval(means)
    below = math.hypot(*(value - ends[0] for value, ends in zip(means, intervals, strict=True))) / len(means)
    above = math.hypot(*(ends[1] - value for value, ends in zip(means, intervals, strict=True))) / len(means)
    return Interval(max(0.0, min(low, mean - below)), min(1.0, max(high, mean + above)))


def pass_at_k(n: int, correct: int, k: int) -> float:
    """Return unbiased pass@k for `n` completions, of which `correct` are right (Chen et al. 2021).

    Raises ValueError unless 1 <= k <= n and 0 <= correct <= n.
    """
    if not (1 <= k <= n and 0 <= correct <= n):
        raise ValueError(f"pass@{k} cannot be computed from {correct} right completions of {n}")
    return 1.0 - math.comb(n - correct, k) / math.comb(n, k)


# ------------------------------------------------------------------ requests as sent

NOT_SAMPLING = frozenset({"model", "messages", "prompt", "n", "stop", "stream", "stream_options"})
NOT_SAMPLING |= {"include_stop_str_in_output", "no_stop_trim", "skip_special_tokens"}
"""Fields of a request that are not parameters of sampling."""
TOKEN_LIMIT = "max_tokens"
"""The name of the token limit in `SentRequests.changed`, even if the server uses another name for it."""
SYSTEM_MESSAGE = "system_message"
"""The name in `SentRequests.changed` for a system message that was moved into the question."""
MAX_RECORDED_VALUES = 8
"""A record has at most this many different values of a parameter, and this many different models."""


class ParameterChange(TypedDict):
    """A parameter whose requested and sent values differ. A value is null if it was not requested or not sent."""

    requested: JsonValue
    sent: JsonValue


class SentRequests(TypedDict):
    """A record of the answered requests of a problem or an evaluation."""

    requests: Count
    parameters: dict[Name, list[JsonValue]]
    """The values sent for each parameter; null if a request lacked it. For a token limit, only the largest value."""
    changed: dict[Name, ParameterChange]
    """The parameters that were not sent as requested."""
    models: list[Name]
    """The names of the models that answered, from the replies."""


def no_requests() -> SentRequests:
    """Return the `SentRequests` of an evaluation without requests."""
    return {"requests": 0, "parameters": {}, "changed": {}, "models": []}


def record_requests(answered: Iterable[SentRequest]) -> SentRequests:
    """Return a record of the answered requests (see `SentRequests`)."""
    record = no_requests()
    for request in answered:
        record = merge_records(record, _record(request.requested, request.sent, request.model))
    return record


def _record(requested: Mapping[str, Any], sent: Mapping[str, Any], model: str) -> SentRequests:
    """Return the record of one request: the requested and the sent parameters, and the model that answered."""
    moves_system_message = sent.get("messages") != requested.get("messages")
    requested, sent = (
        {name: value for name, value in fields.items() if name not in NOT_SAMPLING} for fields in (requested, sent)
    )
    if moves_system_message:
        sent[SYSTEM_MESSAGE] = "in front of the question"
    changed: dict[str, ParameterChange] = {
        name: {"requested": requested.get(name), "sent": sent.get(name)}
        for name in sorted({*requested, *sent}.difference(LIMIT_NAMES))
        if requested.get(name) != sent.get(name)
    }
    limits = [next((each[name] for name in LIMIT_NAMES if name in each), None) for each in (requested, sent)]
    if limits[0] != limits[1]:
        changed[TOKEN_LIMIT] = {"requested": limits[0], "sent": limits[1]}
    return {
        "requests": 1,
        "parameters": {name: [value] for name, value in sent.items()},
        "changed": changed,
        "models": [model] if model else [],
    }


def merge_records(first: SentRequests, second: SentRequests) -> SentRequests:
    """Combine two records into the record of all their requests."""
    if not first["requests"] or not second["requests"]:
        return first if first["requests"] else second
    parameters: dict[str, list[JsonValue]] = {}
    for name in [*first["parameters"], *(name for name in second["parameters"] if name not in first["parameters"])]:
        values = [*first["parameters"].get(name, [None]), *second["parameters"].get(name, [None])]
        if name in LIMIT_NAMES:
            largest = _largest(values)
            parameters[name] = [largest, *([None] if None in values else [])]
        else:
            parameters[name] = _distinct(values)
    changed = {**second["changed"], **first["changed"]}
    if TOKEN_LIMIT in first["changed"] and TOKEN_LIMIT in second["changed"]:
        limits = [first["changed"][TOKEN_LIMIT], second["changed"][TOKEN_LIMIT]]
        changed[TOKEN_LIMIT] = {
            "requested": _largest([each["requested"] for each in limits]),
            "sent": _largest([each["sent"] for each in limits]),
        }
    return {
        "requests": first["requests"] + second["requests"],
        "parameters": parameters,
        "changed": changed,
        "models": [str(model) for model in _distinct([*first["models"], *second["models"]])],
    }


def _largest(values: Sequence[object]) -> int | None:
    return max((value for value in values if isinstance(value, int)), default=None)


def _distinct(values: Sequence[JsonValue]) -> list[JsonValue]:
    """Return the first MAX_RECORDED_VALUES different values, in their order."""
    found: list[JsonValue] = []
    for value in values:
        if value not in found and len(found) < MAX_RECORDED_VALUES:
            found.append(value)
    return found
