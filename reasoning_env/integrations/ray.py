"""Ray: judge on every node of a cluster, and generate and judge the rows of Ray Data.

    judges = RayJudges(ReasoningSettings())
    verdicts = await judges.judge(problem.reference, completions)

`RayJudges.judge` accepts problem references, or rows if `RayJudges` has a `score` function. A training loop or
`JudgeServer` can use `RayJudges` instead of a session. The least busy node judges. If a node dies, another node judges
the group, with the same verdicts.

    rows = problem_rows(ReasoningSettings(tasks=["gcd"]), RowPlan(count=100_000), parts=64)
    judged = rows.map_batches(Complete, ...).map_batches(JudgeRows, batch_format="pyarrow", compute=actors)

`actors` is `ray.data.ActorPoolStrategy(size=4)`, for four sessions. `Complete` is your own class, which adds the column
`completion` or `completions`. If a node dies, Ray repeats the node's work on another node. An actor's session starts
with the first call and ends with the actor. `examples/ray_data.py` is a complete program.
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

from ..data.problems import PROBLEM_COLUMNS, ProblemForm, RowPlan, problems
from ..data.tables import BLOCK, arrow_schema
from ..data.verdicts import ADDED, SEVERAL, SINGLE, verdicts
from ..errors import ScoringError, WorkerError
from ..records import Problem, Subject, Verdict
from ..session import Session
from ..settings import ReasoningSettings
from ..sources.score_function import ScoreFunction

logger = logging.getLogger(__name__)


class _Actor:
    """An actor with a session that starts at the first call. Ray restarts the actor if its process dies."""

    def __init__(self, settings: ReasoningSettings | None = None, score: str | ScoreFunction | None = None) -> None:
        self._settings = settings or ReasoningSettings()
        self._score = score
        self._starting: asyncio.Task[Session[Problem]] | None = None

    async def _session(self) -> Session[Problem]:
        """Return the started session. If the start fails, the next call starts a new session."""
        if self._starting is None or (self._starting.done() and self._starting.exception() is not None):
            self._starting = asyncio.create_task(self._start())
        return await asyncio.shield(self._starting)  # a cancelled call must not end the start for other calls

    async def _start(self) -> Session[Problem]:
        session: Session[Problem] = Session(self._settings, score=self._score)
        await session.start()
        return session


class _Judge(_Actor):
    async def judge(self, subject: Subject, completions: Sequence[str]) -> list[Verdict]:
        session = await self._session()
        return await session.judge(subject, completions)


class RayJudges:
    """One session on each node of the cluster that `ray.init` connected to. Nodes that join later get no session.

    Args:
        settings: Settings of the sessions.
        score: Score function instead of tasks, as for `Session`. Each node must be able to import the function.
    """

    REST_S = 30.0
    """If a node's judge fails, other nodes are preferred for this many seconds, while Ray restarts the judge."""

    def __init__(self, settings: ReasoningSettings | None = None, *, score: str | ScoreFunction | None = None) -> None:
        nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
        actor: Any = ray.remote(num_cpus=0, max_restarts=-1)(_Judge)
        strategies = [NodeAffinitySchedulingStrategy(node, soft=False) for node in nodes]
        judges = [actor.options(scheduling_strategy=strategy).remote(settings, score) for strategy in strategies]
        self._busy: dict[Any, int] = dict.fromkeys(judges, 0)
        self._resting_until: dict[Any, float] = dict.fromkeys(self._busy, 0.0)

    async def judge(self, subject: Subject, completions: Sequence[str]) -> list[Verdict]:
        """Return a verdict for each completion, in order. `subject` is a problem's reference, or a row.

        If the workers of a node or the node itself fail, another node judges. Raises ScoringError if all nodes fail.
        Other errors of a judge are raised at once.
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
                if not isinstance(error.cause, WorkerError):  # other nodes would raise any other error too
                    raise error.cause from None
                cause: Exception = error.cause
            except ray.exceptions.RayError as error:  # the actor or its node died
                cause = error
            finally:
                self._busy[judge] -= 1
            self._resting_until[judge] = time.monotonic() + self.REST_S
            logger.warning(
                "the judge on one node failed (%s); other nodes are preferred for %g s",
                str(cause).splitlines()[0],
                self.REST_S,
            )
        raise ScoringError("the judges on all nodes of the Ray cluster failed; the log has the causes")

    @property
    def fault(self) -> str | None:
        """An error message if the judge of every node failed recently; else None."""
        if all(until > time.monotonic() for until in self._resting_until.values()):
            return "the judges on all nodes of the Ray cluster failed"
        return None

    def _order(self, judge: object) -> tuple[bool, int]:
        """Return a sort key: whether the judge failed recently, then how busy the judge is."""
        return self._resting_until[judge] > time.monotonic(), self._busy[judge]


class MakeProblems(_Actor):
    """Generates rows of problems. The column `part` of the input has the numbers of the parts to make (`RowPlan`)."""

    def __init__(self, settings: ReasoningSettings, wanted: RowPlan, form: ProblemForm) -> None:
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
    """Adds scores to rows with `reference` and completions; for `map_batches` with `batch_format="pyarrow"`.

    Rows that cannot be judged are skipped. For each reason, the actor logs the first such row of the batch.
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
    """Return NumPy arrays as lists, because Ray may convert lists to arrays between stages."""
    return value.tolist() if hasattr(value, "tolist") else value


def problem_rows(
    settings: ReasoningSettings,
    wanted: RowPlan,
    *,
    parts: int,
    form: ProblemForm = ProblemForm.ROWS,
    **options: object,
) -> ray.data.Dataset:
    """Return a data set with the rows that the command `problems` writes. `options` are passed to `map_batches`.

    The rows are generated in `parts` parts. Use at most as many parts as tasks: if several parts share a task, each of
    these parts generates all problems of the task and keeps only some.
    """
    numbers = ray.data.from_items([{"part": part} for part in range(1, parts + 1)], override_num_blocks=parts)
    return numbers.map_batches(
        MakeProblems,
        fn_constructor_args=(settings, replace(wanted, parts=parts), form),
        batch_size=1,
        batch_format="pyarrow",
        **{"compute": ray.data.ActorPoolStrategy(size=1), **options},
    )
