"""Processes that really die while they dump, several in one folder, and what is left of their groups."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

from reasoning_env.rollouts import Outcome, read_groups, recover_folder

from .groups import REPOSITORY, indices, names

PREAMBLE = """
import itertools, os, pathlib, random, signal, sys, threading, time
from reasoning_env.rollouts import RolloutDumper
from tests.rollouts.groups import failed, make_group, passed

def dumper(subfolder=""):
    folder = pathlib.Path(sys.argv[1], subfolder)
    return RolloutDumper(folder, "run", dump_passed=True, dump_failed=True, score_threshold=0.7)

def in_children(count, work):
    # Forked before any thread is started, because a new interpreter for each would take most of the time.
    pids = []
    for number in range(count):
        if not (pid := os.fork()):
            work(number)
            os._exit(0)
        pids.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * count
"""

KILLED = """
def dump(first, told):
    room = threading.BoundedSemaphore(32)
    writer = dumper()

    def tell(index):
        os.write(1, b"%d\\n" % index)
        if index == first:
            os.write(told, b".")
        room.release()

    for index in itertools.count(first):
        room.acquire()
        future = writer.offer((failed if index % 3 else passed)(index))
        future.add_done_callback(lambda _, index=index: tell(index))

def kill(lane):
    moments = random.Random(lane)
    for turn in range(10):
        told, tell = os.pipe()
        if not (pid := os.fork()):
            dump((10 * lane + turn) * 1_000_000, tell)
        if turn % 2:
            os.read(told, 1)
        time.sleep(moments.uniform(0.0, 0.08))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(told)
        os.close(tell)

in_children(4, kill)
"""

ENDED_IN_ORDER = """
def write(number):
    writer = dumper()
    for index in range(400):
        writer.offer(passed(400 * number + index))
        time.sleep(0.0005)
    writer.close()

in_children(3, write)
"""

FROZEN = """
def freeze(number):
    writer = dumper(str(number))  # one for each, because the next would cut a torn line off

    def offer(index):
        return writer.offer(make_group((1.0,), index, text="x" * 3_000_000))

    def go_on():
        for index in itertools.count(1):
            offer(index).result()

    offer(0).result()
    threading.Thread(target=go_on, daemon=True).start()
    time.sleep(random.Random(number).uniform(0.0, 0.1))
    writer.freeze()

for number in range(12):
    in_children(1, lambda _: freeze(number))
"""


def _command(script: str, folder: Path) -> list[str]:
    return [sys.executable, "-c", PREAMBLE + script, str(folder)]


def test_every_group_that_was_told_is_in_the_dumps_once_after_40_kills(dumps: Path) -> None:
    children = subprocess.run(_command(KILLED, dumps), cwd=REPOSITORY, timeout=60, check=True, stdout=subprocess.PIPE)
    told = {int(line) for line in children.stdout.split()}
    assert len(told) >= 20  # every second child was let live until it had told of one
    reports = recover_folder(dumps)
    assert {report.outcome for report in reports} <= {Outcome.COMPLETED, Outcome.DELETED}
    dumped = Counter(indices(read_groups(dumps)))
    assert told - set(dumped) == set()
    assert set(dumped.values()) == {1}
    assert all(name.endswith(".jsonl") for name in names(dumps))
    assert all(path.read_bytes().endswith(b"\n") for path in dumps.iterdir())


def test_recovery_beside_living_writers_takes_and_doubles_nothing(dumps: Path) -> None:
    with subprocess.Popen(_command(ENDED_IN_ORDER, dumps), cwd=REPOSITORY) as writers:
        found = []
        while writers.poll() is None:
            if dumps.exists():
                found += recover_folder(dumps)
    assert writers.returncode == 0
    # One that was just created may be seen before its writer has locked it, and no line is in it yet.
    assert {report.outcome for report in found} - {Outcome.DELETED} == {Outcome.IN_USE}
    assert sorted(index or 0 for index in indices(read_groups(dumps))) == list(range(1200))
    assert all(name.endswith(".jsonl") for name in names(dumps))


def test_process_that_ends_after_a_freeze_leaves_no_torn_line(dumps: Path) -> None:
    subprocess.run(_command(FROZEN, dumps), cwd=REPOSITORY, timeout=60, check=True)
    left = [path for path in dumps.rglob("*") if path.is_file()]
    assert len(left) == 12
    for path in left:
        groups = indices(read_groups(path))
        assert groups == list(range(len(groups)))
