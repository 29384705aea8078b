"""Several environments with the same config at one run-api: their problems differ, and they share the work evenly."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import chain

import pytest

from benchmarks._line import Environment, HandedOut, Line, line_under, wait_until

from .outages import QUIET

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

INSTANCES = 4
PROBLEMS = 10_000
"""Handed out by the first four together."""
AFTERWARDS = 500
"""Handed out after one has left and another has joined."""
SETTINGS = {
    **QUIET,
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
    """What each environment handed out, and the groups that arrived of each while the first four were together."""

    handed_out: tuple[tuple[HandedOut, ...], ...]
    arrived: Counter[int]


def wait_for_problems(line: Line, count: int) -> None:
    """Wait until so many more problems have been answered, each of which was handed out before."""
    goal = line.policy.generations + count
    wait_until(lambda: line.policy.generations >= goal, 200, f"{count} problems")


def start(line: Line, number: int) -> Environment:
    return line.start_environment(f"instance-{number}", **SETTINGS)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    with line_under(tmp_path_factory.mktemp("line"), steady=True, skill=0.5, latency_s=0.1) as line:
        line.start_trainer(batch_size=BATCH_SIZE)
        environments = [start(line, number) for number in range(INSTANCES)]
        gateway = line.gateway
        wait_until(lambda: len({one.env_id for one in list(gateway.delivered)}) == INSTANCES, 90, "a group of each")
        before = len(gateway.delivered)
        wait_for_problems(line, PROBLEMS - line.policy.generations)
        arrived = Counter(delivery.env_id for delivery in gateway.delivered[before:])
        environments[0].terminate()
        environments.append(start(line, INSTANCES))
        wait_until(lambda: len(gateway.registered) > INSTANCES, 60, "the registration of another")
        wait_until(lambda: environments[-1].handed_out(), 60, "its first problem")
        wait_for_problems(line, AFTERWARDS)
        for environment in environments[1:]:
            environment.kill()
        return Seen(tuple(tuple(environment.handed_out()) for environment in environments), arrived)


def test_no_problem_comes_twice(seen: Seen) -> None:
    problems = Counter((one.task, one.seed, one.params) for one in chain(*seen.handed_out))
    print(f"{problems.total()} problems of {len(seen.handed_out)} instances")
    assert problems.total() >= PROBLEMS + AFTERWARDS
    assert [problem for problem, times in problems.items() if times > 1] == []


def test_one_that_joins_later_hands_out_problems_too(seen: Seen) -> None:
    assert seen.handed_out[-1]


def test_each_of_four_delivers_a_quarter_of_the_groups(seen: Seen) -> None:
    shares = {env_id: count / seen.arrived.total() for env_id, count in seen.arrived.items()}
    print(shares)
    assert len(shares) == INSTANCES
    assert all(0.2 <= share <= 0.3 for share in shares.values())
