"""Convert the JSONL file of groups that `process` writes to Parquet, one row per group."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..dumps.format import FACT_COLUMNS, model_of
from ..dumps.reader import read_lines
from ..storage.files import output_errors
from .tables import write_rows

GROUP_COLUMNS = {
    **FACT_COLUMNS,
    "messages": "messages",
    "completions": "texts",
    "scores": "numbers",
    "reasons": "texts",
    "answers": "texts",
    "thinking_formats": "texts",
    "tokens": "token_lists",
    "masks": "token_lists",
}
"""Columns of a row, each with its type in Parquet (see `tables.TYPES`). `messages` is the prompt."""


def write_groups(lines: Path, out: Path) -> None:
    """Write the groups of a JSONL file as Parquet, or change no file and raise OutputError or DumpFormatError."""
    with output_errors(out, f"the groups are still in {lines}"):
        write_rows(out, _rows(lines), GROUP_COLUMNS)


def _rows(lines: Path) -> Iterator[dict[str, object]]:
    model = model_of(lines)
    for line, group in read_lines(lines):
        rollouts = group.rollouts
        yield {
            **group.facts(model),
            "messages": [dict(message) for message in group.prompt],
            "completions": [rollout.completion for rollout in rollouts],
            "scores": [rollout.judged_score for rollout in rollouts],
            "reasons": [rollout.reason for rollout in rollouts],
            "answers": [rollout.answer for rollout in rollouts],
            "thinking_formats": None if group.thinking_formats is None else list(group.thinking_formats),
            "tokens": line.get("tokens"),
            "masks": line.get("masks"),
        }
