"""Children end when they should, and show why when they should not have."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from demo.processes import Child, ChildError, Children

SLEEPER = "import os, time; print('ready', os.getpid(), flush=True); time.sleep(60)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPER}"
PARENT_OF_STUBBORN = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {STUBBORN!r}]).wait()"
FOREIGN_STARTER = f"""
import sys, time
from pathlib import Path
from demo.processes import Children
child = Children(Path(sys.argv[1]), {{}}).start("sleeper", [sys.executable, "-c", {SLEEPER!r}])
while "ready" not in child.log_end():
    time.sleep(0.02)
print("started", flush=True)
time.sleep(60)
"""


@pytest.fixture
def children(tmp_path: Path) -> Iterator[Children]:
    with Children(tmp_path, {"COLOUR": "blue"}) as started:
        yield started


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


async def start_ready(children: Children, code: str, grace_s: float = 5) -> Child:
    child = children.start("the child", python(code), grace_s=grace_s)
    await children.wait_for_line(child, r"ready (\d+)\n", timeout_s=10)
    return child


async def test_a_child_that_dies_is_reported_with_its_last_lines(children: Children) -> None:
    children.start("the child", python("import sys; print('first\\nsecond'); sys.exit(3)"))
    with pytest.raises(ChildError) as caught:
        await children.watch()
    message = str(caught.value)
    assert message.startswith("the child ended by itself with exit status 3. Its log, ")
    assert message.endswith("\n  | first\n  | second")


async def test_a_death_while_waiting_for_a_line_is_reported(children: Children) -> None:
    child = children.start("the child", ["/no/such/program"])
    with pytest.raises(ChildError, match="No such file or directory"):
        await children.wait_for_line(child, "ready", timeout_s=10)


async def test_a_line_that_does_not_come_is_reported(children: Children) -> None:
    child = await start_ready(children, SLEEPER)
    with pytest.raises(ChildError, match="was not ready within 0 s"):
        await children.wait_for_line(child, "never", timeout_s=0.2)


async def test_a_child_killed_by_a_signal_is_reported(children: Children) -> None:
    children.start("the child", python("import os, signal; os.kill(os.getpid(), signal.SIGKILL)"))
    with pytest.raises(ChildError, match="exit status 137"):
        await children.watch()


async def test_a_child_gets_its_environment_and_its_folder(children: Children, tmp_path: Path) -> None:
    code = "import os; print('ready', os.environ['COLOUR'], os.environ['SIZE'], os.getcwd(), flush=True)"
    child = children.start("the child", python(code), {"SIZE": "big"})
    match = await children.wait_for_line(child, r"ready (.*)\n", timeout_s=10)
    assert match[1] == f"blue big {tmp_path}"


async def test_a_polite_child_ends_at_once(children: Children, process_table: Any) -> None:
    child = await start_ready(children, SLEEPER)
    everything = process_table.descendants(os.getpid())
    start = time.monotonic()
    children.stop(child)
    assert time.monotonic() - start < 2
    assert not process_table.survivors(everything, timeout_s=0)
    children.check()


@pytest.mark.parametrize("code", [STUBBORN, PARENT_OF_STUBBORN])
async def test_a_stubborn_child_or_grandchild_is_killed(code: str, children: Children, process_table: Any) -> None:
    child = await start_ready(children, code, grace_s=0.3)
    everything = process_table.descendants(os.getpid())
    children.stop(child)
    assert not process_table.survivors(everything, timeout_s=0.5)


async def test_an_error_leaves_no_child_behind(tmp_path: Path, process_table: Any) -> None:
    everything = []

    async def fail() -> None:
        with Children(tmp_path, {}) as children:
            await start_ready(children, SLEEPER)
            everything.extend(process_table.descendants(os.getpid()))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail()
    assert everything
    assert not process_table.survivors(everything, timeout_s=0)


async def test_children_are_out_of_reach_of_the_terminal(children: Children) -> None:
    child = await start_ready(children, SLEEPER)
    assert os.getsid(child.process.pid) == child.process.pid != os.getsid(0)


async def test_a_signal_to_the_tether_reaches_the_child(children: Children, process_table: Any) -> None:
    child = await start_ready(children, SLEEPER)
    everything = process_table.descendants(os.getpid())
    child.process.terminate()
    assert child.process.wait(timeout=5) == 128 + signal.SIGTERM
    assert not process_table.survivors(everything, timeout_s=0)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_children_end_with_the_process_that_started_them(
    number: signal.Signals, tmp_path: Path, process_table: Any
) -> None:
    command = [sys.executable, "-c", FOREIGN_STARTER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == "started\n"
        everything = process_table.descendants(starter.pid)
        assert len(everything) == 2
        starter.send_signal(number)
        starter.wait()
    assert not process_table.survivors(everything, timeout_s=5)
