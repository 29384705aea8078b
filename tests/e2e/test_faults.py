"""Faults of servers, trainer, workers and run-api: groups arrive once and in order."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path

import pytest
from aiohttp import web

from demo.policy import ScriptedPolicy
from reasoning_gym_testing import FaultyServer, Line, Process, cut, generations, refuse, respond
from reasoning_gym_testing.http_server import Fault, Picks, every_request
from reasoning_gym_testing.process_table import descendants
from tests.waiting import wait_until

from .lines import all_at_once, handed_out, make_line, scored, wait_for_groups
from .processes import needs_proc

pytestmark = [pytest.mark.slow, needs_proc]

AT_ONCE = 4
"""Requests for completions in flight at any time."""
MEANWHILE = 30
"""More groups than are in flight at any time: as many arrive only if work goes on during a fault."""
STEADILY = 5
"""Groups that must arrive after a fault; the first of them may have been in flight when the fault began."""
AWAY_S = 4.0
SETTLE_S = 1.0
"""By then all scored groups have arrived."""
HOUR_S = 3600


def meet(server: FaultyServer, fault: Fault, only: Picks = every_request, times: int = 3) -> None:
    """Let a fault hit `times` requests."""
    met = []

    def picks(request: web.Request, body: bytes) -> bool:
        picked = only(request, body)
        met.extend([1] * picked)
        return picked

    server.fail(fault, picks)
    wait_until(lambda: len(met) >= times, "the requests that a fault should meet")
    server.recover()


def go_on(line: Line, count: int = STEADILY) -> None:
    """Wait until `count` groups have arrived from now on."""
    wait_for_groups(line, count=count, since=time.monotonic())


def inference_servers(line: Line) -> Process:
    """Both servers are missing at the start; later one fails, then both, in several ways."""
    line.start_trainer()
    one, other = line.servers[0], line.add_server(ScriptedPolicy(skill=0.6, seed=2), 0.2)
    other.fail(refuse)
    environment = line.start_environment("environment", server_type="openai")
    meet(one, cut)
    go_on(line, MEANWHILE)
    for fault in (respond(500), respond(200, {"text": 7, "choices": "garbage"})):
        meet(one, fault, only=generations, times=2 * AT_ONCE)
        go_on(line)
    other.recover()
    one.fail(refuse)
    go_on(line, MEANWHILE)
    one.recover()
    return environment


def clock_trainer_and_workers(line: Line) -> Process:
    """The clock is set back, the trainer pauses, and each worker is killed."""
    folder, trainer = line.processes.folder, line.start_trainer()
    (folder / "sitecustomize.py").write_text(SHIFTED_CLOCK)
    shift = folder / "shift"
    shift.write_text("0")
    settings = {"max_batches_offpolicy": 2, "prefetch_problems": 4, "worker_timeout": 60}
    variables = {"PYTHONPATH": str(folder), "SHIFT_FILE": str(shift)}
    environment = line.start_environment("environment", variables=variables, **settings)
    go_on(line)
    for seconds in (-HOUR_S, 0):
        beside = shift.with_suffix(".part")
        beside.write_text(str(seconds))
        beside.replace(shift)
        go_on(line, MEANWHILE)
    trainer.pause()
    time.sleep(AWAY_S)
    trainer.go_on()
    go_on(line)
    [fork_server] = [process for process in descendants(environment.pid) if descendants(process)]
    for process in (*descendants(fork_server), fork_server):
        os.kill(process, signal.SIGKILL)
        go_on(line)
    return environment


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
"""Run as `sitecustomize`; shifts Python's `time` alone."""


def run_api(line: Line) -> Process:
    """run-api starts after the environment, dies and returns, hangs, and forgets everything."""
    line.run_api.kill()
    environment = line.start_environment("environment")
    meet(line.proxy, cut)
    line.run_api.start()
    line.start_trainer()
    go_on(line)
    line.servers[0].fail(refuse)  # a group whose connection breaks is sent again, and may arrive twice
    time.sleep(SETTLE_S)
    line.proxy.fail(refuse)
    line.run_api.kill()
    line.servers[0].recover()
    time.sleep(AWAY_S)
    line.run_api.start()
    line.proxy.recover()
    go_on(line)
    line.run_api.pause()
    time.sleep(AWAY_S)
    line.run_api.go_on()
    go_on(line)
    line.run_api.reset_data()
    go_on(line)
    return environment


def play(scenario: Callable[[Line], Process], folder: Path) -> tuple[Line, Process]:
    """Play a scenario to its end, then stop its environment."""
    with make_line(folder) as line:
        environment = scenario(line)
        go_on(line)
        environment.end(signal.SIGTERM)
    return line, environment


SCENARIOS = {scenario.__name__: scenario for scenario in (inference_servers, clock_trainer_and_workers, run_api)}
Played = Mapping[str, Future[tuple[Line, Process]]]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    works = {name: partial(play, scenario, tmp_path_factory.mktemp("line")) for name, scenario in SCENARIOS.items()}
    with all_at_once(works) as futures:
        yield futures


@pytest.mark.parametrize("name", SCENARIOS)
def test_groups_arrive_once_in_order(played: Played, name: str) -> None:
    line, environment = played[name].result()
    assert environment.exit_status == 143
    groups = scored(environment)
    assert Counter(group.index for group in groups) == Counter({one["index"] for one in handed_out(environment)})
    arrived: dict[str, tuple[float, ...]] = {}
    for delivery in line.proxy.delivered:
        arrived.setdefault(delivery.key, delivery.scores)
    assert [group.kept for group in groups if group.kept is not None] == list(arrived.values())
    assert len(line.proxy.delivered) == len(arrived)
