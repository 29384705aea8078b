"""A trainer that takes nothing for a while, workers that die, and a system clock that is set back."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from testing import Process
from testing.process_table import descendants

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
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc"),
]

LATENCY_S = 0.2
SHORT_S = 4.0
HOUR_S = 3600
SHIFTED_CLOCK = '''
"""Moves the clock of this process by the seconds in the file that SHIFT_FILE names."""
import os, time

_time, _path = time.time, os.environ["SHIFT_FILE"]

def _shifted():
    with open(_path) as file:
        return _time() + float(file.read())

time.time = _shifted
time.time_ns = lambda: int(1e9 * _shifted())
'''
"""As `sitecustomize`. What reads the clock without Python's `time` is not moved."""


@dataclass(frozen=True)
class Seen:
    """What happened to a line: its outages by name, and the account of its groups."""

    outages: Mapping[str, Outage]
    account: Account


def idle_trainer(folder: Path) -> Seen:
    """The trainer takes no batch for a while."""
    with quiet_line(folder, LATENCY_S) as line:
        trainer = line.start_trainer()
        environment = line.start_environment("environment", max_batches_offpolicy=2)
        wait_for_groups(line, count=10)
        idle = ride_out(line, environment, trainer.pause, trainer.go_on, SHORT_S)
        return Seen({"idle trainer": idle}, settle(line, environment))


def workers_of(environment: Process) -> tuple[int, list[int]]:
    """The fork server, and the workers, which are its children."""
    below = descendants(environment.pid)
    [fork_server] = [process for process in below if descendants(process)]
    return fork_server, sorted(descendants(fork_server))


def dying_workers(folder: Path) -> Seen:
    """Every worker is killed, one after the other, and at last the process that they are forked from."""
    with quiet_line(folder, LATENCY_S) as line:
        line.start_trainer()
        environment = line.start_environment("environment", prefetch_problems=4)
        wait_for_groups(line, count=10)
        fork_server, workers = workers_of(environment)
        outages = {}
        for number, worker in enumerate(workers):
            kill = partial(os.kill, worker, signal.SIGKILL)
            outages[f"worker {number}"] = ride_out(line, environment, kill)
        kill = partial(os.kill, fork_server, signal.SIGKILL)
        outages["fork server"] = ride_out(line, environment, kill)
        return Seen(outages, settle(line, environment))


def clock_set_back(folder: Path) -> Seen:
    """The clock goes back by an hour, and forward to where it was; groups go on all the time."""
    (folder / "sitecustomize.py").write_text(SHIFTED_CLOCK)
    shift = folder / "shift"
    shift.write_text("0")

    def set_clock(seconds: int) -> None:
        beside = shift.with_suffix(".part")
        beside.write_text(str(seconds))
        beside.replace(shift)

    with quiet_line(folder, LATENCY_S) as line:
        line.start_trainer()
        variables = {"PYTHONPATH": str(folder), "SHIFT_FILE": str(shift)}
        environment = line.start_environment("environment", variables=variables, worker_timeout=60, debug_logging=True)
        wait_for_groups(line, count=10)
        outages = {
            "clock set back": ride_out(line, environment, partial(set_clock, -HOUR_S), groups_meanwhile=MEANWHILE),
            "clock set forward": ride_out(line, environment, partial(set_clock, 0), groups_meanwhile=MEANWHILE),
        }
        stamps = [text[:19] for text in environment.stderr.splitlines() if text.startswith("20")]
        assert stamps != sorted(stamps), "the clock was not set back"
        return Seen(outages, settle(line, environment))


SCENARIOS: Mapping[str, Callable[[Path], Seen]] = {
    "idle trainer": idle_trainer,
    "dying workers": dying_workers,
    "clock": clock_set_back,
}
OUTAGES = [
    ("idle trainer", "idle trainer"),
    *(("dying workers", f"worker {number}") for number in range(4)),
    ("dying workers", "fork server"),
    ("clock", "clock set back"),
    ("clock", "clock set forward"),
]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Future[Seen]]]:
    started = {name: partial(work, tmp_path_factory.mktemp("line")) for name, work in SCENARIOS.items()}
    with all_at_once(started) as futures:
        yield futures


each_outage = pytest.mark.parametrize(("scenario", "fault"), OUTAGES)


@each_outage
def test_a_fault_costs_a_handful_of_lines(seen: Mapping[str, Future[Seen]], scenario: str, fault: str) -> None:
    check_words(seen[scenario].result().outages[fault])


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_no_group_is_lost_or_delivered_twice(seen: Mapping[str, Future[Seen]], scenario: str) -> None:
    check_account(seen[scenario].result().account)
