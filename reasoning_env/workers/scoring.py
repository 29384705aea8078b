"""Score the answers of a group on a verifier worker: turns, deadlines, the group's budget, and retries.

A worker scores one group for a turn of `child.SLICE_S` seconds, then the next group, so that long groups do not delay
short groups. An answer that exceeds its deadline of processor time scores 0. If the answers of a group together exceed
the group's budget of processor time, the group is not scored. `worker.py` measures the time.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

import msgspec

from ..answers.frames import FRAME_NAMES, MAX_FRAMES
from ..errors import ScoringError
from ..metrics.stats import PoolStats
from ..records import Problem, ProblemSpec, Reason, Verdict
from ..sources.score_function import MAX_PART_NAME, MAX_VERDICT_PARTS
from .answer_failures import (
    MAX_ANSWER_FAILURES,
    AnswerFailure,
    CannotBeScored,
    DiedWhileBuilding,
    classify,
    dropped_group_error,
    reason_for,
)
from .protocol import Frame, ProtocolFault, WorkerEnd
from .worker import (
    WORKER_START_TIMEOUT_S,
    DeadlineExceeded,
    NoCpuTime,
    Slot,
    Stopwatch,
    TooManyThreads,
    Worker,
    WorkerAsleep,
    WorkerDied,
    receive_in_cpu_time,
)

logger = logging.getLogger(__name__)

REQUEST_CHARACTERS = 1 << 17
"""Limit for the characters of all answers in a request to a worker. Encoding a request blocks the event loop, and a
hostile group may have 12 MB of answers."""


@dataclass
class AnswerBatch:
    """Answers to a problem, the verdicts so far, and the processor time that is left for the remaining answers."""

    problem: Problem
    answers: Sequence[str]
    plainly: bool
    budget_s: float
    verdicts: list[Verdict] = field(default_factory=list)
    failures: Counter[tuple[int, AnswerFailure]] = field(default_factory=Counter)
    """How often each kind of failure has happened to each answer (by its position)."""

    @property
    def remaining(self) -> Sequence[str]:
        return self.answers[len(self.verdicts) :]


class BatchScorer:
    """Scores batches of answers. Deadlines are in seconds of processor time, per answer and per batch.

    `replace` puts a fresh worker into a slot. `stats` counts answers, failures, and refusals of the sandbox.
    """

    def __init__(
        self, deadline_s: float, budget_s: float, stats: PoolStats, replace: Callable[[Slot], Awaitable[WorkerEnd]]
    ) -> None:
        self._deadline_s = deadline_s
        self._budget_s = budget_s
        self._stats = stats
        self._replace = replace
        self._refused_tasks: set[str] = set()

    def batch(self, problem: Problem, answers: Sequence[str], *, plainly: bool) -> AnswerBatch:
        """Return a new batch of answers that have no verdicts yet."""
        return AnswerBatch(problem, answers, plainly, self._budget_s)

    async def score(self, slot: Slot, batch: AnswerBatch) -> None:
        """Score answers of a batch for a turn of about SLICE_S seconds, and add their verdicts to the batch.

        If a worker fails at an answer, retry the answer on a fresh worker, as often as MAX_ANSWER_FAILURES allows.
        After WorkerAsleep, return before the retry, so that other groups are scored first.

        Raises:
            ScoringError: Too many kills or infrastructure errors happened at one answer, or the batch has no time left.
            WorkerError: No fresh worker can be started.
        """
        judged = len(batch.verdicts)
        while len(batch.verdicts) == judged:
            try:
                await self._score_with(slot.current, batch)
            except (DeadlineExceeded, WorkerAsleep, TooManyThreads, ProtocolFault, WorkerDied, ScoringError) as error:
                end = await self._replace(slot)
                logger.debug("%r while scoring an answer to %s; the verifier %s", error, batch.problem.spec, end)
                self._judge_failure(batch, error, end)
                if isinstance(error, WorkerAsleep):
                    return

    def _judge_failure(self, batch: AnswerBatch, error: Exception, end: WorkerEnd) -> None:
        """Count a failed try to score a batch's next answer. Return if a retry is left.

        Otherwise, an answer that took too long or ended its worker scores 0. Other failures raise ScoringError.
        """
        if isinstance(error, ProtocolFault):
            self._stats.protocol_faults += 1
        failure = classify(error, end)
        happened = (len(batch.verdicts), failure)
        batch.failures[happened] += 1
        if batch.failures[happened] < MAX_ANSWER_FAILURES[failure]:
            return
        if failure in (AnswerFailure.TIMED_OUT, AnswerFailure.ENDED_WORKER):
            self._score_zero(batch, reason_for(error, end))
        else:
            raise dropped_group_error(error, end, batch.problem.task)

    def _score_zero(self, batch: AnswerBatch, reason: Reason) -> None:
        """Append the verdict 0 on the next answer, and count the timeout or the crash."""
        scoring_s = 0.0
        if reason is Reason.TIMEOUT:
            self._stats.timeouts += 1
            scoring_s = self._deadline_s
        else:
            self._stats.crashes += 1
        batch.verdicts.append(Verdict(0.0, reason, batch.remaining[0], scoring_s))

    async def _score_with(self, worker: Worker, batch: AnswerBatch) -> None:
        """Score remaining answers of a batch on a worker for about SLICE_S seconds. Add the verdicts to the batch.

        Raises DeadlineExceeded, WorkerAsleep, TooManyThreads, WorkerDied, ProtocolFault, ScoringError, CannotBeScored.
        """
        spec = batch.problem.spec
        # A retried answer is sent alone: its worker may have failed because it already scored the next answer.
        is_retry = any(position == len(batch.verdicts) for position, _ in batch.failures)
        answers = batch.remaining[:1] if is_retry else _answers_for_request(batch.remaining)
        request = {"task": spec.task, "params": dict(spec.params), "level": batch.problem.level}
        try:
            worker.send({**request, "answers": answers, "plainly": batch.plainly}, batch.problem.entry)
        except (TypeError, ValueError, RecursionError) as error:
            raise CannotBeScored(f"{spec.task}: the problem cannot be sent to a worker: {error}") from error
        await self._await_task(worker, spec)
        for position, answer in enumerate(answers):
            reply = await self._await_verdict(worker, batch)
            batch.verdicts.append(read_verdict(reply, position, answer))
            self._stats.scored += 1
            if reply.header.get("refused") is True:
                self._count_refusal(spec.task, batch.verdicts[-1])
            if reply.header.get("turn_over") is True:
                return

    def _count_refusal(self, task: str, verdict: Verdict) -> None:
        """Count a verdict for which the sandbox refused an operation of the verifier. Log each task's first refusal."""
        self._stats.refused += 1
        if task not in self._refused_tasks:
            self._refused_tasks.add(task)
            logger.debug("the sandbox refused an operation of the verifier of %s: %s", task, verdict.error)

    async def _await_task(self, worker: Worker, spec: ProblemSpec) -> None:
        """Wait until a verifier worker has built the task. This time is not subtracted from any answer's deadline.

        Raises DiedWhileBuilding if the worker died, and ScoringError for any other failure.
        """
        try:
            header = (await receive_in_cpu_time(worker, WORKER_START_TIMEOUT_S, WORKER_START_TIMEOUT_S)).header
            if "fault" not in header and header.get("ready") is not True:
                raise ProtocolFault(f"the verifier worker sent a verdict before it was ready: {str(header)[:200]}")
        except DeadlineExceeded:
            raise ScoringError(f"{spec.task}: building the task took more than {WORKER_START_TIMEOUT_S:g} s") from None
        except NoCpuTime as error:
            raise ScoringError(f"{spec.task}: building the task failed: {error}") from None
        except WorkerDied as death:
            raise DiedWhileBuilding from death
        except ProtocolFault as error:
            self._stats.protocol_faults += 1
            raise ScoringError(f"{spec.task}: a verifier worker failed before it had built the task") from error
        if "fault" in header:
            fault = str(header["fault"])[:500]
            raise ScoringError(f"{spec.task}, seed {spec.seed}: the verifier worker cannot score: {fault}")

    async def _await_verdict(self, worker: Worker, batch: AnswerBatch) -> Frame:
        """Wait for the verdict on the next answer, and subtract the worker's processor time from the batch's budget.

        Raises the errors of `receive_in_cpu_time`, but ScoringError instead of NoCpuTime. Raises CannotBeScored if the
        batch exceeds its budget.
        """
        limit_s = min(self._deadline_s, batch.budget_s)
        used = Stopwatch(worker)
        try:
            return await receive_in_cpu_time(worker, limit_s, WORKER_START_TIMEOUT_S)
        except WorkerAsleep:  # a subclass of NoCpuTime, but the answer is to blame for it
            raise
        except NoCpuTime as error:
            raise ScoringError(f"{batch.problem.task}: {error}") from None
        except DeadlineExceeded:
            if limit_s == self._deadline_s:
                raise
        finally:
            batch.budget_s -= min(used.cpu_s, self._deadline_s)
        self._stats.over_budget += 1
        spec = batch.problem.spec
        message = f"{spec.task}, seed {spec.seed}: the group's answers need more processor time than the group's limit"
        logger.warning("%s; the group is dropped; to raise the limit, raise scoring_deadline_s", message)
        raise CannotBeScored(f"{message} ({len(batch.verdicts)} of {len(batch.answers)} were scored)")


def _answers_for_request(answers: Sequence[str]) -> Sequence[str]:
    """Return as many of the first answers as REQUEST_CHARACTERS allows, but at least one."""
    size = 0
    for count, answer in enumerate(answers):
        if count > 0 and size + len(answer) > REQUEST_CHARACTERS:
            return answers[:count]
        size += len(answer)
    return answers


Finite = Annotated[float, msgspec.Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
PartName = Annotated[str, msgspec.Meta(max_length=MAX_PART_NAME)]


class _VerdictReply(msgspec.Struct):
    """A valid reply of a verifier worker about one answer. It has either a score or the verifier's error."""

    position: int
    score: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
    reason: Literal["scored", "verifier_error"]
    scoring_s: Annotated[float, msgspec.Meta(ge=0.0, le=1e6)]  # longer than any deadline
    # Names of the formats that were removed from the answer: at most two for each frame, and two for what is inside.
    frames: Annotated[tuple[str, ...], msgspec.Meta(max_length=2 * MAX_FRAMES + 2)] = ()
    parts: Annotated[dict[PartName, Finite], msgspec.Meta(max_length=MAX_VERDICT_PARTS)] | None = None
    error: str | None = None


def read_verdict(reply: Frame, position: int, answer: str) -> Verdict:
    """Return the verdict on `answer` from a worker's reply. `position` is the answer's index in the request.

    A verifier worker has read hostile text, so its reply may be anything. Raises ProtocolFault for an invalid reply.
    """
    try:
        said = msgspec.convert(reply.header, _VerdictReply)
    except ValueError as error:  # msgspec's own error, or a string with half a surrogate pair
        raise ProtocolFault(f"the worker's reply has no valid verdict ({error}): {str(reply.header)[:500]}") from error
    is_paid_error = said.reason == "verifier_error" and said.score != 0.0
    if said.position != position or is_paid_error or not FRAME_NAMES.issuperset(said.frames):
        raise ProtocolFault(f"the worker's reply has no valid verdict: {str(reply.header)[:500]}")
    return Verdict(
        said.score,
        Reason(said.reason),
        answer,
        said.scoring_s,
        frames=said.frames,
        own_parts=said.parts,
        error=said.error,
    )
