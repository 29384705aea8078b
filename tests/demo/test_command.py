"""The demo as a user runs it: its own processes, real run-api, and nothing left behind however it ends."""

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

from testing.process_table import descendants, survivors
from tests.waiting import PATIENCE_S, wait_until

ROOT = Path(__file__).parents[2]
FRONT_DOOR = ROOT / "reasoning_gym_environment.py"
TASKS = "gcd,leg_counting,spell_backward,maze"
LAUNCHER_AND_THREE_PROCESSES = 7
"""Each of the three processes has a supervisor; what comes on top are the environment's workers."""
ALONE = """
import sys
from pathlib import Path
from demo.command import main
sys.exit(main(sys.argv[2:], environment_file=Path(sys.argv[1])))
"""
IDLE = "import time; time.sleep(600)"

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


class Demo:
    """A demo in a process of its own; with `code`, that is run in place of the environment."""

    def __init__(self, folder: Path, *options: str, code: str | None = None) -> None:
        self.dumps = folder / "dumps"
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        start = [str(FRONT_DOOR), "demo"]
        if code is not None:
            (folder / "environment.py").write_text(code)
            start = ["-c", ALONE, str(folder / "environment.py")]
        self.process = subprocess.Popen(
            [sys.executable, *start, "--dumps-dir", str(self.dumps), "--tasks", TASKS, *options],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(self.temporary)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def finish(self) -> tuple[int, str, str]:
        """Wait for the end and return the exit status, what was printed, and the errors."""
        out, err = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, out, err

    def wait_for_processes(self, more_than: int) -> set[int]:
        """Wait until more than so many run below it, and return them."""
        wait_until(lambda: len(descendants(self.process.pid)) > more_than, "the start of the processes")
        return descendants(self.process.pid)


StartDemo = Callable[..., Demo]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartDemo]:
    """Starts demos, and kills them at the end."""
    started: list[Demo] = []

    def start_one(*options: str, code: str | None = None) -> Demo:
        started.append(Demo(tmp_path, *options, code=code))
        return started[-1]

    yield start_one
    for demo in started:
        demo.process.kill()
        demo.process.communicate()


@pytest.mark.slow
def test_batches_reach_the_trainer(start: StartDemo) -> None:
    demo = start("--batches", "2")
    status, out, err = demo.finish()
    assert (status, re.findall(r"batch (\d)/2: 32 sequences in 4 groups", out)) == (0, ["1", "2"]), err
    assert "At maze it can only guess" in out
    assert "2 batches with 64 sequences reached the trainer, and every one passed its checks" in out
    files = re.findall(r"^  (/.*\.jsonl)  \(\d+ groups\)$", out, re.MULTILINE)
    page = demo.dumps / "report.html"
    assert f"{page}: " in out.splitlines()[-1]
    assert sorted([*files, str(page)]) == sorted(str(path) for path in demo.dumps.iterdir())
    shown = subprocess.run(re.findall(r"^In full: (.*)$", out, re.MULTILINE)[0], shell=True, capture_output=True)
    assert b'"item_id"' in shown.stdout
    assert list(demo.temporary.iterdir()) == []


@needs_proc
@pytest.mark.slow
def test_ctrl_c_on_a_terminal_leaves_no_process(tmp_path: Path) -> None:
    command = [sys.executable, str(FRONT_DOOR), "demo", "--dumps-dir", str(tmp_path), "--batches", "1000"]
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
    assert "ended by SIGINT; nothing is left running" in printed
    assert not survivors(everything, PATIENCE_S)
    assert list(tmp_path.glob("*.jsonl")) != []


def read_terminal(descriptor: int, until: str | None) -> str:
    """Return what comes from a terminal, without its control codes, up to a text or else to the end."""
    printed = ""
    while until is None or until not in printed:
        try:
            chunk = os.read(descriptor, 65536)
        except OSError:  # how Linux says that nobody is at the other end any more
            assert until is None, printed
            return printed
        printed += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", chunk.decode(errors="replace"))
    return printed


@needs_proc
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_while_servers_start_ends_everything(start: StartDemo, number: signal.Signals, status: int) -> None:
    demo = start(code=IDLE)
    everything = demo.wait_for_processes(more_than=0)
    demo.process.send_signal(number)
    assert demo.finish()[0] == status
    assert not survivors(everything, PATIENCE_S)
    assert list(demo.temporary.iterdir()) == []


def test_an_environment_that_fails_is_shown_with_its_last_lines(start: StartDemo) -> None:
    demo = start(code="import sys; print('line one', file=sys.stderr); raise SystemExit('cannot go on')")
    status, _, err = demo.finish()
    assert status == 1
    assert "demo: environment ended by itself with exit status 1. " in err
    assert err.endswith("  | line one\n  | cannot go on\n")
    (log_folder,) = demo.temporary.iterdir()
    assert f"{log_folder}/environment/stderr.log" in err
    assert "Traceback" not in err


def test_an_environment_that_does_nothing_runs_into_the_time_limit(start: StartDemo) -> None:
    status, _, err = start("--timeout-s", "1", code=IDLE).finish()
    assert status == 1
    assert "demo: not done after 1 s; the logs are in " in err


@needs_proc
def test_a_server_that_dies_is_named(start: StartDemo) -> None:
    demo = start(code=IDLE)
    everything = demo.wait_for_processes(more_than=LAUNCHER_AND_THREE_PROCESSES - 1)
    commands = {pid: Path(f"/proc/{pid}/cmdline").read_text() for pid in everything}
    (run_api,) = (pid for pid, command in commands.items() if "run_api" in command)
    os.kill(run_api, signal.SIGKILL)
    status, _, err = demo.finish()
    assert status == 1
    assert "demo: run-api-0 ended by itself with exit status 137. " in err


def test_a_dumps_folder_that_cannot_be_made_is_reported(start: StartDemo, tmp_path: Path) -> None:
    (tmp_path / "dumps").write_text("in the way")
    status, _, err = start(code=IDLE).finish()
    assert status == 1
    assert "demo: [Errno 17] File exists" in err
