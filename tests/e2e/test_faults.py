"""Groups arrive once and in order despite faults of servers, trainer, workers and run-api."""

from __future__ import annotations

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
from reasoning_gym_testing import FaultyServer, LocalTraining, Process, cut, generations, refuse, respond
from reasoning_gym_testing.http_server import Fault, Picks, every_request
from reasoning_gym_testing.process_table import descendants
from tests.waiting import wait_until
from tests.workers.support import kill

from .processes import needs_proc
from .training_runs import all_at_once, handed_out, make_training, scored, wait_for_groups

pytestmark = [pytest.mark.slow, needs_proc]

AT_ONCE = 4
"""Number of concurrent completion requests."""
MEANWHILE = 30
"""More groups than can be in flight. This many arrive only if the run continues during a fault."""
STEADILY = 5
"""Number of groups that must arrive after a fault. The first ones may have been in flight when the fault began."""
AWAY_S = 4.0
SETTLE_S = 1.0
"""Time after which all scored groups have arrived."""
HOUR_S = 3600


def meet(server: FaultyServer, fault: Fault, only: Picks = every_request, times: int = 3) -> None:
    """Make this many requests fail with a fault."""
    met = []

    def picks(request: web.Request, body: bytes) -> bool:
        picked = only(request, body)
        met.extend([1] * picked)
        return picked

    server.fail(fault, picks)
    wait_until(lambda: len(met) >= times, "the requests that a fault should meet")
    server.recover()


def go_on(training: LocalTraining, count: int = STEADILY) -> None:
    """Wait until this many further groups have arrived."""
    wait_for_groups(training, count=count, since=time.monotonic())


def inference_servers(training: LocalTraining) -> Process:
    """Both servers are down at the start. Later one server fails in several ways, then both."""
    training.start_trainer()
    one, other = training.servers[0], training.add_server(ScriptedPolicy(skill=0.6, seed=2), 0.2)
    other.fail(refuse)
    environment = training.start_environment("environment", server_type="openai")
    meet(one, cut)
    go_on(training, MEANWHILE)
    for fault in (respond(500), respond(200, {"text": 7, "choices": "garbage"})):
        meet(one, fault, only=generations, times=2 * AT_ONCE)
        go_on(training)
    other.recover()
    one.fail(refuse)
    go_on(training, MEANWHILE)
    one.recover()
    return environment


def clock_trainer_and_workers(training: LocalTraining) -> Process:
    """The clock is set back, the trainer pauses, and every worker is killed."""
    folder, trainer = training.processes.folder, training.start_trainer()
    (folder / "sitecustomize.py").write_text(SHIFTED_CLOCK)
    shift = folder / "shift"
    shift.write_text("0")
    settings = {"max_batches_offpolicy": 2, "worker_timeout": 60}
    variables = {"PYTHONPATH": str(folder), "SHIFT_FILE": str(shift)}
    environment = training.start_environment("environment", variables=variables, **settings)
    go_on(training)
    for seconds in (-HOUR_S, 0):
        beside = shift.with_suffix(".part")
        beside.write_text(str(seconds))
        beside.replace(shift)
        go_on(training, MEANWHILE)
    trainer.pause()
    time.sleep(AWAY_S)
    trainer.go_on()
    go_on(training)
    [fork_server] = [process for process in descendants(environment.pid) if descendants(process)]
    for process in (*descendants(fork_server), fork_server):
        kill([process])
        go_on(training)
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
"""Source of a `sitecustomize` module that shifts Python's `time` of one process."""


def run_api(training: LocalTraining) -> Process:
    """run-api starts after the environment, is killed and restarted, hangs, and loses its state."""
    training.run_api.kill()
    environment = training.start_environment("environment")
    meet(training.proxy, cut)
    training.run_api.start()
    training.start_trainer()
    go_on(training)
    training.servers[0].fail(refuse)  # a group whose connection breaks is sent again, so it may arrive twice
    time.sleep(SETTLE_S)
    training.proxy.fail(refuse)
    training.run_api.kill()
    training.servers[0].recover()
    time.sleep(AWAY_S)
    training.run_api.start()
    training.proxy.recover()
    go_on(training)
    training.run_api.pause()
    time.sleep(AWAY_S)
    training.run_api.go_on()
    go_on(training)
    training.run_api.reset_data()
    go_on(training)
    return environment


def play(scenario: Callable[[LocalTraining], Process], folder: Path) -> tuple[LocalTraining, Process]:
    """Run a scenario to its end, then stop its environment."""
    with make_training(folder) as training:
        environment = scenario(training)
        go_on(training)
        environment.end(signal.SIGTERM)
    return training, environment


SCENARIOS = {scenario.__name__: scenario for scenario in (inference_servers, clock_trainer_and_workers, run_api)}
Played = Mapping[str, Future[tuple[LocalTraining, Process]]]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    works = {name: partial(play, scenario, tmp_path_factory.mktemp("training")) for name, scenario in SCENARIOS.items()}
    with all_at_once(works) as futures:
        yield futures


@pytest.mark.parametrize("name", SCENARIOS)
def test_groups_arrive_once_and_in_order_despite_faults(played: Played, name: str) -> None:
    training, environment = played[name].result()
    assert environment.exit_status == 143
    groups = scored(environment)
    assert Counter(group.index for group in groups) == Counter({one["index"] for one in handed_out(environment)})
    arrived: dict[str, tuple[float, ...]] = {}
    for delivery in training.proxy.delivered:
        arrived.setdefault(delivery.key, delivery.scores)
    assert [group.kept for group in groups if group.kept is not None] == list(arrived.values())
    assert len(training.proxy.delivered) == len(arrived)
