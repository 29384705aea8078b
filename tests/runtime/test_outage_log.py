from __future__ import annotations

import logging
from typing import Any

import pytest

from reasoning_env.runtime.retries import OutageLog

OUT, OVER = "the disk is full", "there is space again"


@pytest.mark.parametrize(
    ("events", "levels"),
    [
        ([OUT, 0.1] * 100 + [OVER], ["WARNING", "INFO"]),
        ([OUT, OutageLog.REPEAT_S / 10] * 25, ["WARNING"] * 3),
        ([OVER], []),
        ([OUT, OVER, OutageLog.REPEAT_S / 90] * 100, ["WARNING", "INFO"] * 2),
        ([OUT, OVER, OUT, OutageLog.NOTABLE_S, OUT, OVER], ["WARNING", "INFO"] * 2),
    ],
    ids=["start and end", "repeated while it lasts", "end without start", "flapping", "second outage"],
)
def test_outage_is_logged_regularly_from_its_start_to_its_end(
    events: list[Any], levels: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Numbers in `events` are elapsed seconds."""
    caplog.set_level(logging.INFO)
    now = 0.0
    outage = OutageLog(logging.getLogger("reasoning_env.test"), lambda: now)
    for event in events:
        if event == OUT:
            outage.note(OUT)
        elif event == OVER:
            outage.over(OVER)
        else:
            now += event
    assert [record.levelname for record in caplog.records] == levels


def test_outage_is_logged_only_once_if_reminders_are_off(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    outage = OutageLog(logging.getLogger("reasoning_env.test"), lambda: now, reminds=False)
    for _ in range(25):
        outage.note(OUT)
        now += OutageLog.REPEAT_S
    assert caplog.messages == [OUT]


def test_duration_of_an_outage_is_measured() -> None:
    now = 0.0
    outage = OutageLog(logging.getLogger("reasoning_env.test"), lambda: now)
    outage.note(OUT)
    now = 10.0
    outage.note(OUT)
    assert outage.duration_s == 10.0
    outage.over(OVER)
    assert outage.duration_s == 0.0
