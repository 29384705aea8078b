"""Evaluations and groups of rollouts, for scripts and notebooks: records, tables and data frames.

    result = read_evaluation("evals/my-model-20260101-120000")
    result                                  # in a notebook: a table with intervals
    result.to_pandas().sort_values("score")

    groups = read_groups("data/groups.jsonl")
    [group.reference for group in groups if max(group.scores) == 0.0]

`summary.py` computes the statistics. The commands print the same values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from ..dumps.format import DumpedGroup, model_of
from ..dumps.reader import SeenGroups, list_files, stream_groups
from ..runtime.text import pluralize, printable
from .folder import SAMPLES, Results, load_results
from .summary import SummaryRow, summarise, tally_by_task

FrameRow = dict[str, Any]
"""A row of a data frame: a value by the name of its column."""


@dataclass(frozen=True, repr=False)
class EvaluationResult:
    """The results of an evaluation. `results` is the content of results.json; `folder` is the evaluation's folder.

    For an interrupted evaluation, `finished` is False, and the statistics cover the problems that are done.
    """

    results: Results
    folder: Path

    @property
    def model(self) -> str:
        return str(self.results["model"])

    @property
    def finished(self) -> bool:
        return bool(self.results["finished"])

    @property
    def score(self) -> float | None:
        """The mean score over tasks, in [0, 1]; None if no completion was scored."""
        overall = self.results["overall"]
        return None if overall is None else overall.get("mean_score")

    def rows(self) -> list[FrameRow]:
        """Return a record for each task, the worst first, and a record for all tasks; see `to_records`."""
        overall = self.results["overall"]
        return [] if overall is None else to_records(self.results["tasks"], overall)

    def groups(self) -> Groups:
        """Return the evaluated problems and their completions."""
        return read_groups(self.folder / SAMPLES)

    def to_pandas(self) -> Any:
        """Return the rows as a data frame, indexed by task. Raises ImportError if pandas is missing."""
        return _data_frame(self.rows(), index="task")

    def __str__(self) -> str:
        score = "nothing was scored" if self.score is None else f"mean score {self.score:.3f}"
        unfinished = "" if self.finished else ", not finished"
        tasks = pluralize(len(self.results["tasks"]), "task")
        return printable(f"{self.model}: {score} over {tasks}{unfinished}, in {self.folder}")

    def __repr__(self) -> str:
        return f"<{self!s}>"

    def _repr_html_(self) -> str | None:
        return _html(str(self), self.rows())


class Groups:
    """The groups of a file or folder. Each iteration reads the files again, a group at a time.

    Iteration raises the errors of `reasoning_env.dumps.stream_groups`. With `strict=False`, it skips damaged lines.
    """

    def __init__(self, path: Path, *, strict: bool = True) -> None:
        self.path = path
        self._strict = strict

    def __iter__(self) -> Iterator[DumpedGroup]:
        return stream_groups(self.path, strict=self._strict)

    def rows(self) -> list[FrameRow]:
        """Return a record for each task, the worst first, and a record for all tasks; see `to_records`."""
        summary = summarise(tally_by_task(self), {}, {})
        return to_records(summary["tasks"], summary["overall"]) if summary["tasks"] else []

    def rollouts(self) -> Iterator[FrameRow]:
        """Yield a record for each rollout: fields of its problem, its group (pass rate, size, model) and the rollout.

        `rollout` is the place in the group, from 0. `level` is None for the library's default parameters, and `model`
        is None in dumps.
        """
        seen = SeenGroups()
        for file in list_files(self.path):
            model = model_of(file)
            for group in stream_groups(file, strict=self._strict, seen=seen):
                yield from _rollouts(group, model)

    def to_pandas(self) -> Any:
        """Return a data frame with a row for each rollout. Raises ImportError if pandas is missing."""
        return _data_frame(list(self.rollouts()))

    def __repr__(self) -> str:
        return f"<groups of {printable(str(self.path))}>"

    def _repr_html_(self) -> str | None:
        return _html(str(self.path), self.rows())


def _rollouts(group: DumpedGroup, model: str | None) -> Iterator[FrameRow]:
    for number, rollout in enumerate(group.rollouts):
        yield {
            **group.facts(model),
            "params": dict(group.params),
            "split": group.split,
            "rollout": number,
            "score": rollout.score,
            "outcome": rollout.outcome,
            "answer": rollout.answer,
            "tokens": rollout.tokens,
            "completion": rollout.completion,
        }


def read_evaluation(folder: Path | str) -> EvaluationResult:
    """Return the results in an evaluation's folder. Raises ConfigError for a folder without results."""
    path = Path(folder)
    return EvaluationResult(load_results(path), path)


def read_groups(path: Path | str, *, strict: bool = True) -> Groups:
    """Return the groups of a file, or of all `.jsonl` and `.jsonl.gz` files in a folder.

    The files may come from dumps, `process` or evaluations. If a folder (for example `evals`) has none of these
    files, the files of its subfolders are read. Raises OSError if the path cannot be read.
    """
    list_files(Path(path))
    return Groups(Path(path), strict=strict)


def to_records(tasks: Mapping[str, SummaryRow], overall: SummaryRow) -> list[FrameRow]:
    """Return a flat record for each task, the lowest score first, and a record for all tasks.

    `score` is the mean score, `right` the share of correct completions; `..._low` and `..._high` are the ends of the
    95 % interval. For problems with several completions, `pass_at_K` is pass@K for the largest K. Unknown
    values are None.
    """
    # Tasks without a score come last: 2.0 is above every score.
    ordered = sorted(tasks.items(), key=lambda item: (item[1].get("mean_score", 2.0), item[0]))
    most = max(map(int, overall.get("pass_at", {"1": 1})))
    return [_record(name, row, most) for name, row in [*ordered, ("ALL TASKS", overall)]]


def _record(name: str, row: SummaryRow, most: int) -> FrameRow:
    score_low, score_high = row.get("mean_score_interval", (None, None))
    right_low, right_high = row.get("accuracy_interval", (None, None))
    record: FrameRow = {
        "task": name,
        "problems": row["problems"],
        "completions": row["completions"],
        "failed": row["failed"],
        "score": row.get("mean_score"),
        "score_low": score_low,
        "score_high": score_high,
        "right": row.get("accuracy"),
        "right_low": right_low,
        "right_high": right_high,
        "tokens": row.get("tokens"),
    }
    if most > 1:
        record[f"pass_at_{most}"] = row.get("pass_at", {}).get(str(most))
    if "library_score" in row:
        record["library_score"] = row["library_score"]
    return record


def _data_frame(records: Sequence[FrameRow], index: str | None = None) -> Any:
    try:
        import pandas
    except ModuleNotFoundError as error:
        raise ImportError("to_pandas needs pandas: pip install pandas") from error
    frame = pandas.DataFrame(records)
    return frame.set_index(index) if index is not None and records else frame


def _html(title: str, records: Sequence[FrameRow]) -> str | None:
    """Return the records as an HTML table. Without pandas, return None: the notebook then shows the repr."""
    try:
        frame = _data_frame(records)
    except ImportError:
        return None
    table = frame.to_html(index=False, na_rep="", float_format="{:.3f}".format) if records else "<p>no rollouts</p>"
    return f"<p>{escape(title)}</p>\n{table}"
