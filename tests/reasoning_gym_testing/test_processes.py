"""Start and end child processes. No process outlives its test."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from reasoning_gym_testing import ProcessError, Processes, wait_until
from reasoning_gym_testing.process_table import descendants, survivors
from reasoning_gym_testing.processes import Process
from tests.waiting import PATIENCE_S

SLEEPER = "import os, time; print('ready', flush=True); time.sleep(600)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPER}"
PARENT_OF_STUBBORN = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {STUBBORN!r}]).wait()"
LEAVES_ONE_BEHIND = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEPER!r}])"
FOREIGN_STARTER = f"""
import sys, time
from pathlib import Path
from reasoning_gym_testing import Processes
processes = Processes(Path(sys.argv[1]))
processes.start("sleeper", [sys.executable, "-c", {SLEEPER!r}])
print("started", flush=True)
time.sleep(600)
"""

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    with Processes(tmp_path, grace_s=0.3) as started:
        yield started


def start(processes: Processes, code: str, *, ready: bool = True) -> Process:
    process = processes.start("the process", [sys.executable, "-c", code])
    if ready:
        wait_until(lambda: process.check() and "ready" in process.stdout, PATIENCE_S, "its start")
    return process


def test_error_about_a_dead_process_quotes_the_last_lines_of_its_output(processes: Processes) -> None:
    process = start(processes, "import sys; print('first\\nsecond', file=sys.stderr); sys.exit(3)", ready=False)
    with pytest.raises(ProcessError, match=r"^the process .*\b3\b") as caught:
        process.announcement()
    assert str(caught.value).endswith("\n  | first\n  | second")


def test_starting_a_missing_program_raises(processes: Processes) -> None:
    with pytest.raises(ProcessError, match="No such file or directory"):
        processes.start("the process", ["/no/such/program"])


def test_forked_python_process_has_its_own_temporary_folder(tmp_path: Path) -> None:
    """Modules imported before the fork may have cached the temporary folder of the parent."""
    script = tmp_path / "script.py"
    script.write_text("import tempfile; print(tempfile.gettempdir())")
    with Processes(tmp_path / "processes", isolated=True) as processes:
        process = processes.start("the process", [script], python=True)
        assert process.end() == 0
    assert process.stdout == f"{process.folder / 'tmp'}\n"


def test_process_over_its_time_limit_raises(processes: Processes) -> None:
    with pytest.raises(ProcessError, match=r"^the process .* 0\.1 s"):
        start(processes, SLEEPER).end(timeout_s=0.1)


def test_process_gets_its_own_home_folder_and_environment_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "secret")
    with Processes(tmp_path, {"COLOUR": "blue"}, isolated=True) as processes:
        command = ["sh", "-c", "echo $COLOUR $SIZE $(pwd) $HOME $TMPDIR $WANDB_API_KEY"]
        process = processes.start("one", command, variables={"SIZE": "big"})
        assert process.end() == 0
    assert process.stdout == f"blue big {tmp_path}/one {tmp_path}/one {tmp_path}/one/tmp\n"


@needs_proc
@pytest.mark.parametrize("code", [SLEEPER, STUBBORN, PARENT_OF_STUBBORN])
def test_leaving_the_processes_context_manager_ends_all_processes(code: str, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), Processes(tmp_path, grace_s=0.3) as processes:
        pid = start(processes, code).pid
        everything = {pid, *descendants(pid)}
        raise RuntimeError
    assert not survivors(everything, PATIENCE_S)


@needs_proc
def test_ending_a_process_ends_its_children(processes: Processes) -> None:
    process = start(processes, f"{LEAVES_ONE_BEHIND}; import time; time.sleep(600)")
    everything = descendants(process.pid)
    assert everything
    process.end(signal.SIGTERM)
    assert not survivors(everything, PATIENCE_S)


@needs_proc
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_processes_end_when_their_parent_is_killed(number: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-c", FOREIGN_STARTER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == "started\n"
        everything = descendants(starter.pid)
        starter.send_signal(number)
        starter.wait()
    assert len(everything) == 3  # the launcher, a supervisor and the sleeper
    assert not survivors(everything, PATIENCE_S)


def test_wait_until_function_raises_after_the_time_limit() -> None:
    with pytest.raises(TimeoutError, match=r"^the miracle .* 0\.1 s$"):
        wait_until(lambda: False, 0.1, "the miracle")


def test_launcher_process_does_not_outlive_the_program_that_started_it(tmp_path: Path) -> None:
    script = (
        "import pathlib, sys\n"
        "from reasoning_gym_testing import Processes\n"
        "with Processes(pathlib.Path(sys.argv[1])) as processes:\n"
        "    processes.start('true', ['true'])\n"
    )
    command = [sys.executable, "-X", "dev", "-c", script, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert (ended.returncode, "ResourceWarning" in ended.stderr) == (0, False), ended.stderr
