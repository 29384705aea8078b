"""Ray: judge on every node of a cluster, and make and judge the rows of Ray Data.

    judges = RayJudges(ReasoningSettings())
    verdicts = await judges.judge(problem.reference, completions)

`RayJudges.judge` takes references, or rows with a score function, and is otherwise `Session.judge`, so a training loop
or `JudgeServer` can use `RayJudges` in place of a session. The least busy node judges. When a node dies, another node
judges again. All nodes give the same verdicts, because a reference makes the same problem on every node.

    rows = problem_rows(ReasoningSettings(tasks=["gcd"]), Wanted(count=100_000), parts=64)
    judged = rows.map_batches(Complete, ...).map_batches(JudgeRows, batch_format="pyarrow", compute=actors)

`actors` is `ray.data.ActorPoolStrategy(size=4)`, for four sessions. `Complete` stands for your own stage, which adds
`completion` or `completions`; `examples/ray_data.py` is a whole program. If a node dies, Ray repeats its work on
another node. The result is the same: a part has the same rows at each call.

A session lives in an actor, starts with the actor's first work, and ends with the actor.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow
import ray
import ray.data
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ..data.problems import PROBLEM_COLUMNS, ProblemForm, Wanted, problems
from ..data.tables import BLOCK, arrow_schema
from ..data.verdicts import ADDED, SEVERAL, SINGLE, verdicts
from ..errors import ScoringError, WorkerError
from ..records import Problem, Subject, Verdict
from ..session import Session
from ..settings import ReasoningSettings
from ..sources.score_function import ScoreFunction

logger = logging.getLogger(__name__)


class _Actor:
    """An actor with a session, which starts at the first call. Ray restarts the actor when its process dies."""

    def __init__(self, settings: ReasoningSettings | None = None, score: str | ScoreFunction | None = None) -> None:
        self._settings = settings or ReasoningSettings()
        self._score = score
        self._starting: asyncio.Task[Session[Problem]] | None = None

    async def _session(self) -> Session[Problem]:
        """Return the session when it has started. After an error, the next call starts another."""
        if self._starting is None or (self._starting.done() and self._starting.exception() is not None):
            self._starting = asyncio.create_task(self._start())
        return await asyncio.shield(self._starting)

    async def _start(self) -> Session[Problem]:
        session: Session[Problem] = Session(self._settings, score=self._score)
        await session.start()
        return session


class _Judge(_Actor):
    async def judge(self, subject: Subject, completions: Sequence[str]) -> list[Verdict]:
        session = await self._session()
        return await session.judge(subject, completions)


class RayJudges:
    """One session for each node that the cluster of `ray.init` has at construction.

    Args:
        settings: Those of the sessions.
        score: Score function in place of tasks, as for `Session`. Each node must be able to import its module.
    """

    REST_S = 30.0
    """Seconds for which a failed judge comes last in the order, while Ray restarts the judge."""

    def __init__(self, settings: ReasoningSettings | None = None, *, score: str | ScoreFunction | None = None) -> None:
        nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
        actor: Any = ray.remote(num_cpus=0, max_restarts=-1)(_Judge)
        strategies = [NodeAffinitySchedulingStrategy(node, soft=False) for node in nodes]
        judges = [actor.options(scheduling_strategy=strategy).remote(settings, score) for strategy in strategies]
        self._busy: dict[Any, int] = dict.fromkeys(judges, 0)
        self._resting_until: dict[Any, float] = dict.fromkeys(self._busy, 0.0)

    async def judge(self, subject: Subject, completions: Sequence[str]) -> list[Verdict]:
        """Return a verdict for each completion, in order. `subject` is a problem's reference, or a row.

        Raises the errors of the nodes' judges, and ScoringError when every node fails.
        """
        untried = set(self._busy)
        while untried:
            judge = min(untried, key=self._order)
            untried.remove(judge)
            self._busy[judge] += 1
            try:
                verdicts: list[Verdict] = await judge.judge.remote(subject, list(completions))
                return verdicts
            except ray.exceptions.RayTaskError as error:
                if not isinstance(error.cause, WorkerError):
                    raise error.cause from None
                cause: Exception = error.cause
            except ray.exceptions.RayError as error:  # the actor or its node is gone
                cause = error
            finally:
                self._busy[judge] -= 1
            self._resting_until[judge] = time.monotonic() + self.REST_S
            logger.warning(
                "the judge of a node failed, and comes last for %g s: %s", self.REST_S, str(cause).splitlines()[0]
            )
        raise ScoringError("no node of the Ray cluster can judge")

    @property
    def fault(self) -> str | None:
        """Why nothing can be judged at the moment, in one line; None unless the judges of all nodes have failed."""
        if all(until > time.monotonic() for until in self._resting_until.values()):
            return "the judges of all nodes of the Ray cluster failed"
        return None

    def _order(self, judge: object) -> tuple[bool, int]:
        """Return the sort key: judges without a recent failure first, then the least busy judge."""
        return self._resting_until[judge] > time.monotonic(), self._busy[judge]


class MakeProblems(_Actor):
    """Makes the rows of parts: a batch has the column `part`, and becomes blocks of rows."""

    def __init__(self, settings: ReasoningSettings, wanted: Wanted, form: ProblemForm) -> None:
        super().__init__(settings)
        self._wanted = wanted
        self._form = form

    async def __call__(self, batch: pyarrow.Table) -> AsyncIterator[pyarrow.Table]:
        session = await self._session()
        schema = arrow_schema(PROBLEM_COLUMNS[self._form])
        for part in batch["part"].to_pylist():
            block: list[dict[str, object]] = []
            async for row in problems(session, replace(self._wanted, part=part), form=self._form):
                block.append(row)
                if len(block) == BLOCK:
                    yield pyarrow.Table.from_pylist(block, schema)
                    block.clear()
            yield pyarrow.Table.from_pylist(block, schema)


class JudgeRows(_Actor):
    """For `map_batches` with `batch_format="pyarrow"`: rows with `reference` and completions get their scores.

    A row that cannot be judged is left out; the log of the actor tells each reason, with the first row of the batch.
    """

    async def __call__(self, batch: pyarrow.Table) -> AsyncIterator[pyarrow.Table]:
        session = await self._session()
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


def _plain(value: object) -> object:
    """Return a list for an array of NumPy, which Ray may make of lists between stages."""
    return value.tolist() if hasattr(value, "tolist") else value


def problem_rows(
    settings: ReasoningSettings,
    wanted: Wanted,
    *,
    parts: int,
    form: ProblemForm = ProblemForm.ROWS,
    **options: object,
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
