"""Turn a problem into a scored group: sample, score, count, learn, dump.

A group is whole or dropped, and dropped groups are counted. One whose collection is cancelled stays in flight.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from ..dumps.writer import RolloutDumper
from ..errors import RefusedError, ServerError, WorkerError
from ..metrics import MetricsRecorder
from ..records import DropReason, Group, Problem, Sampling, Timeouts
from ..rewards import score_rollouts
from ..workers.pool import WorkerPool
from .inference.client import InferenceClient
from .inference.failures import describe_failure
from .problem_source import ProblemSource, RolloutItem

logger = logging.getLogger(__name__)

T = TypeVar("T")


class GroupCollector:
    """Samples and scores groups; used on the event loop."""

    def __init__(
        self,
        config: Any,
        inference: InferenceClient,
        pool: WorkerPool,
        source: ProblemSource,
        metrics: MetricsRecorder,
        dumper: RolloutDumper | None,
    ) -> None:
        self._config = config
        self._inference = inference
        self._pool = pool
        self._source = source
        self._metrics = metrics
        self._dumper = dumper
        self._failures_in_a_row = 0
        self._last_failure = ""
        self._fatal: WorkerError | RefusedError | None = None
        self._tries = 1
        self._keeping = False
        self.kept: dict[int, Group] = {}

    def keep(self, *, tries: int) -> None:
        """Keep scored groups in `kept`, by problem index, until they are taken; try one `tries` times until it is."""
        self._keeping, self._tries = True, tries

    def check(self, *, max_failures: int | None) -> None:
        """Raise what no other group can escape, or ServerError after `max_failures` failed groups in a row."""
        if self._fatal is not None:
            raise self._fatal
        if max_failures is not None and self._failures_in_a_row >= max_failures:
            raise ServerError(f"{self._failures_in_a_row} groups in a row failed; the last: {self._last_failure}")

    async def collect(
        self,
        item: RolloutItem,
        sampling: Sampling,
        timeouts: Timeouts,
        score: Callable[[Group], Awaitable[T]],
    ) -> T | None:
        """Return what `score` makes of the group; None, counted and logged, for a group that is dropped.

        Nothing waits after scoring, so that a cancellation cannot come between counting a group and ending its problem.
        """
        scored = None
        for tries_left in reversed(range(self._tries)):
            reason = DropReason.INFERENCE
            try:
                rollouts = await self._inference.complete(item.prompt, self._config.group_size, sampling, timeouts)
                reason = DropReason.SCORING
                scored = await score(Group(item.problem, item.prompt.messages, tuple(rollouts)))
                self._failures_in_a_row = 0
                break
            except Exception as error:  # of clients, ours or a subclass's; it never becomes a score of 0
                if reason is DropReason.INFERENCE and isinstance(error, TimeoutError):
                    reason = DropReason.TIMED_OUT
                if isinstance(error, (WorkerError, RefusedError)):
                    self._fatal = error
                elif tries_left and not self._inference.outage_s and item.problem.spec.index not in self.kept:
                    self._metrics.record_retried()
                    logger.debug("a group of %s is tried again: %s", item.problem.task, describe_failure(error))
                    continue
                self.drop(reason, item.problem, error)
                break
        self._source.done(item.problem)
        return scored

    async def score(self, group: Group) -> Group:
        """Return the group with verdicts and rewards, once it is counted, learnt from and taken for dumping.

        Raises ScoringError when a fault of ours persists, and WorkerError when there are no workers left.
        """
        rollouts = await score_rollouts(
            self._pool,
            group.problem,
            group.rollouts,
            max_answer_bytes=self._config.max_answer_bytes,
            max_tokens=self._config.max_token_length,
        )
        group = Group(group.problem, group.messages, rollouts)
        outcome = self._metrics.record_group(group)
        self._source.observe(group)
        logger.debug("%s at level %s: scores %s (%s)", group.problem.spec, group.problem.level, group.scores, outcome)
        if self._dumper is not None:
            self._dumper.offer(group)
        if self._keeping:
            self.kept[group.problem.spec.index] = group
        return group

    def drop(self, reason: DropReason, problem: Problem, error: Exception) -> None:
        """Count and log a problem that gives no group."""
        self._failures_in_a_row += 1
        self._last_failure = describe_failure(error)
        self._metrics.record_dropped(reason)
        # What ends the run is told once, at its end.
        level = logging.WARNING if self._fatal is None else logging.DEBUG
        logger.log(level, "a group of %s is dropped, %s: %s", problem.task, reason, self._last_failure)
