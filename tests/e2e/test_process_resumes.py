"""`process` resumes its file after SIGTERM, kill -9 and Ctrl-C."""

from __future__ import annotations

import json
import re
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from reasoning_gym_testing import InferenceServer, Process, Processes, respond
from reasoning_gym_testing.local_training import CHEAP_TASKS
from reasoning_gym_testing.process_table import descendants, survivors
from tests.waiting import PATIENCE_S, wait_until

from .processes import error_lines, needs_proc, server_flags, start_script
from .training_runs import steady_policy

pytestmark = [pytest.mark.slow, needs_proc]

TOTAL = 40


def start(processes: Processes, name: str, url: str, path: Path, total: int) -> Process:
    settings = {
        "use_wandb": "false",
        "tasks": CHEAP_TASKS,
        "group_size": "2",
        "max_num_workers": "4",
        "total_steps": str(total),
        "data_path_to_save_groups": str(path),
    }
    options = [word for setting, value in settings.items() for word in (f"--env.{setting}", value)]
    return start_script(processes, name, "process", *server_flags(url, "vllm"), *options, has_children=True)


def lines(path: Path) -> list[dict[str, Any]]:
    whole = path.read_bytes().rpartition(b"\n")[0] if path.exists() else b""
    return [json.loads(line) for line in whole.splitlines()]


@dataclass(frozen=True)
class Ends:
    """Five runs of `process` with one output file.

    Each run ends in a different way, and the next run resumes the file. `left` lists processes that remained after the
    first run; `groups` has the groups in the file after the third run.
    """

    path: Path
    waiting: Process
    left: set[int]
    stopped: Process
    groups: int
    finished: Process
    again: Process


@pytest.fixture(scope="module")
def ends(processes: Processes, tmp_path_factory: pytest.TempPathFactory) -> Ends:
    path = tmp_path_factory.mktemp("groups") / "groups.jsonl"
    with InferenceServer(steady_policy(0.5), latency_s=0.2) as server:
        server.fail(respond(503))
        waiting = start(processes, "waiting", server.url, path, TOTAL)
        wait_until(lambda: "waiting for an inference server" in waiting.stderr, "a probe of the server")
        below = descendants(waiting.pid)
        assert below
        waiting.end(signal.SIGTERM)
        left = survivors(below, PATIENCE_S)
        server.recover()
        killed = start(processes, "killed", server.url, path, TOTAL)
        wait_until(lambda: len(lines(path)) >= 5, "five groups")
        killed.send(signal.SIGKILL)
        killed.end()
        with path.open("ab") as file:
            file.write(b'{"torn": ')
        stopped = start(processes, "stopped", server.url, path, TOTAL)
        wait_until(lambda: len(lines(path)) >= 15, "fifteen groups")
        stopped.end(signal.SIGINT)
        groups = len(lines(path))
        finished = start(processes, "finished", server.url, path, TOTAL)
        finished.end()
    # The server is stopped here, and a complete file needs no server.
    again = start(processes, "again", server.url, path, TOTAL)
    again.end()
    return Ends(path, waiting, left, stopped, groups, finished, again)


def test_sigterm_ends_a_process_command_that_waits_for_a_server(ends: Ends) -> None:
    assert ends.waiting.exit_status == 143
    [line] = error_lines(ends.waiting)
    assert "SIGTERM" in line
    assert not ends.left


def test_process_command_prints_its_summary_after_ctrl_c(ends: Ends) -> None:
    assert ends.stopped.exit_status == 130
    [line] = error_lines(ends.stopped)
    assert "SIGINT" in line
    assert ends.stopped.stdout.startswith("TASK ")
    assert re.search(rf"\b{ends.groups} .*{ends.path}", ends.stopped.stdout)


def test_process_command_adds_the_missing_groups_when_it_is_resumed(ends: Ends) -> None:
    assert ends.finished.exit_status == 0
    assert ends.groups < TOTAL
    assert sorted(group["index"] for group in lines(ends.path)) == list(range(TOTAL))
    assert ends.path.read_bytes().count(b"\n") == TOTAL


def test_process_command_adds_no_group_to_a_complete_file(ends: Ends) -> None:
    assert ends.again.exit_status == 0
    assert f" has {TOTAL} groups." in ends.again.stdout
    assert "Nothing to do: the file is complete." in ends.again.stdout
    assert error_lines(ends.again) == []
