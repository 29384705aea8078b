"""Ray Data: a data set of problems, and verdicts on the rows of a data set.

    rows = problem_rows(ReasoningSettings(tasks=["gcd"]), Wanted(count=100_000), parts=64)
    judged = rows.map_batches(Complete, ...).map_batches(JudgeRows, batch_format="pyarrow", compute=actors)

`actors` is `ray.data.ActorPoolStrategy(size=4)`, for four sessions.

`Complete` stands for your own stage, which adds `completion` or `completions`. `examples/ray_data.py` is a whole
program. A session lives in an actor, and ends with the actor. If a node dies, Ray repeats its work on another
node. The result is the same: a part has the same rows at each call, and every node gives the same verdicts. Needs the
extra `ray`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pyarrow
import ray.data

from ..data.problems import PROBLEM_COLUMNS, ProblemForm, Wanted, problems
from ..data.tables import BLOCK, arrow_schema
from ..data.verdicts import ADDED, SEVERAL, SINGLE, verdicts
from ..records import Problem
from ..session import Session
from ..settings import ReasoningSettings


class _JudgingActor:
    """An actor with a session, which starts at the first batch."""

    def __init__(self, settings: ReasoningSettings | None = None) -> None:
        self._session: Session[Problem] = Session(settings or ReasoningSettings())
        self._starting = asyncio.Lock()
        self._is_started = False

    async def _started(self) -> Session[Problem]:
        async with self._starting:
            if not self._is_started:
                await self._session.start()
                self._is_started = True
        return self._session


class MakeProblems(_JudgingActor):
    """Makes the rows of parts: a batch has the column `part`, and becomes blocks of rows."""

    def __init__(self, settings: ReasoningSettings, wanted: Wanted, form: ProblemForm) -> None:
        super().__init__(settings)
        self._wanted = wanted
        self._form = form

    async def __call__(self, batch: pyarrow.Table) -> AsyncIterator[pyarrow.Table]:
        session = await self._started()
        schema = arrow_schema(PROBLEM_COLUMNS[self._form])
        for part in batch["part"].to_pylist():
            block: list[dict[str, Any]] = []
            async for row in problems(session, replace(self._wanted, part=part), form=self._form):
                block.append(row)
                if len(block) == BLOCK:
                    yield pyarrow.Table.from_pylist(block, schema)
                    block.clear()
            yield pyarrow.Table.from_pylist(block, schema)


class JudgeRows(_JudgingActor):
    """For `map_batches` with `batch_format="pyarrow"`: rows with `reference` and completions get their scores.

    A row that cannot be judged is left out; the log of the actor tells each reason, with the first row of the batch.
    """

    async def __call__(self, batch: pyarrow.Table) -> AsyncIterator[pyarrow.Table]:
        session = await self._started()
        read = [name for name in ("reference", SINGLE, SEVERAL, "thinking_formats") if name in batch.column_names]
        rows = [
            {"place": place, **{name: _plain(value) for name, value in row.items()}}
            for place, row in enumerate(batch.select(read).to_pylist())
        ]
        judged = [row async for row in verdicts(session, rows)]
        added = arrow_schema(ADDED[SEVERAL if SEVERAL in read else SINGLE])
        kept = batch.drop_columns([name for name in added.names if name in batch.column_names])
        kept = kept.take(pyarrow.array([row["place"] for row in judged], pyarrow.int64()))
        for field in added:
            kept = kept.append_column(field, pyarrow.array([row[field.name] for row in judged], field.type))
        yield kept


def _plain(value: Any) -> Any:
    """Return a list for an array of NumPy, which Ray may make of lists between stages."""
    return value.tolist() if hasattr(value, "tolist") else value


def problem_rows(
    settings: ReasoningSettings,
    wanted: Wanted,
    *,
    parts: int,
    form: ProblemForm = ProblemForm.ROWS,
    **options: Any,
) -> ray.data.Dataset:
    """Return a data set with the rows of `problems`, made in so many parts. `options` are those of `map_batches`.

    With up to as many parts as tasks, each part has tasks of its own. With more, parts of a task draw all its problems.
    """
    numbers = ray.data.from_items([{"part": part} for part in range(1, parts + 1)], override_num_blocks=parts)
    return numbers.map_batches(
        MakeProblems,
        fn_constructor_args=(settings, replace(wanted, parts=parts), form),
        batch_size=1,
        batch_format="pyarrow",
        **{"compute": ray.data.ActorPoolStrategy(size=1), **options},
    )
