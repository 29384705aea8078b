"""Measure what many bad clients of a `judge` cost honest clients and the server's memory.

Each load has a new server on this machine: 13 clients that hold back their bodies together with 4 that send without
end, and 64 clients of each kind. Meanwhile, honest clients send groups of three sizes, one after the other. At the end,
60 complete bodies of 9.9 MB arrive at once. Linux only.

Prints one line of JSON: by load, the slowest honest reply of each size in seconds, the highest resident memory of the
server's main process and of all its processes in megabytes, and the tracebacks in the server's log. For the 60 bodies,
the statuses of the replies.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path

from benchmarks._usage import Sampler
from benchmarks.judge_faults import head, make_problems, run_for, score_body, serving
from reasoning_env import Problem
from reasoning_gym_testing.process_table import descendants

BODY_BYTES = 12 * 2**20 - 1000
"""Nearly the largest body that a server accepts by default."""
PIECE_BYTES = 1 << 16
TIMEOUT_S = 300.0
WHOLE_BODIES = 60

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Client = Callable[[Connection, str], Awaitable[None]]


# ---------------------------------------------------------------------------- clients


def large_body(reference: str, size: int, *, last: str = "") -> bytes:
    """Return a group of 8 completions with thinking. `last` ends the last completion."""
    thinking = "so " * ((size - 1000) // 8 // 3)
    texts = [f"<think>{thinking}</think><answer>{number}</answer>" for number in range(8)]
    return score_body(reference, [*texts[:-1], texts[-1] + last])


async def send_all_but_last_byte(connection: Connection, reference: str) -> None:
    """Send a body without its last byte."""
    reader, writer = connection
    body = large_body(reference, BODY_BYTES)
    writer.write(head(len(body)) + body[:-1])
    await reader.read()


async def send_endlessly(connection: Connection, reference: str) -> None:
    """Send a body in chunks that never ends."""
    _, writer = connection
    writer.write(head(0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked"))
    chunk = b"%x\r\n" % PIECE_BYTES + b" " * PIECE_BYTES + b"\r\n"
    while not writer.is_closing():
        writer.write(chunk)
        await writer.drain()


async def leave_unread(connection: Connection, reference: str) -> None:
    """Request a reply of 11 MB, and do not read the reply."""
    _, writer = connection
    answers = [f"<answer>{'é' * 9000}{number}</answer>" for number in range(600)]
    body = json.dumps({"ref": reference, "texts": answers}, ensure_ascii=False).encode()
    writer.write(head(len(body)) + body)
    await asyncio.sleep(TIMEOUT_S)


async def ask_with_emoji(connection: Connection, reference: str) -> None:
    """Send whole bodies whose texts take four bytes a character in memory, and read the replies."""
    reader, writer = connection
    text = "<answer>1</answer>" + "x" * BODY_BYTES
    body = json.dumps({"ref": reference, "texts": [text[:-200] + "\U0001f600"]}, ensure_ascii=False).encode()
    while True:
        writer.write(head(len(body)) + body)
        await writer.drain()
        status = await reader.readline()
        if not status:
            return
        lines = await reader.readuntil(b"\r\n\r\n")
        [length] = [int(line.split()[1]) for line in lines.splitlines() if line.startswith(b"Content-Length")]
        await reader.readexactly(length)


LOADS: Mapping[str, Mapping[Client, int]] = {
    "13 hold back, 4 send without end": {send_all_but_last_byte: 13, send_endlessly: 4},
    "64 hold back": {send_all_but_last_byte: 64},
    "64 send without end": {send_endlessly: 64},
    "64 leave replies unread": {leave_unread: 64},
    "64 with emoji": {ask_with_emoji: 64},
    "16 of each": {send_all_but_last_byte: 16, send_endlessly: 16, leave_unread: 16, ask_with_emoji: 16},
}


async def repeat(client: Client, port: int, reference: str) -> None:
    """Connect again and again."""
    while True:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                await client((reader, writer), reference)
            finally:
                writer.transport.abort()
        await asyncio.sleep(0.1)


def run_bad_clients(load: str, port: int, reference: str) -> None:
    """Run the clients of a load, in a process that is killed at the end."""
    clients = [client for client, count in LOADS[load].items() for _ in range(count)]
    asyncio.run(run_for(TIMEOUT_S, *(repeat(client, port, reference) for client in clients)))


@contextlib.contextmanager
def bad_clients(load: str, port: int, reference: str) -> Iterator[None]:
    process = multiprocessing.get_context("spawn").Process(
        target=run_bad_clients, args=(load, port, reference), daemon=True
    )
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


# ---------------------------------------------------------------------------- measurements


async def ask(port: int, body: bytes) -> int:
    """Send a complete request, and return the status of its reply."""
    async with asyncio.timeout(TIMEOUT_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(head(len(body), "Connection: close") + body)
            reply = await reader.read()
        finally:
            writer.transport.abort()
    return int(reply.split(b" ", 2)[1]) if reply else 0


async def run_honest_client(port: int, problem: Problem, seconds: float) -> dict[str, float]:
    """Send groups of three sizes in turns, and return the slowest reply of each size in seconds."""
    sizes = {"4 kB": 4_000, "320 kB": 320_000, "8 MB": 8_000_000}
    bodies = {name: large_body(problem.reference, size) for name, size in sizes.items()}
    slowest = dict.fromkeys(bodies, 0.0)
    end = time.monotonic() + seconds
    for name in itertools.cycle(bodies):
        began = time.monotonic()
        if began > end:
            return slowest
        status = await ask(port, bodies[name])
        assert status == 200, status
        slowest[name] = round(max(slowest[name], time.monotonic() - began), 2)
    raise AssertionError


def all_processes_mb(pid: int) -> float:
    """Return the memory of a process and its descendants. Shared pages count once. Needs root, for workers."""
    total = 0.0
    for each in (pid, *descendants(pid)):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            lines = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:"))
    return total


async def measure(load: str, port: int, pid: int, problem: Problem, seconds: float) -> dict[str, object]:
    """Return the figures of a load."""
    most_mb = 0.0
    sampler = Sampler(pid)

    async def watch() -> None:
        nonlocal most_mb
        while True:
            most_mb = max(most_mb, await asyncio.to_thread(all_processes_mb, pid))
            await asyncio.sleep(0.2)

    watching = asyncio.ensure_future(watch())
    with bad_clients(load, port, problem.reference):
        await asyncio.sleep(min(10.0, seconds / 3))  # the bad clients come first
        slowest = await run_honest_client(port, problem, seconds)
    watching.cancel()
    sampler.stop()
    server_mb = max(usage.memory_mb for usage in sampler.samples)
    return {"slowest_s": slowest, "server_mb": round(server_mb), "all_processes_mb": round(most_mb)}


async def send_whole_bodies(port: int, problem: Problem) -> dict[int, int]:
    """Send 60 complete bodies at once, and return the number of replies by status."""
    body = large_body(problem.reference, 9_900_000)
    return dict(Counter(await asyncio.gather(*(ask(port, body) for _ in range(WHOLE_BODIES)))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=40.0, help="honest requests of a load (default: %(default)s)")
    parser.add_argument("--only", default="", help="part of the names of the loads")
    options = parser.parse_args()
    [problem, *_] = asyncio.run(make_problems())
    found: dict[str, object] = {}
    for load in [*LOADS, "60 bodies"]:
        if options.only not in load:
            continue
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log"
            with serving(log) as (process, port):
                if load in LOADS:
                    found[load] = asyncio.run(measure(load, port, process.pid, problem, options.seconds))
                else:
                    found[load] = asyncio.run(send_whole_bodies(port, problem))
            tracebacks = log.read_text().count("Traceback")
        print(f"{load}: {found[load]}, {tracebacks} tracebacks", file=sys.stderr)
        found["tracebacks"] = int(str(found.get("tracebacks", 0))) + tracebacks
    print(json.dumps(found))


if __name__ == "__main__":
    main()
