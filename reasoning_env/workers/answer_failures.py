"""After a worker fails on an answer, decide whether to retry the answer, to score it 0, or to drop its group."""

from __future__ import annotations

from enum import Enum

from ..errors import ScoringError
from ..records import Reason
from .protocol import ProtocolFault, WorkerEnd
from .worker import MAX_KILLS, DeadlineExceeded, TooManyThreads, WorkerAsleep, WorkerDied

MAX_ENDED_WORKERS = 2
"""If this many workers end while they score an answer, the answer scores 0. A single end may have another cause."""
MAX_FAULTS = 2
"""After this many infrastructure errors on one answer, its group is dropped."""


class AnswerFailure(Enum):
    """A kind of failure while an answer was scored. MAX_ANSWER_FAILURES limits how often each kind may happen."""

    TIMED_OUT = "scoring the answer took longer than allowed"
    ENDED_WORKER = "the worker ended, or could not reply, while it scored the answer"
    KILLED = "the worker was killed by another process or the kernel"
    FAULT = "an infrastructure error"
    PERMANENT = "an error that a retry cannot avoid"


MAX_ANSWER_FAILURES = {
    AnswerFailure.TIMED_OUT: 1,
    AnswerFailure.ENDED_WORKER: MAX_ENDED_WORKERS,
    AnswerFailure.KILLED: MAX_KILLS,
    AnswerFailure.FAULT: MAX_FAULTS,
    AnswerFailure.PERMANENT: 1,
}
"""After this many failures of a kind, an answer is not retried. After TIMED_OUT or ENDED_WORKER, the answer scores 0.
After any other kind, the answer's group is dropped."""


class CannotBeScored(ScoringError):
    """A retry will not help: the group takes too much processor time, or JSON cannot represent its problem."""


class DiedWhileBuilding(WorkerDied):
    """A verifier worker died before it had built the task, so no answer is to blame."""


def classify(error: Exception, end: WorkerEnd) -> AnswerFailure:
    match error:
        case DeadlineExceeded():
            return AnswerFailure.TIMED_OUT
        case WorkerAsleep() | TooManyThreads() | ProtocolFault():
            return AnswerFailure.ENDED_WORKER
        case CannotBeScored():
            return AnswerFailure.PERMANENT
        case ScoringError():
            return AnswerFailure.FAULT
    if end.from_outside:
        return AnswerFailure.KILLED
    return AnswerFailure.FAULT if isinstance(error, DiedWhileBuilding) else AnswerFailure.ENDED_WORKER


def reason_for(error: Exception, end: WorkerEnd) -> Reason:
    """Return the verdict's reason for an answer that scores 0 because scoring the answer failed."""
    if isinstance(error, DeadlineExceeded | WorkerAsleep):
        return Reason.TIMEOUT
    died_of_memory = isinstance(error, WorkerDied) and end.out_of_memory
    return Reason.OUT_OF_MEMORY if died_of_memory else Reason.CRASH


def dropped_group_error(error: Exception, end: WorkerEnd, task: str) -> ScoringError:
    """Return the error to raise for a group that is dropped because a failure persists."""
    if isinstance(error, ScoringError):
        return error
    if end.from_outside:
        return ScoringError(f"{task}: {MAX_KILLS} verifier workers died while scoring the same answer; the last {end}")
    return ScoringError(f"{task}: a verifier worker {end} while it prepared the task")
