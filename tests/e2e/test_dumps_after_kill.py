"""Environments that share a folder of dumps and are killed at random moments: what was delivered is in the dumps."""

from __future__ import annotations

import json
import random
import re
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks._line import Delivery, Environment, Line, key_of_messages, line_under, wait_until

from .outages import QUIET, scored
from .processes import SCRIPT, Runs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

LANES = 4
LIVES = 5
"""Of each lane: 20 kills in all, with others alive in the same folder at most of them."""
MOST_S = 3.0
LATENCY_S = 0.1
DUMP_NAME = re.compile(r"reasoning_gym_environment_(FAILED_)?rollouts_[0-9a-f-]{36}_\d{4}\.jsonl")


@dataclass(frozen=True)
class Aftermath:
    """What run-api took, and what lies in the folder: after the last kill, and once it was recovered."""

    kills: int
    delivered: tuple[Delivery, ...]
    parts_before: int
    names: tuple[str, ...]
    lines: tuple[bytes, ...]
    recovery: str
    status: int

    @property
    def keys(self) -> Counter[str]:
        """How often each group lies in the dumps."""
        groups = (json.loads(line) for line in self.lines)
        return Counter(key_of_messages([each["conversation"] for each in group["rollouts"]]) for group in groups)


def live_and_die(line: Line, lane: int, dumps: Path) -> None:
    """One life after the other, each ended by SIGKILL at some moment after its first groups."""
    chance = random.Random(lane)
    for life in range(LIVES):
        environment = start(line, f"lane-{lane}-life-{life}", dumps)
        wait_until(lambda environment=environment: scored(environment), 90, "the first group")
        time.sleep(chance.uniform(0, MOST_S))
        environment.kill()


def start(line: Line, name: str, dumps: Path) -> Environment:
    return line.start_environment(
        name,
        dump_rollouts=True,
        dump_failed_rollouts=True,
        rollout_save_score_threshold=0.0,
        data_dumps_dir=dumps,
        **QUIET,
    )


def recover(runs: Runs, dumps: Path) -> tuple[int, str]:
    run = runs.start("recover", [sys.executable, SCRIPT, "recover", dumps])
    return run.end(), run.stdout


@pytest.fixture(scope="module")
def aftermath(tmp_path_factory: pytest.TempPathFactory) -> Aftermath:
    folder = tmp_path_factory.mktemp("line")
    dumps = folder / "dumps"
    with line_under(folder, latency_s=LATENCY_S) as line:
        line.start_trainer()
        with ThreadPoolExecutor(LANES) as lanes:
            for ended in [lanes.submit(live_and_die, line, lane, dumps) for lane in range(LANES)]:
                ended.result()
        parts = len(list(dumps.glob("*.part")))
        status, recovery = recover(line.runs, dumps)
        delivered = tuple(line.gateway.delivered)
    files = sorted(dumps.iterdir())
    return Aftermath(
        kills=LANES * LIVES,
        delivered=delivered,
        parts_before=parts,
        names=tuple(path.name for path in files),
        lines=tuple(line for path in files for line in path.read_bytes().splitlines(keepends=True)),
        recovery=recovery,
        status=status,
    )


def test_it_was_killed_with_open_files(aftermath: Aftermath) -> None:
    print(f"{aftermath.kills} kills, {len(aftermath.delivered)} groups delivered, {len(aftermath.lines)} dumped")
    assert aftermath.parts_before > 0
    assert len(aftermath.delivered) > aftermath.kills


def test_every_group_that_was_delivered_is_in_the_dumps(aftermath: Aftermath) -> None:
    assert {one.key for one in aftermath.delivered} <= aftermath.keys.keys()


def test_no_group_is_in_the_dumps_twice(aftermath: Aftermath) -> None:
    assert max(aftermath.keys.values()) == 1


def test_no_group_was_delivered_twice(aftermath: Aftermath) -> None:
    assert len({one.key for one in aftermath.delivered}) == len(aftermath.delivered)


def test_every_line_is_whole(aftermath: Aftermath) -> None:
    assert all(line.endswith(b"}\n") for line in aftermath.lines)


def test_every_file_has_its_final_name(aftermath: Aftermath) -> None:
    assert all(DUMP_NAME.fullmatch(name) for name in aftermath.names), aftermath.names


def test_recover_says_what_it_did(aftermath: Aftermath) -> None:
    print(aftermath.recovery)
    assert aftermath.status == 0
    assert aftermath.recovery.count("completed  ") + aftermath.recovery.count("deleted    ") == aftermath.parts_before
