"""Processes that really die while they dump, several in one folder, and what is left of their groups."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

from reasoning_env.dumps import read_groups, recover_file

from .groups import REPOSITORY, indices

KILLED = """
import itertools, os, pathlib, random, signal, sys, threading, time
from reasoning_env.dumps import RolloutDumper
from tests.dumps.groups import make_group

def dump(first, told):
    room = threading.BoundedSemaphore(32)
    writer = RolloutDumper(pathlib.Path(sys.argv[1]), "run", dump_passed=True, dump_failed=True, score_threshold=0.7)
    writer.start()

    def tell(index):
        os.write(1, b"%d\\n" % index)
        if index == first:
            os.write(told, b".")
        room.release()

    for index in itertools.count(first):
        room.acquire()
        writer.offer(make_group((float(index % 3 == 0),), index, text="x" * 300_000))
        writer.settled().add_done_callback(lambda _, index=index: tell(index))

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


def test_every_group_that_was_told_is_in_the_dumps_once_after_24_kills(dumps: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(dumps)]
    children = subprocess.run(command, cwd=REPOSITORY, check=True, stdout=subprocess.PIPE)
    told = {int(line) for line in children.stdout.split()}
    assert len(told) >= 12  # every second child was let live until it had told of one
    dumped = Counter(indices(read_groups(dumps)))
    assert told - set(dumped) == set()
    assert set(dumped.values()) == {1}
    for path in dumps.iterdir():
        recover_file(path)
        assert path.read_bytes().endswith(b"\n") or path.stat().st_size == 0
    assert Counter(indices(read_groups(dumps))) == dumped
