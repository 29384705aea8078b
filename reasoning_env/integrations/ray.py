"""Judging on a Ray cluster: a session on each node, and the least busy one judges.

    judges = RayJudges(ReasoningSettings())
    verdicts = await judges.judge(problem.reference, completions)

It has a session's `judge` over references, so that a training loop or `JudgeServer` can use it in place of one. A node
that dies costs a retry on another. Verdicts are the same everywhere, because a reference makes the same problem.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ..errors import ScoringError
from ..records import Verdict
from ..session import Session
from ..settings import ReasoningSettings

logger = logging.getLogger(__name__)


class _NodeJudge:
    """A session in an actor, which Ray starts again when its process dies."""

    def __init__(self, settings: ReasoningSettings) -> None:
        self._session = Session(settings)
        self._starting: asyncio.Task[object] | None = None

    async def judge(self, reference: str, completions: Sequence[str]) -> list[Verdict]:
        if self._starting is None:
            self._starting = asyncio.create_task(self._session.start())
        await asyncio.shield(self._starting)
        return await self._session.judge(reference, completions)


class RayJudges:
    """One judge a node of the cluster that `ray.init` has joined, as it is now."""

    def __init__(self, settings: ReasoningSettings | None = None) -> None:
        given = settings or ReasoningSettings()
        nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
        actor: Any = ray.remote(num_cpus=0, max_restarts=-1)(_NodeJudge)
        self._busy: dict[Any, int] = {
            actor.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(given): 0
            for node in nodes
        }

    async def judge(self, reference: str, completions: Sequence[str]) -> list[Verdict]:
        """Return a verdict for each completion; raises as `Session.judge` does, and ScoringError without nodes."""
        while self._busy:
            actor = min(self._busy, key=self._busy.__getitem__)
            self._busy[actor] += 1
            try:
                verdicts: list[Verdict] = await actor.judge.remote(reference, list(completions))
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None
            except ray.exceptions.RayError as error:
                # The actor or its node is gone; another one judges.
                if self._busy.pop(actor, None) is not None:
                    logger.warning("a judge is lost, %d are left: %s", len(self._busy), error)
            else:
                return verdicts
            finally:
                if actor in self._busy:
                    self._busy[actor] -= 1
        raise ScoringError("no judge of the Ray cluster is left")
