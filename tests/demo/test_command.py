"""The demo as a user runs it: its own processes, real run-api, and nothing left behind however it ends."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FRONT_DOOR = ROOT / "reasoning_gym_environment.py"
TASKS = "gcd,leg_counting,spell_backward,maze"
DEMO_AND_THREE_CHILDREN = 6
"""Each of the three servers has a tether; what comes on top are the environment's workers."""
ALONE = """
import sys
from pathlib import Path
from demo.command import main
sys.exit(main(sys.argv[2:], environment_file=Path(sys.argv[1])))
"""


class Demo:
    """A demo in a process of its own, which is killed at the end of the test."""

    def __init__(self, folder: Path, *options: str, environment_file: Path | None = None) -> None:
        self.dumps = folder / "dumps"
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        start = [str(FRONT_DOOR), "demo"] if environment_file is None else ["-c", ALONE, str(environment_file)]
        self.process = subprocess.Popen(
            [sys.executable, *start, "--dumps-dir", str(self.dumps), "--tasks", TASKS, *options],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(self.temporary)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def finish(self, timeout_s: float = 60) -> tuple[int, str, str]:
        """Wait for the end and return the exit status, what was printed, and the errors."""
        out, err = self.process.communicate(timeout=timeout_s)
        return self.process.returncode, out, err

    def read_until(self, text: str) -> None:
        """Read printed lines up to one that holds a text."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if text in line:
                return
        raise AssertionError(f"the demo ended without {text!r}: {self.finish()}")


@pytest.fixture
def demos() -> Iterator[list[Demo]]:
    started: list[Demo] = []
    yield started
    for demo in started:
        demo.process.kill()
        demo.process.communicate()


def start(demos: list[Demo], *arguments: Any, **keywords: Any) -> Demo:
    demos.append(Demo(*arguments, **keywords))
    return demos[-1]


@pytest.mark.slow
def test_batches_reach_the_trainer(demos: list[Demo], tmp_path: Path) -> None:
    status, out, err = start(demos, tmp_path, "--batches", "3").finish()
    assert (status, re.findall(r"batch (\d)/3: 32 sequences in 4 groups", out)) == (0, ["1", "2", "3"]), err
    assert "At maze it can only guess" in out
    assert "3 batches with 96 sequences reached the trainer, and every one passed its checks" in out
    files = re.findall(r"^  (/.*\.jsonl)  \(\d+ groups\)$", out, re.MULTILINE)
    assert files == sorted(str(path) for path in (tmp_path / "dumps").iterdir())
    shown = subprocess.run(re.findall(r"^In full: (.*)$", out, re.MULTILINE)[0], shell=True, capture_output=True)
    assert b'"item_id"' in shown.stdout
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.slow
def test_ctrl_c_on_a_terminal_leaves_no_process(tmp_path: Path, process_table: Any) -> None:
    command = [sys.executable, str(FRONT_DOOR), "demo", "--dumps-dir", str(tmp_path), "--batches", "1000"]
    ours, its = pty.openpty()
    with subprocess.Popen([*command, "--server-type", "openai"], stdout=its, stderr=its) as process:
        os.close(its)
        read_terminal(ours, until="2 of 1000 batches, 64 sequences")
        everything = process_table.descendants(process.pid)
        process.send_signal(signal.SIGINT)
        printed = read_terminal(ours, until=None)
    os.close(ours)
    assert len(everything) > DEMO_AND_THREE_CHILDREN
    assert process.returncode == 130
    assert "ended by SIGINT; nothing is left running" in printed
    assert not process_table.survivors(everything, timeout_s=0)
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


@pytest.mark.slow
def test_kill_9_leaves_no_process(demos: list[Demo], tmp_path: Path, process_table: Any) -> None:
    demo = start(demos, tmp_path)
    deadline = time.monotonic() + 30
    while len(everything := process_table.descendants(demo.process.pid)) <= DEMO_AND_THREE_CHILDREN:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    demo.process.kill()
    assert not process_table.survivors(everything, timeout_s=20)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_signal_while_servers_start_ends_everything(
    number: signal.Signals, status: int, demos: list[Demo], tmp_path: Path, process_table: Any
) -> None:
    demo = start(demos, tmp_path, environment_file=tmp_path / "unused.py")
    demo.read_until("Tasks:")
    time.sleep(0.1)
    everything = process_table.descendants(demo.process.pid)
    demo.process.send_signal(number)
    assert demo.finish(timeout_s=10)[0] == status
    assert everything
    assert not process_table.survivors(everything, timeout_s=2)


def environment(tmp_path: Path, code: str) -> Path:
    path = tmp_path / "environment.py"
    path.write_text(code)
    return path


def test_an_environment_that_fails_is_shown_with_its_last_lines(demos: list[Demo], tmp_path: Path) -> None:
    file = environment(tmp_path, "print('line one'); raise SystemExit('cannot go on')")
    status, _, err = start(demos, tmp_path, environment_file=file).finish()
    assert status == 1
    assert "demo: environment ended by itself with exit status 1. Its log, " in err
    assert err.endswith("  | line one\n  | cannot go on\n")
    (log_folder,) = (tmp_path / "tmp").iterdir()
    assert f"{log_folder}/environment.log" in err
    assert "Traceback" not in err


def test_an_environment_that_does_nothing_runs_into_the_time_limit(
    demos: list[Demo], tmp_path: Path, process_table: Any
) -> None:
    file = environment(tmp_path, "import time; time.sleep(100)")
    demo = start(demos, tmp_path, "--timeout-s", "4", environment_file=file)
    demo.read_until("The environment is starting")
    everything = process_table.descendants(demo.process.pid)
    status, _, err = demo.finish()
    assert status == 1
    assert "demo: not done after 4 s; the logs are in " in err
    assert not process_table.survivors(everything, timeout_s=2)


def test_a_server_that_dies_is_named(demos: list[Demo], tmp_path: Path, process_table: Any) -> None:
    demo = start(demos, tmp_path, environment_file=environment(tmp_path, "import time; time.sleep(100)"))
    demo.read_until("The environment is starting")
    commands = {
        id_.pid: Path(f"/proc/{id_.pid}/cmdline").read_text() for id_ in process_table.descendants(demo.process.pid)
    }
    (run_api,) = (pid for pid, command in commands.items() if "run_api" in command and "tether" not in command)
    os.kill(run_api, signal.SIGKILL)
    status, _, err = demo.finish()
    assert status == 1
    assert "demo: run-api ended by itself with exit status 137. Its log, " in err


def test_a_dumps_folder_that_cannot_be_made_is_reported(demos: list[Demo], tmp_path: Path) -> None:
    (tmp_path / "dumps").write_text("in the way")
    status, _, err = start(demos, tmp_path, environment_file=tmp_path / "unused.py").finish()
    assert status == 1
    assert "demo: [Errno 17] File exists" in err
