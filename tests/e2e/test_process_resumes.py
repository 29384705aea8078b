"""`process` finishes its file after SIGTERM, kill -9 and Ctrl-C."""

from __future__ import annotations

import json
import re
import signal
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
    return start_script(
        *(processes, name, "process", *server_flags(url, "vllm"), "--env.use_wandb", "false"),
        *("--env.tasks", CHEAP_TASKS, "--env.group_size", "2", "--env.max_num_workers", "4"),
        *("--env.total_steps", str(total), "--env.data_path_to_save_groups", path),
        *("--env.shutdown_grace_s", "0"),
        has_children=True,
    )


def lines(path: Path) -> list[dict[str, Any]]:
    whole = path.read_bytes().rpartition(b"\n")[0] if path.exists() else b""
    return [json.loads(line) for line in whole.splitlines()]


def test_process_resumes_after_any_end(processes: Processes, tmp_path: Path) -> None:
    path = tmp_path / "groups.jsonl"
    with InferenceServer(steady_policy(0.5), latency_s=0.2) as server:
        server.fail(respond(503))
        waiting = start(processes, "waiting", server.url, path, TOTAL)
        wait_until(lambda: "waiting for an inference server" in waiting.stderr, "a probe of the server")
        below = descendants(waiting.pid)
        assert below
        assert waiting.end(signal.SIGTERM) == 143
        [told] = error_lines(waiting)
        assert "SIGTERM" in told
        assert not survivors(below, PATIENCE_S)
        server.recover()
        killed = start(processes, "killed", server.url, path, TOTAL)
        wait_until(lambda: len(lines(path)) >= 5, "five groups")
        killed.send(signal.SIGKILL)
        killed.end()
        with path.open("ab") as file:
            file.write(b'{"torn": ')
        stopped = start(processes, "stopped", server.url, path, TOTAL)
        wait_until(lambda: len(lines(path)) >= 15, "fifteen groups")
        stopped.send(signal.SIGINT)
        assert stopped.end() == 130
        [told] = error_lines(stopped)
        assert "SIGINT" in told
        assert stopped.stdout.startswith("TASK ")
        begun = len(lines(path))
        assert re.search(rf"\b{begun} .*{path}", stopped.stdout)
        finished = start(processes, "finished", server.url, path, TOTAL)
        assert finished.end() == 0
    # The server is away now, and nothing needs it.
    again = start(processes, "again", server.url, path, TOTAL)
    assert again.end() == 0
    assert f"Nothing was left to do: env.total_steps is {TOTAL}" in again.stdout
    assert again.stderr == ""
    written = lines(path)
    assert begun < TOTAL
    assert sorted(group["index"] for group in written) == list(range(TOTAL))
    assert path.read_bytes().count(b"\n") == TOTAL
