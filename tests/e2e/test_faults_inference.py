"""Inference servers that are not there, go away, are slow, or answer with errors or nonsense."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from demo.policy import ScriptedPolicy
from testing import generations, refuse, respond, slow
from testing.inference_server import FAULTS

from .outages import (
    MEANWHILE,
    Account,
    Outage,
    all_at_once,
    check_account,
    check_words,
    quiet_line,
    ride_out,
    settle,
    wait_for_groups,
    wait_for_words,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

LATENCY_S = 0.2
LONG_S = 12.0
SHORT_S = 4.0
SLOW_S = 3.0


@dataclass(frozen=True)
class Seen:
    """What happened to a line: its outages by name, and the account of its groups."""

    outages: Mapping[str, Outage]
    account: Account


def gone(folder: Path) -> Seen:
    """The only server is not there at the start, and away for a while later."""
    with quiet_line(folder, LATENCY_S) as line:
        down, up = partial(line.servers[0].fail, refuse), line.servers[0].recover
        down()
        line.start_trainer()
        environment = line.start_environment("environment")
        start = partial(wait_for_words, environment, "waiting for an inference server")
        at_start = ride_out(line, environment, start, up, SHORT_S)
        wait_for_groups(line, count=10)
        later = ride_out(line, environment, down, up, LONG_S, until_logged=True)
        return Seen({"missing at the start": at_start, "gone": later}, settle(line, environment))


def faulty(folder: Path) -> Seen:
    """The only server answers, and none of it is good."""
    with quiet_line(folder, LATENCY_S) as line:
        line.start_trainer()
        environment = line.start_environment("environment", server_type="openai")
        wait_for_groups(line, count=10)
        server = line.servers[0]
        faults = {
            "errors": partial(server.fail, respond(500)),
            "garbage": partial(server.fail, FAULTS["garbage"], only=generations),
            "slow": partial(server.fail, slow(SLOW_S), only=generations),
        }
        outages = {
            name: ride_out(line, environment, fail, server.recover, SHORT_S, until_logged=name != "slow")
            for name, fail in faults.items()
        }
        return Seen(outages, settle(line, environment))


def one_of_two(folder: Path, server_type: str) -> Seen:
    """One of two servers goes down, and later answers with errors; groups go on all the time."""
    with quiet_line(folder, LATENCY_S) as line:
        line.start_trainer()
        bad = line.servers[0]
        line.add_server(ScriptedPolicy(skill=0.6, seed=2), LATENCY_S)
        environment = line.start_environment("environment", server_type=server_type)
        wait_for_groups(line, count=10)
        faults = {"one down": partial(bad.fail, refuse), "one with errors": partial(bad.fail, respond(500))}
        outages = {
            name: ride_out(line, environment, fail, bad.recover, groups_meanwhile=MEANWHILE)
            for name, fail in faults.items()
        }
        return Seen(outages, settle(line, environment))


SCENARIOS: Mapping[str, Callable[[Path], Seen]] = {
    "gone": gone,
    "faulty": faulty,
    "two vllm": partial(one_of_two, server_type="vllm"),
    "two openai": partial(one_of_two, server_type="openai"),
}
ALL_AWAY = [("gone", "missing at the start"), ("gone", "gone"), *(("faulty", name) for name in ("errors", "garbage"))]
ONE_AWAY = [(pair, name) for pair in ("two vllm", "two openai") for name in ("one down", "one with errors")]
OUTAGES = [*ALL_AWAY, ("faulty", "slow"), *ONE_AWAY]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Future[Seen]]]:
    started = {name: partial(work, tmp_path_factory.mktemp("line")) for name, work in SCENARIOS.items()}
    with all_at_once(started) as futures:
        yield futures


each_outage = pytest.mark.parametrize(("scenario", "fault"), OUTAGES)
each_scenario = pytest.mark.parametrize("scenario", SCENARIOS)


@each_outage
def test_a_fault_costs_a_handful_of_lines(seen: Mapping[str, Future[Seen]], scenario: str, fault: str) -> None:
    if fault != "missing at the start":  # whose lines are those of a start as well
        check_words(seen[scenario].result().outages[fault])


@pytest.mark.parametrize(("scenario", "fault"), ALL_AWAY[1:])
def test_a_warning_says_when_completions_fail_and_a_line_when_they_arrive_again(
    seen: Mapping[str, Future[Seen]], scenario: str, fault: str
) -> None:
    levels = [line.level for line in seen[scenario].result().outages[fault].lines]
    # More than once where some that were asked for before the fault arrive after others have failed.
    assert levels
    assert levels == ["WARNING", "INFO"] * (len(levels) // 2)


@each_scenario
def test_no_group_is_lost_or_delivered_twice(seen: Mapping[str, Future[Seen]], scenario: str) -> None:
    check_account(seen[scenario].result().account)
