"""Count the verdicts of a user's own score function or verifiers, and warn if this code raises.

If the code raises for a completion, the completion scores 0, although the error is probably in the user's code.
"""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence

from ..errors import RaisingFunctionError
from ..records import Reason, Verdict
from .metric import Kind, Metric

logger = logging.getLogger(__name__)

FIRST_VERDICTS = 100
"""A score function counts as broken if it raised an error for all completions, and for at least this many."""


class OwnVerdicts:
    """Counts the verdicts of one session, and warns if the user's code raises for all completions of a group."""

    REPEAT_S = 60.0
    """Minimum seconds between two warnings."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.reasons: Counter[str] = Counter()
        self._first_error = ""
        self._clock = clock
        self._warned_s = -math.inf

    def note(self, verifier: str, verdicts: Sequence[Verdict]) -> None:
        """Count the verdicts of a group. `verifier` names the user's code in warnings."""
        self.reasons.update(verdict.reason.value for verdict in verdicts)
        errors = [verdict.error or "" for verdict in verdicts if verdict.reason is Reason.VERIFIER_ERROR]
        if errors and not self._first_error:
            self._first_error = errors[0]
        now = self._clock()
        if not verdicts or len(errors) < len(verdicts) or now - self._warned_s < self.REPEAT_S:
            return
        self._warned_s = now
        total, raised = self.reasons.total(), self.reasons[Reason.VERIFIER_ERROR]
        logger.warning(
            "%s raised an error for all completions of a group, so they score 0 (%s); so far, it raised an error for "
            "%.0f %% of %d completions",
            verifier,
            errors[0],
            100.0 * raised / total,
            total,
        )

    def check(self) -> None:
        """Raise RaisingFunctionError if the user's code has raised for all completions so far.

        Never raises before FIRST_VERDICTS completions.
        """
        total = self.reasons.total()
        if total >= FIRST_VERDICTS and self.reasons[Reason.VERIFIER_ERROR] == total:
            raise RaisingFunctionError(total, self._first_error)


OWN_VERDICTS: Sequence[Metric[OwnVerdicts]] = (
    Metric(
        "verdicts/REASON",
        Kind.COUNT,
        "verdicts of your own score function or task, by reason",
        lambda own: {reason.value: own.reasons[reason] for reason in Reason},
    ),
)
