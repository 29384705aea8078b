from __future__ import annotations

import logging

import pytest

from reasoning_env.outage_log import NOTABLE_S, REPEAT_S, OutageLog

logger = logging.getLogger("reasoning_env.test")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def trouble(clock: Clock, caplog: pytest.LogCaptureFixture) -> OutageLog:
    caplog.set_level(logging.INFO)
    return OutageLog(logger, clock)


def test_a_trouble_is_said_once_and_its_end_with_how_long_it_took(
    trouble: OutageLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(100):
        trouble.note("the disk is full")
        clock.now += 0.1
    assert trouble.lasting_s == pytest.approx(10.0)
    trouble.over("there is space again")
    assert trouble.lasting_s == 0.0
    assert caplog.messages == ["the disk is full", "there is space again after 10.0 s"]


def test_a_trouble_that_lasts_is_said_again_each_minute(
    trouble: OutageLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(25):
        trouble.note("the disk is full")
        clock.now += REPEAT_S / 10
    assert caplog.messages == [
        "the disk is full",
        "the disk is full (for 60 s now)",
        "the disk is full (for 120 s now)",
    ]


def test_the_end_of_no_trouble_is_not_said(trouble: OutageLog, caplog: pytest.LogCaptureFixture) -> None:
    trouble.over("there is space again")
    assert caplog.messages == []


def test_a_trouble_that_comes_and_goes_is_said_once_a_minute(
    trouble: OutageLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(100):
        trouble.note("the disk is full")
        trouble.over("there is space again")
        clock.now += REPEAT_S / 90
    assert len(caplog.messages) == 4


def test_a_second_trouble_is_said_when_it_lasts(
    trouble: OutageLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    trouble.note("the disk is full")
    trouble.over("there is space again")
    trouble.note("the disk is full")
    clock.now += NOTABLE_S
    trouble.note("the disk is full")
    trouble.over("there is space again")
    assert caplog.messages[2:] == ["the disk is full", "there is space again after 5.0 s"]
