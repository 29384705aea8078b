"""Processes that are killed while they dump, several in one folder, and the groups that their files keep."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

from reasoning_env.dumps import stream_groups

from .groups import REPOSITORY, indices

KILLED = """
import itertools, os, pathlib, random, signal, sys, time
from reasoning_env.dumps import RolloutDumper
from tests.dumps.groups import make_group

def dump(first, tell):
    uuid = f"{first}"
    writer = RolloutDumper(pathlib.Path(sys.argv[1]), uuid, dump_passed=True, dump_failed=True, score_threshold=0.7)
    writer.start()
    told = 0
    for index in itertools.count(first):
        writer.offer(make_group((float(index % 3 == 0),), index, text="x" * 300_000))
        while writer.stats().waiting > 8:
            time.sleep(0.0005)
        stats = writer.stats()
        written = stats.passed_groups + stats.failed_groups
        # Written in the order in which they were offered.
        os.write(1, b"".join(b"%d\\n" % (first + number) for number in range(told, written)))
        if written and not told:
            os.write(tell, b".")
        told = written

def kill(lane):
    moments = random.Random(lane)
    for turn in range(6):
        told, tell = os.pipe()
        if not (pid := os.fork()):
            dump((6 * lane + turn) * 1_000_000, tell)
        if turn % 2:
            os.read(told, 1)
        time.sleep(moments.uniform(0.0, 0.08))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(told)
        os.close(tell)

# Forked before any thread is started, because a new interpreter for each would take most of the time.
lanes = []
for lane in range(4):
    if not (pid := os.fork()):
        kill(lane)
        os._exit(0)
    lanes.append(pid)
assert [os.waitpid(pid, 0)[1] for pid in lanes] == [0] * 4
"""


def test_written_groups_survive_kills(dumps: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(dumps)]
    children = subprocess.run(command, cwd=REPOSITORY, check=True, stdout=subprocess.PIPE)
    told = {int(line) for line in children.stdout.split()}
    assert len(told) >= 12  # every second child lived until its first group was written
    dumped = Counter(indices(stream_groups(dumps)))  # raises at a torn line that is not the last
    assert told - set(dumped) == set()
    assert set(dumped.values()) == {1}
