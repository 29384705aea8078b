"""Measure how long a `judge` delays `/health` while it reads one large request, and how much memory it takes.

Each request has a new server. A thread sends the request twice. Meanwhile, another connection requests `/health` every
5 ms. Linux only.

Prints one line of JSON: by request, the status, the seconds until the slower reply, the slowest and the median wait for
`/health` in milliseconds, and the growth of the server's memory at its peak in megabytes. `idle` has the waits without
a request. On a busy machine, both are long.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.judge_faults import head, make_problems, score_body, serving
from reasoning_env import Problem

HEALTH = b"GET /health HTTP/1.1\r\nHost: judge\r\n\r\n"
PAUSE_S = 0.005
IDLE_S = 3.0
TIMEOUT_S = 300.0
TEXTS = 4096
BYTES = 12 * 2**20 - 1000
"""The limits of a request, and of its body with some room for the reference."""


def answers(number: int, size: int) -> list[str]:
    """Return `number` different answers, after thinking of `size` characters."""
    return [f"<think>{'so ' * (size // 3)}</think><answer>{answer}</answer>" for answer in range(number)]


def openrlhf_body(reference: str, prompts: list[str], completions: list[str]) -> bytes:
    queries = [prompt + completion for prompt, completion in zip(prompts, completions, strict=True)]
    return json.dumps({"query": queries, "prompts": prompts, "labels": [reference] * len(prompts)}).encode()


def repeated(part: str, size: int) -> str:
    return part * (size // len(part))


def requests_of(problem: Problem) -> dict[str, Callable[[], bytes]]:
    """Return requests by name: first those over the limits, then those within the limits."""
    reference = problem.reference
    start = score_body(reference, [])[:-2]
    return {
        "1,000,000 empty texts": lambda: start + b'"",' * 999_999 + b'""]}',
        "30 MB of []": lambda: start + b"[]," * 10_000_000 + b"[]]}",
        "31 MB of < in a text": lambda: score_body(reference, ["<" * 31_000_000]),
        "500,000 different answers": lambda: score_body(reference, answers(500_000, 0)),
        "12 MB of []": lambda: start + b"[]," * (BYTES // 3) + b"[]]}",
        "12 MB of [": lambda: b"[" * BYTES,
        "12 MB of blanks": lambda: b" " * BYTES,
        "12 MB of digits": lambda: start + b"1" * BYTES + b"]}",
        "12 MB of a key": lambda: b'{"' + b"a" * BYTES + b'": 1}',
        "12 MB of < in a text": lambda: score_body(reference, ["<" * BYTES]),
        "12 MB of <think> in a text": lambda: score_body(reference, [repeated("<think>", BYTES)]),
        "12 MB of <answer> in a text": lambda: score_body(reference, [repeated("<answer>", BYTES)]),
        "12 MB of answers in a text": lambda: score_body(reference, [repeated("<answer>1</answer>", BYTES)]),
        "12 MB of escapes in a text": lambda: start + b'"' + b"\\u20ac" * (BYTES // 6) + b'"]}',
        "12 MB of escaped quotes in a text": lambda: start + b'"' + b'\\"' * (BYTES // 2) + b'"]}',
        "12 MB of short texts": lambda: start + b'"a",' * (BYTES // 4) + b'""]}',
        "12 MB of emoji in a text": lambda: start + b'"' + "\U0001f600".encode() * (BYTES // 4) + b'"]}',
        "4,096 short answers": lambda: score_body(reference, answers(TEXTS, 0)),
        "4,096 answers, 12 MB": lambda: score_body(reference, answers(TEXTS, BYTES // TEXTS - 50)),
        "64 answers, 12 MB": lambda: score_body(reference, answers(64, BYTES // 64 - 50)),
        "/rm, 12 MB": lambda: json.dumps({"prompt": "", "label": reference, "response": "<" * BYTES}).encode(),
        "/get_reward, 4,096 queries": lambda: openrlhf_body(
            reference, [problem.question] * TEXTS, [f"<answer>{answer}</answer>" for answer in range(TEXTS)]
        ),
        "/get_reward, a prompt of 6 MB": lambda: openrlhf_body(
            reference, [repeated("so it is ", BYTES // 2)], ["<answer>1</answer>"]
        ),
        "/get_reward, a changed prompt of 6 MB": lambda: openrlhf_body(
            reference, [" " + repeated("so it is ", BYTES // 2)], ["<answer>1</answer>"]
        ).replace(b'["  so', b'["so', 1),
    }


def request_bytes(name: str, body: bytes) -> bytes:
    path = name.split(",")[0].encode() if name.startswith("/") else b"/score"
    return head(len(body)).replace(b"/score", path, 1) + body


class Health:
    """Requests `/health` repeatedly on one connection. `waits_s` has the times."""

    def __init__(self, port: int) -> None:
        self.waits_s: list[float] = []
        self._socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)

    def ask_while(self, goes_on: Callable[[], bool]) -> None:
        while goes_on():
            began = time.perf_counter()
            self._socket.sendall(HEALTH)
            reply = self._socket.recv(1 << 16)
            self.waits_s.append(time.perf_counter() - began)
            assert reply.startswith(b"HTTP/1.1 200"), reply
            time.sleep(PAUSE_S)

    def summary(self) -> dict[str, float]:
        slowest, median = 1000 * max(self.waits_s), 1000 * statistics.median(self.waits_s)
        return {"slowest_health_ms": round(slowest, 1), "median_health_ms": round(median, 1)}


class Sending(threading.Thread):
    """Sends a request twice, one after the other, on a thread. `statuses` and `times_s` have the results."""

    def __init__(self, port: int, request: bytes) -> None:
        super().__init__(daemon=True)
        self.statuses: list[str] = []
        self.times_s: list[float] = []
        self._port = port
        self._request = request

    def run(self) -> None:
        for _ in range(2):
            began = time.perf_counter()
            with socket.create_connection(("127.0.0.1", self._port), TIMEOUT_S) as connection:
                try:
                    connection.sendall(self._request)
                    reply = connection.recv(1 << 16)
                except ConnectionError:  # the server replied early and closed the connection
                    reply = b"HTTP/1.1 closed"
            self.times_s.append(time.perf_counter() - began)
            self.statuses.append(reply.split(b" ", 2)[1].decode())


def memory_mb(pid: int, name: str) -> float:
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith(name)]
    return int(line.split()[1]) / 1024


def measure(name: str, request: bytes) -> dict[str, object]:
    """Return the figures of one request to a new server."""
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "log") as (process, port):
        before_mb = memory_mb(process.pid, "VmRSS")
        health = Health(port)
        sending = Sending(port, request)
        sending.start()
        health.ask_while(sending.is_alive)
        return {
            "statuses": sending.statuses,
            "reply_s": round(max(sending.times_s), 2),
            **health.summary(),
            "memory_mb": round(memory_mb(process.pid, "VmHWM") - before_mb),
        }


def measure_idle() -> dict[str, float]:
    """Return the waits for `/health` of an idle server."""
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "log") as (_, port):
        health = Health(port)
        end = time.perf_counter() + IDLE_S
        health.ask_while(lambda: time.perf_counter() < end)
        return health.summary()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="part of the names of the requests to send")
    options = parser.parse_args()
    [problem, *_] = asyncio.run(make_problems())
    found: dict[str, object] = {"idle": measure_idle()}
    for name, make_body in requests_of(problem).items():
        if options.only in name:
            found[name] = measure(name, request_bytes(name, make_body()))
            print(f"{name}: {found[name]}", file=sys.stderr)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
