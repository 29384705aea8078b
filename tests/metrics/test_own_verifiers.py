"""Log warnings about verifiers of users that raise errors."""

from __future__ import annotations

import pytest

from reasoning_env.metrics.own_verifiers import OwnVerdicts
from reasoning_env.records import Reason, Verdict

RAISED = Verdict(0.0, Reason.VERIFIER_ERROR, error="KeyError: 'x'")
SCORED = Verdict(1.0, Reason.SCORED)


def test_error_of_a_verifier_is_logged_at_most_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    verdicts = OwnVerdicts(clock=lambda: now)
    verdicts.note("the verifier", [RAISED] * 3)
    now = 59.0
    verdicts.note("the verifier", [RAISED, SCORED])
    verdicts.note("the verifier", [RAISED] * 3)
    now = 61.0
    verdicts.note("the verifier", [RAISED] * 2)
    assert [record.getMessage().rpartition("; ")[2] for record in caplog.records] == [
        "so far, it raised an error for 100 % of 3 completions",
        "so far, it raised an error for 90 % of 10 completions",
    ]


def test_verifier_timeouts_are_not_logged_as_errors(caplog: pytest.LogCaptureFixture) -> None:
    verdicts = OwnVerdicts()
    verdicts.note("the verifier", [Verdict(0.0, Reason.TIMEOUT)] * 200)
    verdicts.check()
    assert not caplog.records
