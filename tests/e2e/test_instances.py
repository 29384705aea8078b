"""Several environments with the same config at one run-api: their problems differ, and they share the work evenly."""

from __future__ import annotations

import signal
from collections import Counter
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pytest

from testing import Line, Process, wait_until

from .outages import handed_out, quiet_line
from .policies import steady_policy

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

INSTANCES = 3
PROBLEMS = 1_000
"""Handed out by the first three together."""
AFTERWARDS = 100
"""Handed out after one has left and another has joined."""
SETTINGS = {
    "group_size": 2,
    "max_num_workers": 32,
    "num_generators": 1,
    "num_verifiers": 1,
    "tasks": "chain_sum,basic_arithmetic,products,count_bits",
    "include_messages": False,
}
BATCH_SIZE = 64


@dataclass(frozen=True)
class Seen:
    """What each environment handed out, and the groups that arrived of each while the first three were together."""

    handed_out: tuple[tuple[dict[str, Any], ...], ...]
    arrived: Counter[int]


def wait_for_problems(line: Line, count: int) -> None:
    """Wait until so many more problems have been answered, each of which was handed out before."""
    goal = line.servers[0].answered + count
    wait_until(lambda: line.servers[0].answered >= goal, 200, f"{count} problems")


def start(line: Line, number: int) -> Process:
    return line.start_environment(f"instance-{number}")


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    with quiet_line(tmp_path_factory.mktemp("line"), 0.1, steady_policy(0.5), **SETTINGS) as line:
        line.start_trainer(batch_size=BATCH_SIZE)
        environments = [start(line, number) for number in range(INSTANCES)]
        proxy = line.proxy
        wait_until(lambda: len({one.env_id for one in list(proxy.delivered)}) == INSTANCES, 90, "a group of each")
        before = len(proxy.delivered)
        wait_for_problems(line, PROBLEMS - line.servers[0].answered)
        arrived = Counter(delivery.env_id for delivery in proxy.delivered[before:])
        environments[0].end(signal.SIGTERM)
        environments.append(start(line, INSTANCES))
        wait_until(lambda: len(proxy.registered) > INSTANCES, 60, "the registration of another")
        wait_until(lambda: handed_out(environments[-1]), 60, "its first problem")
        wait_for_problems(line, AFTERWARDS)
        for environment in environments[1:]:
            environment.end(signal.SIGKILL)
        return Seen(tuple(tuple(handed_out(environment)) for environment in environments), arrived)


def test_no_problem_comes_twice(seen: Seen) -> None:
    problems = Counter((one["task"], one["seed"], str(one["params"])) for one in chain(*seen.handed_out))
    print(f"{problems.total()} problems of {len(seen.handed_out)} instances")
    assert problems.total() >= PROBLEMS + AFTERWARDS
    assert [problem for problem, times in problems.items() if times > 1] == []


def test_one_that_joins_later_hands_out_problems_too(seen: Seen) -> None:
    assert seen.handed_out[-1]


def test_each_of_three_delivers_a_third_of_the_groups(seen: Seen) -> None:
    shares = {env_id: count / seen.arrived.total() for env_id, count in seen.arrived.items()}
    print(shares)
    assert len(shares) == INSTANCES
    assert all(0.28 <= share <= 0.39 for share in shares.values())
