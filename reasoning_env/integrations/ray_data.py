"""Ray Data: a data set of problems, and verdicts on the rows of a data set.

    rows = problem_rows(ReasoningSettings(tasks=["gcd"]), Wanted(count=100_000), parts=64)
    judged = rows.map_batches(Complete, ...).map_batches(JudgeRows, batch_format="pyarrow", compute=actors)

`actors` is `ray.data.ActorPoolStrategy(size=4)`, for four sessions.

`Complete` stands for your own stage, which adds `completion` or `completions`. `examples/ray_data.py` is a whole
program. A session lives in an actor, and ends with the actor. Ray runs the work of a node that died again on another
node; the rows are the same, because a part is the same at each call, and a verdict on every node. Needs the
extra `ray`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pyarrow
import ray.data

from ..data.problems import COLUMNS, Form, Wanted, problems
from ..data.tables import BLOCK, arrow_schema, with_columns
from ..data.verdicts import ADDED, SEVERAL, SINGLE, verdicts
from ..records import Problem
from ..session import Session
from ..settings import ReasoningSettings


class _Worker:
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


class MakeProblems(_Worker):
    """Makes the rows of parts: a batch has the column `part`, and becomes blocks of rows."""

    def __init__(self, settings: ReasoningSettings, wanted: Wanted, form: Form) -> None:
        super().__init__(settings)
        self._wanted = wanted
        self._form = form

    async def __call__(self, batch: pyarrow.Table) -> AsyncIterator[pyarrow.Table]:
        session = await self._started()
        schema = arrow_schema(COLUMNS[self._form])
        for part in batch["part"].to_pylist():
            block: list[dict[str, Any]] = []
            async for row in problems(session, replace(self._wanted, part=part), form=self._form):
                block.append(row)
                if len(block) == BLOCK:
                    yield pyarrow.Table.from_pylist(block, schema)
                    block.clear()
            yield pyarrow.Table.from_pylist(block, schema)


class JudgeRows(_Worker):
    """For `map_batches` with `batch_format="pyarrow"`: rows with `reference` and completions get their scores.

    A row that cannot be judged is left out; the log of the actor tells each reason, with the first row of the batch.
    """

    async def __call__(self, batch: pyarrow.Table) -> AsyncIterator[pyarrow.Table]:
        session = await self._started()
        schema = with_columns(batch.schema, ADDED[SEVERAL if SEVERAL in batch.column_names else SINGLE])
        judged = [row async for row in verdicts(session, batch.to_pylist())]
        yield pyarrow.Table.from_pylist(judged, schema)


def problem_rows(
    settings: ReasoningSettings, wanted: Wanted, *, parts: int, form: Form = Form.ROWS, **options: Any
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
