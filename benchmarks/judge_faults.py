"""Attack a `judge` on this machine and kill its workers, and measure the effect on honest clients.

The server, honest clients and attackers are three processes. Honest clients send requests without a pause, alternately
alone (a sixth of the time) and beside the attackers, so that other load slows down both alike. Attackers send slow,
incomplete, huge, nested, forged, cancelled and pipelined requests, and wrong tokens, and read no replies. Meanwhile,
workers and the process that forks workers are killed, and generators are stopped. All traffic is on the loopback
device, and limited in time, number and size. Linux only.

Prints one line of JSON: honest verdicts (number, wrong, lost after the retries of `JudgeClient`), the times of honest
requests with and without attackers, the ratio of their 99th percentiles, the slowest `/health`, the replies to each
attack, the growth of memory and open files since the second fifth of the attacks, the seconds from SIGTERM to the end,
and the processes that are left. `faults` lists errors that no slow machine explains, `slow` lists what took too long.
With any of them, the status is 1.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gzip
import itertools
import json
import multiprocessing
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks._usage import Sampler, Usage, growth
from reasoning_env import Problem, ReasoningSettings, Session
from reasoning_env.errors import ReasoningEnvError
from reasoning_env.judging.client import JudgeClient
from reasoning_env.judging.messages import TOKEN_VARIABLE
from reasoning_gym_testing.process_table import descendants, is_alive, survivors

ROOT = Path(__file__).resolve().parents[1]
SECRET = "an honest key"
TASKS = ["chain_sum", "gcd", "basic_arithmetic", "spell_backward", "word_sorting", "letter_counting"]
HONEST_CLIENTS = 4
PROBLEMS = 60
TIMEOUT_S = 120.0
ROUND_S = 60.0
"""Seconds of a round: honest clients alone, then together with the attackers."""
SETTLING_S = 2.0
"""Seconds after a round, in which killed processes are replaced."""
MAX_END_S = 10.0
MAX_HEALTH_S = 0.5
MAX_GROWTH = {"memory_mb": 64.0, "open_files": 8.0}
"""Limit of growth since the second fifth of the attacks. The cache of problems from references may take 64 MB."""
MAX_PROCESSES = 8
"""The server, the process that forks workers, two workers of each role, and two workers that are just ending."""
PATIENCE_S = 60.0
"""Seconds after which an attacker or an observer gives up a request."""

UNREAD_S = 35.0
"""Seconds for which a reply stays unread. A server waits 30 seconds."""

Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


# ---------------------------------------------------------------------------- requests


def head(length: int, *lines: str, key: str = SECRET) -> bytes:
    """Return the head of a request to /score."""
    fields = [
        "POST /score HTTP/1.1",
        "Host: judge",
        f"Authorization: Bearer {key}",
        f"Content-Length: {length}",
        *lines,
    ]
    return "\r\n".join([*fields, "", ""]).encode()


def request_of(body: bytes, *lines: str, key: str = SECRET) -> bytes:
    return head(len(body), *lines, key=key) + body


def score_body(reference: str, texts: object) -> bytes:
    return json.dumps({"ref": reference, "texts": texts}).encode()


def forged(task: str, params: Mapping[str, Any] | str, split: str = "train", seed: int | str = 1) -> str:
    as_text = params if isinstance(params, str) else json.dumps(params)
    return f"{task}:{split}:{seed}:-:0.1.25:{'0' * 16}:{as_text}"


COSTLY = [
    forged("chain_sum", {"min_digits": 10**7, "max_digits": 10**7}, "eval"),
    forged("products", {"min_terms": 10**6, "max_terms": 10**6}),
    forged("prime_factorization", {"min_value": 10**17, "max_value": 10**17 + 10**6}),
    forged("number_sorting", {"min_numbers": 10**7, "max_numbers": 10**7}),
    forged("number_sorting", {"min_numbers": 60_000, "max_numbers": 60_000}),
]
WRONG_REFERENCES = [
    forged("gcd", '{"a":' * 500 + "1" + "}" * 500),
    forged("gcd", '{"a":' + "[" * 1488 + "]" * 1488 + "}"),
    forged("gcd", '{"a":' + "[" * 9989 + "]" * 9989 + "}"),
    forged("gcd", "x" * 100_000),
    forged("gcd", {"no_such": 1}),
    forged("gcd", {"seed": 5, "size": 10**9}),
    forged("gcd", {}, seed="5+999999998/999999999"),
    forged("composite", {"datasets": [{"name": "composite", "config": {"datasets": []}}]}),
    forged("../../etc/passwd", {}),
    forged("gcd", {"min_value": float("nan")}),
    "",
    ":" * 1000,
    "\ud800",
]


@cache
def huge_bodies() -> dict[str, bytes]:
    """Return large bodies by name. The last two are larger than a server accepts."""
    return {
        "a million empty texts": b'{"ref": "a", "texts": [' + b'"",' * 999_999 + b'""]}',
        "500,000 different answers": score_body("a", [f"<answer>{number}</answer>" for number in range(500_000)]),
        "11 MB of empty lists": b'{"ref": "a", "texts": [' + b"[]," * 3_600_000 + b"[]]}",
        "11 MB of <": b'{"ref": "a", "texts": ["' + b"<" * 11_000_000 + b'"]}',
        "11 MB of escapes": b'{"ref": "a", "texts": ["' + b"\\u20ac" * 1_800_000 + b'"]}',
        "11 MB of brackets": b"[" * 11_000_000,
        "30 MB of empty lists": b'{"ref": "a", "texts": [' + b"[]," * 10_000_000 + b"[]]}",
        "31 MB of <": b'{"ref": "a", "texts": ["' + b"<" * 31_000_000 + b'"]}',
    }


@cache
def bomb_body() -> bytes:
    """Return 1.3 MB that decompress to 300 MB."""
    return gzip.compress(b" " * 300_000_000, 1)


# ---------------------------------------------------------------------------- attacks


class Attackers:
    """Attacks. `answers` counts the statuses of the replies to each attack."""

    def __init__(self, port: int, problems: list[Problem], chance: random.Random, slowness: float) -> None:
        self.answers: Counter[str] = Counter()
        self._port = port
        self._problems = problems
        self._chance = chance
        self._slowness = slowness

    async def go_on(self, attack: Callable[[Attackers], Awaitable[None]], pause_s: float) -> None:
        """Attack again and again."""
        while True:
            with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
                await attack(self)
            await asyncio.sleep(self._chance.uniform(0.5, 1.5) * pause_s * self._slowness)

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        async with asyncio.timeout(PATIENCE_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            try:
                yield reader, writer
            finally:
                writer.transport.abort()

    async def ask(self, name: str, *parts: bytes) -> None:
        """Send a request, and count the status of its reply."""
        async with self.connection() as (reader, writer):
            for part in parts:
                writer.write(part)
            await self.count(name, reader)

    async def count(self, name: str, reader: asyncio.StreamReader) -> None:
        line = await reader.readline()
        self.answers[f"{name}: {line.split()[1].decode() if line else 'closed'}"] += 1

    async def half_sent(self) -> None:
        """Keep ninety connections open with half a head or half a body, until the server closes them."""

        async def hold(name: str, part: bytes) -> None:
            async with self.connection() as (reader, writer):
                writer.write(part)
                await self.count(name, reader)

        halves = [hold("half a head", b"POST /sc"), hold("half a body", head(1000) + b"{"), hold("nothing", b"")]
        more = [hold("half a body", head(1000) + b"{") for _ in range(87)]
        await asyncio.gather(*halves, *more, return_exceptions=True)

    async def slow(self) -> None:
        """Send a request byte by byte."""
        async with self.connection() as (reader, writer):
            whole = request_of(score_body(self._some().reference, ["x"] * 20))
            for position in range(len(whole)):
                writer.write(whole[position : position + 1])
                await asyncio.sleep(0.2)
                if reader.at_eof() or writer.is_closing():
                    break
            await self.count("slow", reader)

    async def huge(self) -> None:
        name = self._chance.choice(sorted(huge_bodies()))
        body = huge_bodies()[name].replace(b'"a"', json.dumps(self._some().reference).encode(), 1)
        await self.ask(name, head(len(body)), body)

    async def bomb(self) -> None:
        await self.ask("gzip", request_of(bomb_body(), "Content-Encoding: gzip"))

    async def wrong_reference(self) -> None:
        await self.ask("wrong reference", request_of(score_body(self._chance.choice(WRONG_REFERENCES), ["x"])))

    async def costly_reference(self) -> None:
        """Request eleven slow problems at a time; fewer in a slow run."""
        asks = [
            self.ask("costly reference", request_of(score_body(reference, ["x"])))
            for reference in self._chance.choices(COSTLY, k=round(11 / self._slowness))
        ]
        await asyncio.gather(*asks, return_exceptions=True)

    async def nested(self) -> None:
        for body in (b"[" * 5000, b'{"a":' * 5000, b'{"ref": "a", "texts": ' + b"[" * 100 + b"]" * 100 + b"}"):
            await self.ask("nested", request_of(body))

    async def cancelled(self) -> None:
        """Send complete requests, and close the connection."""
        for _ in range(20):
            async with self.connection() as (_, writer):
                reference = self._chance.choice([self._some().reference, forged("gcd", {}, seed=self._seed())])
                writer.write(request_of(score_body(reference, ["<answer>1</answer>"])))
                await asyncio.sleep(self._chance.uniform(0.0, 0.02))

    async def pipelined(self) -> None:
        """Send a hundred requests on one connection at once, and read some of the replies."""
        async with self.connection() as (reader, writer):
            writer.write(100 * request_of(score_body(self._some().reference, ["x"])))
            await self.count("pipelined", reader)

    async def unread(self) -> None:
        """Request a large reply, and do not read the reply for longer than the server waits."""
        texts = [f"<answer>{'é' * 9000}{number}</answer>" for number in range(300)]
        async with self.connection() as (reader, writer):
            writer.write(request_of(score_body(self._some().reference, texts)))
            await asyncio.sleep(UNREAD_S)
            with contextlib.suppress(ConnectionError):
                whole = (await reader.read()).endswith(b"]}")
                self.answers[f"unread: {'sent' if whole else 'cut off'}"] += 1

    async def wrong_key(self) -> None:
        for key in ("wrong", "", SECRET[:-1], SECRET.upper()):
            await self.ask("wrong key", request_of(score_body(self._some().reference, ["x"]), key=key))

    async def garbage(self) -> None:
        await self.ask("garbage", self._chance.randbytes(2000))
        body = self._chance.randbytes(300)
        await self.ask("garbage", request_of(body))
        for line in ("Content-Length: -5", "Transfer-Encoding: chunked", "X: a\0b"):
            await self.ask("broken head", head(len(body), line), body)

    def _some(self) -> Problem:
        return self._chance.choice(self._problems)

    def _seed(self) -> int:
        return self._chance.randrange(2**32)


PAUSES_S: Mapping[Callable[[Attackers], Awaitable[None]], float] = {
    Attackers.half_sent: 1.0,
    Attackers.slow: 1.0,
    Attackers.huge: 3.0,
    Attackers.bomb: 10.0,
    Attackers.wrong_reference: 0.3,
    Attackers.costly_reference: 5.0,
    Attackers.nested: 1.0,
    Attackers.cancelled: 1.0,
    Attackers.pipelined: 2.0,
    Attackers.unread: 5.0,
    Attackers.wrong_key: 1.0,
    Attackers.garbage: 1.0,
}
"""Attacks, with the mean pause between two of a kind."""


# ---------------------------------------------------------------------------- faults of processes


@dataclass
class Faults:
    """Kills and stops processes of the server, and counts them."""

    server: int
    chance: random.Random
    counts: Counter[str] = field(default_factory=Counter)

    async def go_on(self) -> None:
        for number in itertools.count(1):
            await asyncio.sleep(self.chance.uniform(1.0, 3.0))
            forkers = _children(self.server)
            workers = sorted(pid for forker in forkers for pid in _children(forker))
            if number % 15 == 0:
                self._send("fork servers killed", sorted(forkers), signal.SIGKILL)
            elif number % 5 == 0:
                generators = [pid for pid in workers if not _is_sandboxed(pid)]
                self._send("generators stopped", generators, signal.SIGSTOP)
            else:
                self._send("workers killed", workers, signal.SIGKILL)

    def _send(self, name: str, pids: list[int], number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, IndexError):
            os.kill(self.chance.choice(pids), number)
            self.counts[name] += 1


def _children(pid: int) -> set[int]:
    with contextlib.suppress(OSError):
        return set(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    return set()


def _is_sandboxed(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return "Seccomp:\t2" in Path(f"/proc/{pid}/status").read_text()
    return True


# ---------------------------------------------------------------------------- honest clients and observers


@dataclass
class Honest:
    """Honest clients, with their verdicts and times."""

    verdicts: int = 0
    wrong: int = 0
    lost: list[str] = field(default_factory=list)
    times_s: list[float] = field(default_factory=list)

    async def go_on(self, client: JudgeClient, problems: list[Problem], chance: random.Random, slowness: float) -> None:
        while True:
            problem = chance.choice(problems)
            texts = [f"<think>so</think><answer>{problem.answer}</answer>", "<answer>wrong</answer>", "no answer"]
            began = time.monotonic()
            try:
                verdicts = await client.judge(problem.reference, texts)
            except ReasoningEnvError as error:
                self.lost.append(str(error))
                continue
            finally:
                self.times_s.append(time.monotonic() - began)
            self.verdicts += len(verdicts)
            right, *others = (verdict.correct for verdict in verdicts)
            self.wrong += int(not right or any(others))
            await asyncio.sleep(0.02 * slowness)

    def summary(self) -> dict[str, float]:
        times_s = sorted(self.times_s)
        return {
            "requests": len(times_s),
            "median_s": round(statistics.median(times_s), 4),
            "p99_s": round(times_s[int(0.99 * (len(times_s) - 1))], 4),
            "slowest_s": round(times_s[-1], 3),
        }


async def watch_health(url: str, waits_s: list[float], statuses: Counter[int]) -> None:
    """Request /health every 50 ms on one connection."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(PATIENCE_S)) as client:
        while True:
            began = time.monotonic()
            with contextlib.suppress(aiohttp.ClientError):
                async with client.get(f"{url}/health") as reply:
                    await reply.read()
                    statuses[reply.status] += 1
            waits_s.append(time.monotonic() - began)
            await asyncio.sleep(0.05)


# ---------------------------------------------------------------------------- the run


@contextmanager
def serving(log: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Start the command; yield its process and port."""
    command = [sys.executable, "reasoning_gym_environment.py", "judge", "--port", "0"]
    with log.open("w") as errors:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, TOKEN_VARIABLE: SECRET},
        )
    try:
        assert process.stdout is not None
        yield process, int(process.stdout.readline().rsplit(":", 1)[1])
    finally:
        process.kill()
        process.wait()


async def make_problems() -> list[Problem]:
    async with Session(ReasoningSettings(tasks=TASKS, seed=1, num_generators=1, num_verifiers=1)) as session:
        return [await session.next() for _ in range(PROBLEMS)]


def attack_on_request(
    orders: Connection, port: int, server: int, problems: list[Problem], seed: int, slowness: float
) -> None:
    """Attack for the seconds of each order, in the attackers' process.

    Replies to an order with the counts of replies and of faults since the start.
    """
    os.environ[TOKEN_VARIABLE] = SECRET
    huge_bodies()
    bomb_body()
    attackers = Attackers(port, problems, random.Random(seed), slowness)
    faults = Faults(server, random.Random(seed + 1))
    orders.send("ready")
    while (seconds := orders.recv()) is not None:
        attacks = [attackers.go_on(attack, pause_s) for attack, pause_s in PAUSES_S.items()]
        asyncio.run(run_for(seconds, *attacks, faults.go_on()))
        orders.send((attackers.answers, faults.counts))


@contextmanager
def attacking(port: int, server: int, problems: list[Problem], seed: int, slowness: float) -> Iterator[Connection]:
    """Start the process of the attackers; yield the connection for orders."""
    context = multiprocessing.get_context("spawn")
    orders, theirs = context.Pipe()
    arguments = (theirs, port, server, problems, seed, slowness)
    attackers = context.Process(target=attack_on_request, args=arguments, daemon=True)
    attackers.start()
    try:
        assert orders.recv() == "ready"
        yield orders
        orders.send(None)
        attackers.join()
    finally:
        attackers.kill()


async def attack(
    process: subprocess.Popen[str], port: int, seconds: float, seed: int, slowness: float
) -> dict[str, Any]:
    """Run the honest clients alternately alone and beside everything else, and return the figures."""
    os.environ[TOKEN_VARIABLE] = SECRET
    url = f"http://127.0.0.1:{port}"
    problems = await make_problems()
    client = JudgeClient(url, TIMEOUT_S)
    alone = Honest()
    beside = Honest()
    health_s: list[float] = []
    statuses: Counter[int] = Counter()
    for problem in problems:  # made once, as in a training
        await client.judge(problem.reference, ["x"])
    sampler = Sampler(process.pid)
    during: list[Usage] = []
    rounds = max(2, round(seconds / ROUND_S))
    with attacking(port, process.pid, problems, seed, slowness) as orders:
        for _ in range(rounds):
            await run_for(seconds / rounds / 6, *_honest(alone, client, problems, slowness))
            began = len(sampler.samples)
            attack_s = seconds / rounds * 5 / 6
            orders.send(attack_s)
            await run_for(attack_s, *_honest(beside, client, problems, slowness), watch_health(url, health_s, statuses))
            answers, process_faults = await asyncio.to_thread(orders.recv)
            during += sampler.samples[began:]
            await asyncio.sleep(SETTLING_S)
    await asyncio.sleep(min(30.0, seconds / 6))  # the last requests end, and the last workers are replaced
    settled = len(sampler.samples)
    final = Honest()
    statuses_after: Counter[int] = Counter()
    await run_for(2.0, *_honest(final, client, problems, slowness), watch_health(url, [], statuses_after))
    await client.close()
    sampler.stop()
    lost = alone.lost + beside.lost + final.lost
    fifth = len(during) // 5
    times = {"alone": alone.summary(), "beside_attackers": beside.summary()}
    return {
        "verdicts": alone.verdicts + beside.verdicts + final.verdicts,
        "wrong": alone.wrong + beside.wrong + final.wrong,
        "lost": len(lost),
        "first_lost": lost[:3],
        **times,
        "p99_ratio": round(times["beside_attackers"]["p99_s"] / times["alone"]["p99_s"], 1),
        "slowest_health_s": round(max(health_s), 3),
        "health_statuses": dict(statuses),
        "health_statuses_after": dict(statuses_after),
        "attacks": dict(sorted(answers.items())),
        "process_faults": dict(process_faults),
        "growth": growth(during[fifth : 2 * fifth], sampler.samples[settled:]),
        "most": {name: max(asdict(usage)[name] for usage in sampler.samples) for name in asdict(sampler.samples[0])},
    }


def _honest(honest: Honest, client: JudgeClient, problems: list[Problem], slowness: float) -> list[Awaitable[None]]:
    return [honest.go_on(client, problems, random.Random(number), slowness) for number in range(HONEST_CLIENTS)]


async def run_for(seconds: float, *work: Awaitable[None]) -> None:
    """Run endless work for some seconds. Raises the first error of the work."""
    running = [asyncio.ensure_future(part) for part in work]
    ended, _ = await asyncio.wait(running, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
    for part in running:
        part.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    for part in ended:
        part.result()


def end(process: subprocess.Popen[str]) -> dict[str, Any]:
    """End the server with SIGTERM. Return the seconds, the status and the processes that are left."""
    workers = {process.pid, *filter(is_alive, descendants(process.pid))}
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(PATIENCE_S)
    end_s = time.monotonic() - began
    left = survivors(workers, 5.0)
    return {"end_s": round(end_s, 1), "status": process.returncode, "processes_left": len(left)}


def run(seconds: float, seed: int, slowness: float) -> dict[str, Any]:
    """Attack a server for some seconds, and return all figures."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with serving(log) as (process, port):
            found = asyncio.run(attack(process, port, seconds, seed, slowness)) | end(process)
        lines = log.read_text().splitlines()
    found["tracebacks"] = sum(line.startswith("Traceback") for line in lines)
    found["last_lines"] = lines[-5:] if found["tracebacks"] else []
    return found


def faults_of(found: Mapping[str, Any]) -> list[str]:
    """Return errors that no slow machine explains: losses, growth, remaining processes, an error at the end."""
    faults = [f"{name}: {found[name]}" for name in ("wrong", "lost", "processes_left", "tracebacks") if found[name]]
    if found["status"] != 0:
        faults.append(f"the server ended with status {found['status']}")
    if set(found["health_statuses"]) - {200, 503} or set(found["health_statuses_after"]) != {200}:
        faults.append(f"/health: {found['health_statuses']}, at the end {found['health_statuses_after']}")
    if found["most"]["processes"] > MAX_PROCESSES:
        faults.append(f"{found['most']['processes']:g} processes at a time")
    for name, most in MAX_GROWTH.items():
        before, after = found["growth"][name]["before"], found["growth"][name]["after"]
        if after - before > most:
            faults.append(f"{name} grew from {before:g} to {after:g}; the limit of growth is {most:g}")
    return faults


def slow_of(found: Mapping[str, Any]) -> list[str]:
    """Return what took too long. Other load on the machine may be the cause."""
    limits = {"slowest_health_s": MAX_HEALTH_S, "end_s": MAX_END_S}
    return [f"{name}: {found[name]:g}, over {most:g}" for name, most in limits.items() if found[name] > most]


def is_sound(found: Mapping[str, Any]) -> bool:
    """Return True if there are no errors and nothing took too long."""
    return not faults_of(found) and not slow_of(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--slowness", type=float, default=1.0, help="factor of all pauses between requests (default: %(default)s)"
    )
    options = parser.parse_args()
    found = run(60 * options.minutes, options.seed, options.slowness)
    print(json.dumps({**found, "faults": faults_of(found), "slow": slow_of(found)}))
    return 0 if is_sound(found) else 1


if __name__ == "__main__":
    sys.exit(main())
