"""Environments that share a folder of dumps and are killed at random moments: what was delivered is in the dumps."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from reasoning_env.dumps import read_groups
from testing import Delivery, Line, Process, Processes, wait_until
from testing.trainer import key_of_messages

from .outages import quiet_line, scored
from .processes import start_script

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

LANES = 4
LIVES = 3
"""Of each lane: 12 kills in all, with others alive in the same folder at most of them."""
MOST_S = 3.0
LATENCY_S = 0.1
DUMP_NAME = re.compile(r"reasoning_gym_environment_(FAILED_)?rollouts_[0-9a-f-]{36}_\d{4}\.jsonl")


@dataclass(frozen=True)
class Aftermath:
    """What run-api took, how often each group lies in the dumps after the last kill, and the files after `recover`."""

    delivered: tuple[Delivery, ...]
    dumped: Counter[str]
    files: Mapping[str, bytes]
    recovery: str
    status: int


def live_and_die(line: Line, lane: int, dumps: Path) -> None:
    """One life after the other, each ended by SIGKILL at some moment after its first groups."""
    chance = random.Random(lane)
    for life in range(LIVES):
        environment = start(line, f"lane-{lane}-life-{life}", dumps)
        wait_until(lambda environment=environment: scored(environment), 90, "the first group")
        time.sleep(chance.uniform(0, MOST_S))
        environment.end(signal.SIGKILL)


def start(line: Line, name: str, dumps: Path) -> Process:
    return line.start_environment(
        name,
        dump_rollouts=True,
        dump_failed_rollouts=True,
        rollout_save_score_threshold=0.0,
        data_dumps_dir=dumps,
    )


def recover(processes: Processes, dumps: Path) -> tuple[int, str]:
    """Run `recover` as if a minute had passed."""
    for path in dumps.iterdir():
        os.utime(path, (time.time() - 120,) * 2)
    process = start_script(processes, "recover", "recover", dumps)
    return process.end(), process.stdout


@pytest.fixture(scope="module")
def aftermath(tmp_path_factory: pytest.TempPathFactory) -> Aftermath:
    folder = tmp_path_factory.mktemp("line")
    dumps = folder / "dumps"
    with quiet_line(folder, LATENCY_S) as line:
        line.start_trainer()
        with ThreadPoolExecutor(LANES) as lanes:
            for ended in [lanes.submit(live_and_die, line, lane, dumps) for lane in range(LANES)]:
                ended.result()
        keys = (key_of_messages(one.conversation for one in group.rollouts) for group in read_groups(dumps))
        dumped = Counter(keys)
        status, recovery = recover(line.processes, dumps)
        delivered = tuple(line.proxy.delivered)
    files = {path.name: path.read_bytes() for path in dumps.iterdir()}
    return Aftermath(delivered, dumped, files, recovery, status)


def test_every_group_that_was_delivered_is_in_the_dumps(aftermath: Aftermath) -> None:
    print(f"{len(aftermath.delivered)} groups delivered, {aftermath.dumped.total()} dumped")
    assert len(aftermath.delivered) > LANES * LIVES
    assert {one.key for one in aftermath.delivered} <= aftermath.dumped.keys()


def test_no_group_is_in_the_dumps_or_delivered_twice(aftermath: Aftermath) -> None:
    assert max(aftermath.dumped.values()) == 1
    assert len({one.key for one in aftermath.delivered}) == len(aftermath.delivered)


def test_recover_leaves_whole_lines_in_files_of_each_run(aftermath: Aftermath) -> None:
    print(aftermath.recovery)
    assert aftermath.status == 0
    assert len(aftermath.files) >= LANES * LIVES
    assert all(DUMP_NAME.fullmatch(name) for name in aftermath.files), aftermath.files.keys()
    assert all(content.endswith(b"}\n") or not content for content in aftermath.files.values())
