"""Training rows from groups: selected completions, or pairs for preference training.

Equal completions of a question become a single row, even if they are from several groups. A column has the same type in
every row (see `tables.MISSING`).
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..dumps.format import FACT_COLUMNS, DumpedGroup, DumpedRollout, Keep, kept_path, model_of
from ..dumps.reader import stream_groups
from ..errors import ConfigError
from ..problems.references import hash_question, hash_without_whitespace
from ..storage.files import output_errors
from .tables import replace_missing, write_rows


@dataclass(frozen=True)
class PassRates:
    """Keep groups with a pass rate from `low` to `high`. Groups without a pass rate are not kept."""

    low: float
    high: float

    def contains(self, rate: float | None) -> bool:
        return rate is not None and self.low <= rate <= self.high


@dataclass(frozen=True)
class Selection:
    """Which completions become rows: their kind (`keep`), the pass rates of their groups, and how many per question."""

    keep: Keep | None = None
    pass_rates: PassRates | None = None
    max_per_problem: int | None = None

    def wants(self, pass_rate: float | None) -> bool:
        """Return True if groups with this pass rate are kept."""
        return self.pass_rates is None or self.pass_rates.contains(pass_rate)


EVERYTHING = Selection()
_NOT_CHOSEN: Mapping[Keep, str] = {
    Keep.ALL: "",  # unused, because every completion is kept
    Keep.BEST: "another completion of the group was kept, or all completions scored 0",
    Keep.CORRECT: "not correct",
    Keep.PAIRS: "the group has no other completion to form a pair with",
}
"""Why a completion is not selected, for each value of `Keep`."""
_COMPLETION_COLUMNS = {
    "messages": "messages",
    "score": "number",
    "thinking": "text",
    "reason": "text",
    "answer": "text",
    "finish_reason": "text",
}
_PAIR_COLUMNS = {
    "prompt": "messages",
    "chosen": "messages",
    "rejected": "messages",
    "chosen_score": "number",
    "rejected_score": "number",
}


def training_columns(keep: Keep) -> Mapping[str, str]:
    """Return the columns of the rows, each with its type in Parquet (see `tables.TYPES`)."""
    return {**(_PAIR_COLUMNS if keep is Keep.PAIRS else _COMPLETION_COLUMNS), **FACT_COLUMNS}


class TrainingRows:
    """Makes training rows, group by group. Keeps a hash of each row in memory, to find equal rows."""

    def __init__(self, selection: Selection) -> None:
        assert selection.keep is not None
        self.not_kept: Counter[str] = Counter()
        """Number of completions without a training row, by reason. Groups outside `pass_rates` are not counted."""
        self._keep = selection.keep
        self._selection = selection
        self._rows_of: defaultdict[str, set[str]] = defaultdict(set)

    def of_group(self, group: DumpedGroup, model: str | None) -> Iterator[dict[str, object]]:
        """Yield the rows of a group; `model` wrote the completions."""
        if not self._selection.wants(group.pass_rate):
            return
        facts = _facts(group, model)
        rows = self._rows_of[_question(group)]
        limit = self._selection.max_per_problem
        chosen = list(_pairs(group) if self._keep is Keep.PAIRS else _completions(group, self._keep))
        self.not_kept[_NOT_CHOSEN[self._keep]] += len(group.rollouts) - sum(len(texts) for _, texts in chosen)
        for columns, texts in chosen:
            identity = hash_question(json.dumps(texts))
            if identity in rows:
                self.not_kept["equal to another training row"] += len(texts)
            elif limit is not None and len(rows) >= limit:
                self.not_kept["more than --max-per-problem"] += len(texts)
            else:
                rows.add(identity)
                yield {**columns, **facts}


def write_kept(groups: Path, selection: Selection) -> tuple[Path, int]:
    """Write training rows beside a file of groups. Return (path, number of rows).

    After an error, no file is written. Raises ConfigError if the path is taken by a file without training rows.
    """
    assert selection.keep is not None
    out = kept_path(groups, selection.keep)
    _check_replaceable(out)
    number = 0
    model = model_of(groups)

    def rows() -> Iterable[dict[str, object]]:
        nonlocal number
        made = TrainingRows(selection)
        for group in stream_groups(groups, strict=False):
            for row in made.of_group(group, model):
                number += 1
                yield row

    with output_errors(out, f"the groups are still in {groups}"):
        write_rows(out, rows(), training_columns(selection.keep))
    return out, number


def _check_replaceable(path: Path) -> None:
    """Raise ConfigError if a file exists at the path and does not contain training rows of this program."""
    with suppress(FileNotFoundError), path.open("rb") as lines:
        first = lines.readline()
        if first and not all(f'"{column}": '.encode() in first for column in ("reference", "pass_rate", "group_size")):
            raise ConfigError(
                f"{path} exists, but does not contain training rows",
                remedy="move this file, or change {env.data_path_to_save_groups}, because this file is named after it",
            )


def _completions(group: DumpedGroup, keep: Keep) -> Iterator[tuple[dict[str, object], Sequence[str]]]:
    """Yield (columns, [completion]) for each selected completion. The columns of `_facts` are added later."""
    for rollout in _selected(group.rollouts, keep):
        columns = {
            "messages": [dict(message) for message in rollout.conversation],
            "score": float(rollout.score),
            "thinking": rollout.thinking,
            "reason": rollout.reason or "",
            "answer": rollout.answer or "",
            "finish_reason": rollout.finish_reason or "",
        }
        yield columns, [rollout.completion]


def _selected(rollouts: Sequence[DumpedRollout], keep: Keep) -> Sequence[DumpedRollout]:
    if keep is Keep.CORRECT:
        return [rollout for rollout in rollouts if rollout.correct]
    if keep is Keep.BEST:
        best = max(rollouts, key=lambda rollout: rollout.score, default=None)
        return [best] if best is not None and best.score > 0.0 else []
    return rollouts


def _pairs(group: DumpedGroup) -> Iterator[tuple[dict[str, object], Sequence[str]]]:
    """Yield (columns, [chosen, rejected]) for each pair of a correct and a wrong completion."""
    right = [rollout for rollout in group.rollouts if rollout.correct]
    wrong = [rollout for rollout in group.rollouts if not rollout.correct]
    for chosen, rejected in zip(right, wrong, strict=False):  # completions without a partner become no row
        columns = {
            "prompt": [dict(message) for message in chosen.prompt],
            "chosen": [dict(chosen.conversation[-1])],
            "rejected": [dict(rejected.conversation[-1])],
            "chosen_score": float(chosen.score),
            "rejected_score": float(rejected.score),
        }
        yield columns, [chosen.completion, rejected.completion]


def _facts(group: DumpedGroup, model: str | None) -> dict[str, object]:
    return replace_missing(group.facts(model), FACT_COLUMNS)


def _question(group: DumpedGroup) -> str:
    """Return a hash of the task and the question. If the group has no prompt, hash its `reference` instead."""
    return hash_without_whitespace(f"{group.item_id} {group.reference if group.question is None else group.question}")
