"""Score functions that do what a completion says, for tests of sessions with a score function."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any


def score(completion: str, answer: str = "", **row: Any) -> float:
    """Return 1 if the completion is the answer. Otherwise do what the completion asks for, as listed in ACTS."""
    if completion in ACTS:
        return ACTS[completion](row)
    return float(completion == answer)


def never_end(row: Mapping[str, Any]) -> Any:
    while True:
        pass


def take_more_memory(row: Mapping[str, Any]) -> Any:
    """Allocate more memory than the limit in one step. Small steps could reach the time limit first."""
    return len(bytearray(1 << 40))


def start_thread(row: Mapping[str, Any]) -> Any:
    done = []
    thread = threading.Thread(target=lambda: done.append(1.0))
    thread.start()
    thread.join()
    return done[0]


def start_many_threads(row: Mapping[str, Any]) -> Any:
    """Return 1 while 40 further threads wait."""
    before = threading.stack_size(1 << 16)
    for _ in range(40):
        threading.Thread(target=time.sleep, args=[3600], daemon=True).start()
    threading.stack_size(before)
    return 1.0


def leave_to_a_thread(row: Mapping[str, Any]) -> Any:
    """End the main thread of the process while another thread waits."""
    threading.Thread(target=time.sleep, args=[3600], daemon=True).start()
    ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)


def set_timer(row: Mapping[str, Any]) -> Any:
    """End by a signal that the function schedules, as with a time limit whose signal has no handler."""
    signal.setitimer(signal.ITIMER_REAL, 1e-3)
    time.sleep(3600)


def change_row(row: Mapping[str, Any]) -> Any:
    """Return 1 only at the first call for a row."""
    return 1.0 / row["numbers"].pop()


ACTS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "never end": never_end,
    "take more memory": take_more_memory,
    "crash": lambda row: os.abort(),
    "set a timer": set_timer,
    "sleep": lambda row: time.sleep(3600),
    "change": change_row,
    "change again": change_row,
    "exit": lambda row: os._exit(0),
    "leave": lambda row: exit(),
    "raise": lambda row: 1 / 0,
    "nan": lambda row: float("nan"),
    "two": lambda row: 2,
    "none": lambda row: None,
    "text": lambda row: "1.0",
    "parts": lambda row: {"score": 0.5, "length": 3, "style": 0.25},
    "only parts": lambda row: {"length": 3},
    "infinite part": lambda row: {"score": 0.5, "length": float("inf")},
    "true": lambda row: True,
    "numbers": lambda row: float(row["numbers"] == [1, 2] and row["one"] == 1),
    "long names": lambda row: {"score": 0.5, **{chr(0x1F300 + number) * 60: 1 / 3 for number in range(32)}},
    "many parts": lambda row: {"score": 0.5, **{str(number): number for number in range(33)}},
    "fork": lambda row: os.fork(),
    "start a program": lambda row: subprocess.run(["/bin/true"], check=True),
    "start a thread": start_thread,
    "start many threads": start_many_threads,
    "start many threads and sleep": lambda row: start_many_threads(row) * time.sleep(3600),
    "leave to a thread": leave_to_a_thread,
    "variable": lambda row: float(os.environ.get(row["name"]) == "value"),
    "read": lambda row: float(Path(row["path"]).read_text() == "content"),
}


def misspelt(completion: str, answr: str, **row: Any) -> float:
    """A function without a parameter for the row's `answer`, so calling it raises."""
    return float(completion == answr)


def raising(completion: str, **row: Any) -> float:
    """Return 1 for `right`, and raise for other completions."""
    if completion == "right":
        return 1.0
    raise ValueError(f"no {row['answer']} in the completion")


async def asynchronous(completion: str) -> float:
    return 1.0


def generator(completion: str) -> Iterator[float]:
    yield 1.0


def takes_nothing(**row: Any) -> float:
    return 1.0


class Scorer:
    """A class whose instances and async methods are no valid score functions."""

    def __init__(self, completion: str = "") -> None:
        pass

    async def __call__(self, completion: str) -> float:
        return 1.0


asynchronous_object = Scorer()

NUMBER = 7
