"""Run the demo as users do, with real processes, and check that no process remains."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reasoning_gym_testing import Process, Processes
from reasoning_gym_testing.process_table import descendants, survivors
from tests.waiting import PATIENCE_S, wait_until

ROOT = Path(__file__).parents[2]
FRONT_DOOR = ROOT / "reasoning_gym_environment.py"
TASKS = "gcd,leg_counting,spell_backward,maze"
LAUNCHER_AND_THREE_PROCESSES = 7
"""The launcher, and three processes with a supervisor each. The environment's workers are not included."""
ALONE = """
import os, sys
sys.path.insert(0, os.getcwd())
from pathlib import Path
from argparse import ArgumentParser
from demo.command import main
sys.exit(main(sys.argv[2:], parser=ArgumentParser(), environment_file=Path(sys.argv[1]), check_names=str))
"""
IDLE = "import time; time.sleep(600)"

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


StartDemo = Callable[..., Process]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartDemo]:
    """Start a demo. `code` replaces the environment."""
    with Processes(tmp_path, isolated=True, grace_s=0.0) as processes:

        def start_one(*options: str, code: str | None = None) -> Process:
            environment, alone = tmp_path / "environment.py", tmp_path / "alone.py"
            environment.write_text(code or "")
            alone.write_text(ALONE)
            words = [FRONT_DOOR, "demo"] if code is None else [alone, environment]
            words += ["--dumps-dir", tmp_path / "dumps", "--tasks", TASKS, *options]
            return processes.start("demo", words, python=True, cwd=ROOT)

        yield start_one


def test_demo_command_starts_without_importing_the_environment() -> None:
    code = "import sys, demo.training; print(*{name.split('.')[0] for name in sys.modules})"
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    unwanted = {"reasoning_env", "reasoning_gym", "reasoning_gym_environment", "atroposlib", "transformers"}
    assert not unwanted & set(ended.stdout.split())


def wait_for_processes(demo: Process, more_than: int) -> set[int]:
    """Wait until the demo has more descendants than this number, and return their process ids."""
    wait_until(lambda: len(descendants(demo.pid)) > more_than, "the start of the processes")
    return descendants(demo.pid)


def temporary(demo: Process) -> list[Path]:
    return list((demo.folder / "tmp").iterdir())


@pytest.mark.slow
def test_demo_command_sends_batches_to_the_trainer(start: StartDemo, tmp_path: Path) -> None:
    demo = start("--batches", "2")
    status, out = demo.end(), demo.stdout
    assert (status, re.findall(r"batch (\d)/2: 32 sequences in 4 groups", out)) == (0, ["1", "2"]), demo.stderr
    assert "It can only guess the answers of maze." in out
    assert "The trainer received 2 valid batches with 64 sequences in total." in out
    files = re.findall(r"^  (/.*\.jsonl)  \(groups: \d+\)$", out, re.MULTILINE)
    page = tmp_path / "dumps" / "report.html"
    assert f"Wrote {page} with " in out.splitlines()[-1]
    assert sorted([*files, str(page)]) == sorted(map(str, page.parent.iterdir()))
    [command] = re.findall(r"^The whole group: (.*)$", out, re.MULTILINE)
    shown = subprocess.run(command, shell=True, capture_output=True)
    assert b'"item_id"' in shown.stdout
    assert temporary(demo) == []


@needs_proc
@pytest.mark.slow
def test_demo_command_leaves_no_process_after_ctrl_c(tmp_path: Path) -> None:
    command = [sys.executable, str(FRONT_DOOR), "demo", "--dumps-dir", str(tmp_path), "--batches", "1000"]
    command += ["--tasks", TASKS]
    ours, its = pty.openpty()
    with subprocess.Popen([*command, "--server-type", "openai"], stdout=its, stderr=its) as process:
        os.close(its)
        read_terminal(ours, until="1 of 1000 batches, 32 sequences")
        everything = descendants(process.pid)
        process.send_signal(signal.SIGINT)
        printed = read_terminal(ours, until=None)
    os.close(ours)
    assert len(everything) > LAUNCHER_AND_THREE_PROCESSES
    assert process.returncode == 130
    assert "SIGINT" in printed
    assert not survivors(everything, PATIENCE_S)
    assert list(tmp_path.glob("*.jsonl")) != []


def read_terminal(descriptor: int, until: str | None) -> str:
    """Return a terminal's output without control codes, up to the string `until` or to the end."""
    printed = ""
    while until is None or until not in printed:
        try:
            chunk = os.read(descriptor, 65536)
        except OSError:  # on Linux, reading raises once the other end is closed
            assert until is None, printed
            return printed
        printed += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", chunk.decode(errors="replace"))
    return printed


@needs_proc
def test_demo_command_leaves_no_process_after_a_signal_during_startup(start: StartDemo) -> None:
    demo = start(code=IDLE)
    everything = wait_for_processes(demo, more_than=0)
    assert demo.end(signal.SIGHUP) == 129
    assert not survivors(everything, PATIENCE_S)
    assert temporary(demo) == []


FAILS = "import sys; print('line one', file=sys.stderr); raise SystemExit('cannot go on')"


@pytest.mark.parametrize(
    ("code", "options", "error"),
    [
        (FAILS, [], r"environment .*/environment/stderr\.log .*\n  \| line one\n  \| cannot go on$"),
        (IDLE, ["--timeout-s", "1"], " 1 s.* /"),
        (IDLE, ["--dumps-dir", "/dev/null/dumps"], "Not a directory"),
    ],
)
def test_failed_demo_command_prints_no_traceback(start: StartDemo, code: str, options: list[str], error: str) -> None:
    demo = start(*options, code=code)
    assert demo.end() == 1
    assert re.match(f"(?s)demo: .*{error}", demo.stderr.strip())
    assert "Traceback" not in demo.stderr
    assert len(temporary(demo)) == 1, "the logs stay"
