"""Fork servers that are preloaded for tests behave like new ones."""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path
from typing import Any

from tests.preloaded_library import BARE, FOLDER_VARIABLE, PreloadedFork, fresh_children
from tests.waiting import until

from .support import make, running_pool


async def test_workers_of_preloaded_and_fresh_fork_servers_start_in_the_same_state(fake_library: Path) -> None:
    forked = await report_of_worker(fake_library)
    with fresh_children():
        assert forked == await report_of_worker(fake_library)


async def report_of_worker(fake_library: Path) -> dict[str, Any]:
    async with running_pool(fake_library) as pool:
        report: dict[str, Any] = json.loads((await make(pool, "inspect")).question)
    for varies in ("pid", "session", "directory"):
        del report[varies]
    report["environment"] = sorted(report["environment"])
    return report


async def test_pool_starts_even_if_another_client_of_the_fork_server_sends_nothing(fake_library: Path) -> None:
    """A program that is killed before it sends its request blocks no other program."""
    listener = os.path.join(os.environ[FOLDER_VARIABLE], BARE)
    with socket.socket(socket.AF_UNIX) as killed:
        killed.connect(listener)
    async with running_pool(fake_library) as pool:
        assert isinstance(pool.fork_servers.current.process, PreloadedFork)


async def test_killed_preloaded_fork_server_has_a_negative_return_code(fake_library: Path) -> None:
    async with running_pool(fake_library) as pool:
        process = pool.fork_servers.current.process
        assert isinstance(process, PreloadedFork)
        assert process.poll() is None
        os.kill(process.pid, signal.SIGKILL)
        await until(lambda: process.poll() is not None)
    assert process.returncode == -signal.SIGKILL
