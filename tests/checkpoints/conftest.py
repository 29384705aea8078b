"""Real files, locks and processes; a child imports the wing without the rest of the package, so it starts at once."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

import reasoning_env

CHILD = f"""
import itertools, os, subprocess, sys, time, types
from concurrent.futures import Future
from pathlib import Path
package = types.ModuleType("reasoning_env")
package.__path__ = [{str(Path(reasoning_env.__file__).parent)!r}]
sys.modules["reasoning_env"] = package
from reasoning_env.checkpoints.folder import take_folder
from reasoning_env.checkpoints.keeper import StateKeeper

root = Path(sys.argv[1])

def tell(*words):
    print(*words, flush=True)

def body(number):
    future = Future()
    future.set_result(bytes([number % 256]) * 5000)
    return future
"""

Start = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture(autouse=True)
def info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "reasoning_env")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts children that run some lines, with `tmp_path` as their `root`."""
    children: list[subprocess.Popen[str]] = []

    def start_child(lines: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", CHILD + lines, str(tmp_path)]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        children.append(child)
        return child

    yield start_child
    for child in children:
        child.kill()
        child.communicate()


def next_line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def encoded(*bodies: bytes) -> list[Future[bytes]]:
    futures: list[Future[bytes]] = [Future() for _ in bodies]
    for future, body in zip(futures, bodies, strict=True):
        future.set_result(body)
    return futures
