from __future__ import annotations

import logging

import pytest

from reasoning_env.outage_log import NOTABLE_S, REPEAT_S, OutageLog


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def outage(clock: Clock, caplog: pytest.LogCaptureFixture) -> OutageLog:
    caplog.set_level(logging.INFO)
    return OutageLog(logging.getLogger("reasoning_env.test"), clock)


def levels(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.levelname for record in caplog.records]


def test_an_outage_is_said_once_and_so_is_its_end(
    outage: OutageLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(100):
        outage.note("the disk is full")
        clock.now += 0.1
    assert outage.lasting_s == pytest.approx(10.0)
    outage.over("there is space again")
    assert outage.lasting_s == 0.0
    assert levels(caplog) == ["WARNING", "INFO"]


def test_an_outage_that_lasts_is_said_again_each_minute(
    outage: OutageLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(25):
        outage.note("the disk is full")
        clock.now += REPEAT_S / 10
    assert levels(caplog) == ["WARNING"] * 3


def test_the_end_of_no_outage_is_not_said(outage: OutageLog, caplog: pytest.LogCaptureFixture) -> None:
    outage.over("there is space again")
    assert levels(caplog) == []


def test_outages_that_come_and_go_are_said_once_a_minute(
    outage: OutageLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(100):
        outage.note("the disk is full")
        outage.over("there is space again")
        clock.now += REPEAT_S / 90
    assert levels(caplog) == ["WARNING", "INFO"] * 2


def test_a_second_outage_is_said_when_it_lasts(
    outage: OutageLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    outage.note("the disk is full")
    outage.over("there is space again")
    outage.note("the disk is full")
    clock.now += NOTABLE_S
    outage.note("the disk is full")
    outage.over("there is space again")
    assert levels(caplog) == ["WARNING", "INFO"] * 2
