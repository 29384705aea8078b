"""The output of `process` on a terminal and in files."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from reasoning_gym_testing import TOKENIZER, Processes
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def url(processes: Processes) -> str:
    words = ["-m", "reasoning_gym_testing", "--latency-s", "0.3"]
    return f"{processes.start('inference', words, python=True, cwd=ROOT).announcement()['url']}/v1"


def command(url: str, groups: int) -> list[str]:
    words = ["process", "--base-url", url, "--tasks", "gcd,lcm", f"--env.total_steps={groups}", "-n", "2"]
    words += ["--env.tokenizer_name", TOKENIZER, "--env.max_num_workers_per_node=2", "--env.use_wandb=false"]
    return [str(ROOT / "reasoning_gym_environment.py"), *words, "--env.data_path_to_save_groups=g.jsonl"]


def on_a_terminal(words: list[str], folder: Path) -> tuple[int, str]:
    """Run a command in a terminal of 80 columns; return its exit status and output."""
    terminal, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with subprocess.Popen(words, stdin=inside, stdout=inside, stderr=inside, cwd=folder, start_new_session=True) as run:
        os.close(inside)
        written, deadline = b"", time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if select.select([terminal], [], [], 0.2)[0]:
                try:
                    written += os.read(terminal, 65536)
                except OSError:  # no process has the terminal open any more
                    break
        if time.monotonic() >= deadline:
            run.kill()
    os.close(terminal)
    return run.returncode, written.decode(errors="replace")


@pytest.fixture(scope="module")
def on_terminal(url: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The terminal output of a run with 16 groups."""
    status, written = on_a_terminal([sys.executable, *command(url, groups=16)], tmp_path_factory.mktemp("terminal"))
    assert status == 0, written
    return written


def test_progress_bar_is_shown_on_a_terminal(on_terminal: str) -> None:
    plain = re.sub(r"\x1b\[[\d;?]*\w", "", on_terminal)
    assert re.search(r"\rprocess \S+ 16/16 [\d.]+/s 0:00:00 mean score \d\.\d{3}\r", plain)


def test_terminal_cursor_is_shown_again_when_the_progress_bar_ends(on_terminal: str) -> None:
    assert on_terminal.rfind("\x1b[?25h") > on_terminal.rfind("\x1b[?25l")


def test_output_redirected_to_a_file_has_no_escape_sequences(url: str, processes: Processes) -> None:
    words = command(url, groups=8)
    run = processes.start("command", words, python=True)
    assert run.end() == 0, run.stderr
    assert "\x1b" not in run.stderr + run.stdout
