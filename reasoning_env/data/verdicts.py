"""Judge the completions of rows.

A row has `reference` and `completion` or `completions`. A completion is a string, or a conversation whose last message
is the completion.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypedDict, TypeVar

from ..errors import ClosedError, ConfigError, GenerationError, InvalidReferenceError, ScoringError, WorkerError
from ..problems.references import Reference
from ..prompts.messages import read_completions
from ..prompts.thinking import TAGS, Thinking, named_thinking
from ..records import Row, Verdict
from ..runtime.concurrency import cancel_all
from ..session import Session

T = TypeVar("T")

logger = logging.getLogger(__name__)

RETRY_PAUSES_S = (1.0, 5.0)
"""Pauses in seconds before the two retries after an infrastructure error: a fork server restarts in 0.7 to 6 s."""
REFERENCE, SINGLE, SEVERAL = "reference", "completion", "completions"
ADDED: Mapping[str, Mapping[str, str]] = {
    SINGLE: {"score": "number", "reason": "text", "pass_rate": "number"},
    SEVERAL: {"scores": "numbers", "reasons": "texts", "pass_rate": "number"},
}
"""The columns added to a row that has the column `completion` or `completions`, with their types in Parquet."""


async def verdicts(
    session: Session[object], rows: Iterable[Row] | AsyncIterable[Row]
) -> AsyncIterator[dict[str, object]]:
    """Yield the rows with their scores, in order, as `judge_rows` writes them. The session must be started.

    Rows that cannot be judged are skipped: a warning is logged once per reason, with the first row's number (from 1).
    If an infrastructure error persists, the row's score is None. Memory contains at most two rows for each worker.
    """
    left_out: Counter[str] = Counter()
    number = 0
    async with aclosing(judge_each(session, _as_async_rows(rows), lambda row: judge_row(session, row))) as judged:
        async for row, added in judged:
            number += 1
            reason = added.get("left_out")
            if reason is None:
                yield {**row, **added_columns(row, added)}
                continue
            left_out[reason] += 1
            if left_out[reason] == 1:
                logger.warning(
                    "skipped row %d: %s (%s); further rows that are skipped for this reason are not logged",
                    number,
                    reason,
                    added.get("why", reason),
                )


async def judge_each(
    session: Session[object], rows: AsyncIterable[T], judge: Callable[[T], Coroutine[Any, Any, RowVerdicts]]
) -> AsyncGenerator[tuple[T, RowVerdicts]]:
    """Yield rows with the results of `judge`, in order. Several rows are in progress at a time."""
    # With twice as many rows as workers, no worker waits for a row.
    at_once = 2 * (session.settings.generators + session.settings.verifiers)
    under_way: deque[tuple[T, asyncio.Task[RowVerdicts]]] = deque()
    try:
        async for row in rows:
            under_way.append((row, asyncio.create_task(judge(row))))
            if len(under_way) == at_once:
                yield await _oldest(under_way)
        while under_way:
            yield await _oldest(under_way)
    finally:
        await cancel_all(judged for _, judged in under_way)


async def _oldest(under_way: deque[tuple[T, asyncio.Task[RowVerdicts]]]) -> tuple[T, RowVerdicts]:
    """Wait until the queue's first row is judged, then remove and return the row."""
    row, judged = under_way[0]  # stays in the queue meanwhile, so that the caller can cancel its asyncio task
    added = await judged
    under_way.popleft()
    return row, added


async def _as_async_rows(rows: Iterable[Row] | AsyncIterable[Row]) -> AsyncIterator[Row]:
    if isinstance(rows, AsyncIterable):
        async for row in rows:
            yield row
        return
    for row in rows:
        yield row


class RowVerdicts(TypedDict, total=False):
    """The result for a row: the scores (None if an infrastructure error persists), or why the row is skipped."""

    scores: list[float] | None
    reasons: list[str] | None
    answers: list[str | None]
    """The answers found in the completions. They are not written to the output."""
    pass_rate: float | None
    left_out: str
    why: str
    file: str
    """The file that contains a skipped row. `row` is the row's number in this file."""
    row: int


@dataclass(frozen=True)
class JudgeRequest:
    """The reference, the completions (`texts`) and the thinking formats of a row that can be judged."""

    reference: Reference
    texts: Sequence[str]
    thinking: Thinking | None


def completions_column(row: Row) -> str:
    """Return the name of the column that contains a row's completions."""
    return SEVERAL if row.get(SEVERAL) is not None else SINGLE


def read_row(row: Row) -> JudgeRequest | RowVerdicts:
    """Return the row as a JudgeRequest. If no session can judge the row, return the result of `left_out_row`."""
    reference = row.get(REFERENCE)
    if not isinstance(reference, str):
        return left_out_row("the row has no reference", _columns_of(row))
    if row.get(SEVERAL) is not None and row.get(SINGLE) is not None:
        return left_out_row(f"the row has both `{SINGLE}` and `{SEVERAL}`")
    kind = completions_column(row)
    if kind not in row:  # a null in `completion` means that the model wrote nothing
        return left_out_row("the row has no completion", _columns_of(row))
    try:
        texts = read_completions(row[kind] if kind == SEVERAL else [row[kind]])
        return JudgeRequest(Reference.parse(reference), texts, _thinking(row))
    except InvalidReferenceError as error:
        return left_out_row("the reference cannot be read", error.problem)
    except (ConfigError, KeyError, TypeError) as error:
        return left_out_row("the row's completions must be strings or conversations", str(error))


def _columns_of(row: Row) -> str:
    names = ", ".join(map(str, row))
    return f"its columns are {names}; choose columns with --columns reference=NAME,completion=NAME"


async def judge_row(session: Session[object], row: Row) -> RowVerdicts:
    """Return the verdicts of a row. If this session cannot judge the row, return the result of `left_out_row`."""
    request = read_row(row)
    if not isinstance(request, JudgeRequest):
        return request
    task = request.reference.task
    if task not in {task.name for task in session.library.tasks}:
        return left_out_row("this installation lacks the task of the row's reference", task)
    try:
        found = await _verdicts(session, request)
    except InvalidReferenceError as error:
        return left_out_row("this installation generates another question from the row's reference", error.problem)
    except GenerationError as error:
        return left_out_row("this installation cannot generate the problem of the row's reference", str(error))
    if found is None:
        return {"scores": None, "reasons": None, "pass_rate": None}
    return {
        "scores": [verdict.score for verdict in found],
        "reasons": [verdict.reason.value for verdict in found],
        "answers": [verdict.answer for verdict in found],
        "pass_rate": sum(verdict.correct for verdict in found) / len(found) if found else None,
    }


def left_out_row(reason: str, why: str = "") -> RowVerdicts:
    """Return the result for a skipped row. Skipped rows are counted by `reason`; `why` has the details of this row."""
    return {"left_out": reason, "why": (why or reason)[:400]}


async def _verdicts(session: Session[object], request: JudgeRequest) -> list[Verdict] | None:
    """Judge the completions, and return a list of their verdicts, or None if an infrastructure error persists."""
    for pause_s in (*RETRY_PAUSES_S, None):
        try:
            return await session.judge(str(request.reference), request.texts, thinking=request.thinking)
        except ClosedError:
            raise
        except (ScoringError, WorkerError):
            if pause_s is not None:
                await asyncio.sleep(pause_s)
    return None


def _thinking(row: Row) -> Thinking | None:
    """Return a row's `thinking_formats`; without this column, None, which means the session's formats."""
    if "thinking_formats" not in row:
        return None
    formats = row["thinking_formats"]
    return TAGS if formats is None else named_thinking(formats)


def added_columns(row: Row, added: Mapping[str, Any]) -> dict[str, object]:
    """Return the columns to add to a row: lists of scores for `completions`, a single score for `completion`."""
    if completions_column(row) == SEVERAL:
        return {name: added[name] for name in ADDED[SEVERAL]}
    scores, reasons = added["scores"] or [None], added["reasons"] or [None]
    return {"score": scores[0], "reason": reasons[0], "pass_rate": added["pass_rate"]}
