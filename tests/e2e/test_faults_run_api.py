"""run-api that is not there, dies, hangs, forgets everything, breaks connections or answers with errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from testing import Line, cut_reply, refuse, respond
from testing.run_api import sends

from .outages import (
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
HANG_S = 12.0
SHORT_S = 4.0


@dataclass(frozen=True)
class Seen:
    """What happened to a line: its outages by name, how often the environment registered by their ends, its groups."""

    outages: Mapping[str, Outage]
    registrations: Mapping[str, int]
    account: Account


def start_run_api(line: Line) -> None:
    line.run_api.start()
    line.proxy.recover()


def kill_run_api(line: Line) -> None:
    line.proxy.fail(refuse)
    line.run_api.kill()


def gone(folder: Path) -> Seen:
    """run-api comes after the environment, and is dead for a while later."""
    with quiet_line(folder, LATENCY_S, start_run_api=False) as line:
        line.proxy.fail(refuse)
        environment = line.start_environment("environment")
        line.start_trainer()
        start, kill = partial(start_run_api, line), partial(kill_run_api, line)
        missing = partial(wait_for_words, environment, "waiting for run-api")
        at_start = ride_out(line, environment, missing, start, SHORT_S)
        wait_for_groups(line, count=10)
        later = ride_out(line, environment, kill, start, LONG_S)
        outages = {"missing at the start": at_start, "killed and started again": later}
        return Seen(outages, {"killed and started again": len(line.proxy.registered)}, settle(line, environment))


def forgetful(folder: Path) -> Seen:
    """run-api hangs, and forgets everything later."""
    with quiet_line(folder, LATENCY_S) as line:
        line.start_trainer()
        environment = line.start_environment("environment")
        wait_for_groups(line, count=10)
        hanging = ride_out(line, environment, line.run_api.pause, line.run_api.go_on, HANG_S)
        time.sleep(1)
        registrations = {"hanging": len(line.proxy.registered)}
        emptied = ride_out(line, environment, line.run_api.reset_data)
        outages = {"hanging": hanging, "emptied": emptied}
        return Seen(outages, registrations | {"emptied": len(line.proxy.registered)}, settle(line, environment))


def broken(folder: Path) -> Seen:
    """Connections break after run-api has taken what was sent, and it answers with errors."""
    with quiet_line(folder, LATENCY_S) as line:
        line.start_trainer()
        environment = line.start_environment("environment")
        wait_for_groups(line, count=10)
        proxy = line.proxy
        faults = {
            "replies to groups cut": partial(proxy.fail, cut_reply, only=sends),
            "all replies cut": partial(proxy.fail, cut_reply),
            "errors for groups": partial(proxy.fail, respond(500), only=sends),
            "errors for everything": partial(proxy.fail, respond(500)),
        }
        outages, registrations = {}, {}
        for name, fault in faults.items():
            outages[name] = ride_out(line, environment, fault, proxy.recover, SHORT_S)
            time.sleep(1)
            registrations[name] = len(line.proxy.registered)
        return Seen(outages, registrations, settle(line, environment))


SCENARIOS: Mapping[str, Callable[[Path], Seen]] = {"gone": gone, "forgetful": forgetful, "broken": broken}
BROKEN = ("replies to groups cut", "all replies cut", "errors for groups", "errors for everything")
OUTAGES = [
    ("gone", "missing at the start"),
    ("gone", "killed and started again"),
    ("forgetful", "hanging"),
    ("forgetful", "emptied"),
    *(("broken", name) for name in BROKEN),
]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Future[Seen]]]:
    started = {name: partial(work, tmp_path_factory.mktemp("line")) for name, work in SCENARIOS.items()}
    with all_at_once(started) as futures:
        yield futures


each_outage = pytest.mark.parametrize(("scenario", "fault"), OUTAGES)


@pytest.mark.parametrize(("scenario", "fault"), OUTAGES[1:])  # the lines of the first are those of a start as well
def test_a_fault_costs_a_handful_of_lines(seen: Mapping[str, Future[Seen]], scenario: str, fault: str) -> None:
    check_words(seen[scenario].result().outages[fault])


@pytest.mark.parametrize("fault", ["missing at the start", "killed and started again"])
def test_one_warning_says_that_run_api_is_waited_for(seen: Mapping[str, Future[Seen]], fault: str) -> None:
    outage = seen["gone"].result().outages[fault]
    warnings = [line.text for line in outage.lines if line.level == "WARNING" and "waiting for run-api" in line.text]
    assert len(warnings) == 1, outage.text


@pytest.mark.parametrize(("scenario", "fault"), [("gone", "killed and started again"), ("forgetful", "emptied")])
def test_it_registers_again_where_it_is_not_known_any_more(
    seen: Mapping[str, Future[Seen]], scenario: str, fault: str
) -> None:
    # A third time where it was back before the trainer, which then empties the list of environments.
    assert seen[scenario].result().registrations[fault] in (2, 3)


def test_it_does_not_register_again_where_it_is_known(seen: Mapping[str, Future[Seen]]) -> None:
    assert seen["forgetful"].result().registrations["hanging"] == 1


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_group_arrives_in_order(seen: Mapping[str, Future[Seen]], scenario: str) -> None:
    check_account(seen[scenario].result().account, broken_connections=scenario == "broken")
