"""Judge on a Ray cluster: every node has a session, and the least busy node judges.

    judges = RayJudges(ReasoningSettings())
    verdicts = await judges.judge(problem.reference, completions)

`RayJudges.judge` takes references and is otherwise `Session.judge`, so a training loop or `JudgeServer` can use
`RayJudges` in place of a session. When a node dies, another node judges again. All nodes give the same verdicts,
because a reference makes the same problem on every node.

    judges = RayJudges(make=partial(ScoreJudge, "my_rewards:score"))
    verdicts = await judges.judge({"answer": "42"}, completions)

With `make`, every node has what `make` returns: any object with `start` and `judge`. A `ScoreJudge` judges rows.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ..errors import ScoringError, WorkerError
from ..records import Subject, Verdict
from ..session import Session
from ..settings import ReasoningSettings

logger = logging.getLogger(__name__)


class NodeJudge(Protocol):
    """What judges on a node: a `Session`, or a `ScoreJudge`."""

    async def start(self) -> object: ...

    async def judge(self, subject: Any, completions: Sequence[str], /) -> list[Verdict]: ...


class _Actor:
    """The judge of a node in an actor. Ray restarts the actor when its process dies."""

    def __init__(self, make: Callable[[], NodeJudge]) -> None:
        self._make = make
        self._starting: asyncio.Task[NodeJudge] | None = None

    async def judge(self, subject: Subject, completions: Sequence[str]) -> list[Verdict]:
        if self._starting is None or (self._starting.done() and self._starting.exception() is not None):
            self._starting = asyncio.create_task(self._start())
        judge = await asyncio.shield(self._starting)
        return await judge.judge(subject, completions)

    async def _start(self) -> NodeJudge:
        judge = self._make()
        await judge.start()
        return judge


class RayJudges:
    """One judge for each node that the cluster of `ray.init` has at construction.

    Args:
        settings: Those of the session that each node has.
        make: Makes the judge of a node, on that node, in place of a session.
    """

    REST_S = 30.0
    """Seconds for which a failed judge comes last in the order, while Ray restarts the judge."""

    def __init__(
        self, settings: ReasoningSettings | None = None, *, make: Callable[[], NodeJudge] | None = None
    ) -> None:
        made_by = make or partial(Session, settings or ReasoningSettings())
        nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
        actor: Any = ray.remote(num_cpus=0, max_restarts=-1)(_Actor)
        self._busy: dict[Any, int] = {
            actor.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(made_by): 0
            for node in nodes
        }
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

    def _order(self, judge: Any) -> tuple[bool, int]:
        """Return the sort key: judges without a recent failure first, then the least busy judge."""
        return self._resting_until[judge] > time.monotonic(), self._busy[judge]
