"""Rows to train on, from groups that are already there: chosen completions, or pairs for preference training.

Groups come from dumps, files of `process` and evaluations. Equal completions of a question are one row, whatever groups
they are in.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from ..dumps.reader import DumpedGroup, DumpedRollout, DumpFormatError, list_files, model_of, stream_groups
from ..errors import ConfigError
from ..problems.references import hash_question, hash_words
from ..runtime.text import visible
from ..storage.reading import describe
from .store import RowStore, finished_card, write_card
from .tables import JSON_LINES, PARQUET, check_output, write_rows
from .verdict_files import PassRates


class TrainingForm(StrEnum):
    """The form of a row."""

    MESSAGES = "messages"
    """A row for each completion: `messages`, the conversation that ends with the completion."""
    PAIRS = "pairs"
    """A row for each pair of a group: `prompt`, and `chosen` and `rejected`, a correct completion and another."""


@dataclass(frozen=True)
class Selection:
    """Which completions are kept: the pass rates of their groups, only correct ones or all, a maximum per question."""

    pass_rates: PassRates | None = None
    correct: bool = False
    max_per_problem: int | None = None


_FACTS = {
    "reference": "text",
    "task": "text",
    "level": "number",
    "pass_rate": "number",
    "group_size": "count",
    "model": "text",
    "params": "text",
}
TRAINING_COLUMNS: Mapping[TrainingForm, Mapping[str, str]] = {
    TrainingForm.MESSAGES: {"messages": "messages", "score": "number", "reason": "text", "answer": "text", **_FACTS},
    TrainingForm.PAIRS: {
        "prompt": "messages",
        "chosen": "messages",
        "rejected": "messages",
        "chosen_score": "number",
        "rejected_score": "number",
        **_FACTS,
    },
}
"""Columns of each form, with their types in Parquet: see `tables`. `params` is JSON."""


def keep_rows(
    paths: Sequence[Path], out: Path, form: TrainingForm, selection: Selection, *, command: str = ""
) -> Mapping[str, Any]:
    """Write the chosen rows of files of groups and return the card. An output of the same call stays.

    The card has `rows`, `groups`, `outside` (groups with another pass rate), `repeated` (completions that a question
    has had already), and `skipped`, the lines that are no groups with the first of them.

    Raises ConfigError for files that cannot be used: no group, or an output of other settings.
    """
    check_output(out, "--out")
    files = _files(paths, out)
    made_with = {
        "files": [[file.name, file.stat().st_size] for file in files],
        "form": form.value,
        "pass_rates": None if selection.pass_rates is None else [selection.pass_rates.low, selection.pass_rates.high],
        "correct": selection.correct,
        "max_per_problem": selection.max_per_problem,
    }
    finished = finished_card(out, made_with)
    if finished is not None:
        return finished
    store = RowStore(out, {})
    try:
        store.clear()  # a killed call does not go on: one pass takes seconds
        counts = _fill(files, store, form, selection)
        card = {"rows": len(store), **counts, "command": command, "made_with": made_with}
        write_card(out, card)
        write_rows(out, lambda: (row for _, row in store.rows()), TRAINING_COLUMNS[form])
    finally:
        store.remove()
    return card


def _files(paths: Sequence[Path], out: Path) -> list[Path]:
    """Return the files of paths. An earlier call's output may lie in a folder that is read."""
    found = []
    for path in paths:
        if path.suffix == PARQUET:
            raise ConfigError(
                "groups are read from lines, not from Parquet",
                setting="PATH",
                got=str(path),
                remedy=f"name the file that `process` wrote beside it: {path.with_suffix(JSON_LINES)}",
            )
        try:
            found += list_files(path)
        except OSError as error:
            raise ConfigError(f"{visible(str(path))} cannot be read: {describe(error)}", setting="PATH") from error
    return [file for file in found if os.path.realpath(file) != os.path.realpath(out)]


def _fill(files: Sequence[Path], store: RowStore, form: TrainingForm, selection: Selection) -> dict[str, Any]:
    """Put the chosen rows into the store, and return the counts."""
    skipped: list[DumpFormatError] = []
    groups = outside = repeated = position = 0
    for file in files:
        model = model_of(file)
        for group in stream_groups(file, strict=False, on_damage=skipped.append):
            groups += 1
            if selection.pass_rates is not None and not selection.pass_rates.contains(_pass_rate(group)):
                outside += 1
                continue
            for row, identity in _rows(group, form, model, correct=selection.correct):
                question = _question(group)
                if not store.add_if_new(question, hash_question(identity)):
                    repeated += 1
                elif _claim_place(store, question, selection.max_per_problem):
                    store.add(position, row)
                    position += 1
            store.commit_if_due()
    if not groups:
        raise ConfigError("; ".join([f"{files[0] if files else 'the path'} holds no group", *map(str, skipped[:3])]))
    told = {"lines": len(skipped), "first": str(skipped[0]) if skipped else None}
    return {"groups": groups, "outside": outside, "repeated": repeated, "skipped": told}


def _claim_place(store: RowStore, question: str, limit: int | None) -> bool:
    """Take a place among the rows of a question; false if there is none."""
    return limit is None or any(store.add_if_new(f"place of {question}", str(place)) for place in range(limit))


def _question(group: DumpedGroup) -> str:
    """Return a hash of the task and the question: of the prompt's last message."""
    prompt = group.rollouts[0].conversation[:-1] if group.rollouts else ()
    return hash_words(f"{group.item_id} {prompt[-1]['content'] if prompt else group.reference}")


def _pass_rate(group: DumpedGroup) -> float | None:
    if not group.rollouts:
        return None
    return sum(rollout.correct for rollout in group.rollouts) / len(group.rollouts)


def _rows(
    group: DumpedGroup, form: TrainingForm, model: str | None, *, correct: bool
) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the rows of a group, each with the text by which rows of a question are compared."""
    facts = {
        "reference": group.reference,
        "task": group.item_id,
        "level": group.level,
        "pass_rate": _pass_rate(group),
        "group_size": len(group.rollouts),
        "model": model,
        "params": json.dumps(dict(group.params)),
    }
    right = [rollout for rollout in group.rollouts if rollout.correct]
    if form is TrainingForm.MESSAGES:
        for rollout in right if correct else group.rollouts:
            row = {
                "messages": _messages(rollout),
                "score": rollout.judged_score,
                "reason": rollout.reason,
                "answer": rollout.answer,
                **facts,
            }
            yield row, _completion(rollout)
        return
    wrong = [rollout for rollout in group.rollouts if not rollout.correct]
    for chosen, rejected in zip(right, wrong, strict=False):  # as many pairs as there are of the fewer
        row = {
            "prompt": _messages(chosen)[:-1],
            "chosen": _messages(chosen)[-1:],
            "rejected": _messages(rejected)[-1:],
            "chosen_score": chosen.judged_score,
            "rejected_score": rejected.judged_score,
            **facts,
        }
        yield row, json.dumps([_completion(chosen), _completion(rejected)])


def _messages(rollout: DumpedRollout) -> list[dict[str, str]]:
    return [dict(message) for message in rollout.conversation]


def _completion(rollout: DumpedRollout) -> str:
    return rollout.conversation[-1]["content"]
