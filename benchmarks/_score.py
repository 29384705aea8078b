"""The measurement of `benchmarks.judge --score`: a score function that hangs, takes all memory or crashes.

Of 10,000 completions, 1 % never end, 1 % take all memory, and 1 % crash the interpreter. A session scores all of them,
in rows of 8. Then the same function scores the other 97 % on the event loop and in threads. There, a bad completion
would end or block the whole process.

The inputs in HANGING make math-verify compute for seconds or for ever: all except the last two for longer than 5 s.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from reasoning_env import Problem, Session, Verdict
from reasoning_gym_testing.process_table import descendants, survivors

ROW = 8
AT_ONCE = 64
DEADLINE_S = 1.0
MEMORY_MB = 512
BAD = ("never end", "take all memory", "crash")
ANSWER = re.compile(r"\\boxed\{([^{}]*)\}")
HANGING = {
    "tower of powers": r"$\boxed{9^{9^{9^{9}}}}$",
    "power of powers of 10": r"$\boxed{10^{10^{10}}}$",
    "factorials": r"$\boxed{(((10)!)!)!}$",
    "a large factorial": r"$\boxed{99999999!}$",
    "a large power": r"$\boxed{2^{99999999999}}$",
    "a long sum": r"$\boxed{\sum_{n=1}^{10000000} \frac{1}{n}}$",
    "a large binomial": r"$\boxed{\binom{10^{9}}{5*10^{8}}}$",
    "a root of a large power": r"$\boxed{\sqrt[1000]{123456789^{1001}+1}}$",
    "a power of a sum": r"$\boxed{(x+y+z+w)^{300}}$",
    "300 brackets": "$\\boxed{" + "(" * 300 + "1" + ")" * 300 + "}$",
    "a set of 3,000 numbers": "$\\{" + ",".join(map(str, range(3000))) + "\\}$",
    "an integral": r"$\int_0^1 x^{x^{x}} dx$",
    "a matrix of 2,000 rows": "$\\begin{pmatrix}" + "1 & 2 \\\\" * 2000 + "\\end{pmatrix}$",
}


def score(completion: str, answer: str, **row: Any) -> float:
    """Return whether the boxed text is the answer; do what a completion in BAD says."""
    if completion == "never end":
        while True:
            pass
    if completion == "take all memory":
        taken = []
        while True:
            taken.append(bytearray(10_000_000))
    if completion == "crash":
        os.abort()
    boxed = ANSWER.findall(completion)
    return float(bool(boxed) and boxed[-1].strip() == answer)


def completion_of(number: int) -> str:
    """Return a right completion with 200 words of thinking, or one in BAD."""
    bad = dict(zip((10, 40, 70), BAD, strict=True))
    return bad.get(number % 100, f"{'so ' * 200} \\boxed{{{number // ROW}}}")


def row_of(number: int) -> dict[str, str]:
    return {"answer": str(number // ROW)}


async def measure(count: int, verifiers: int) -> dict[str, Any]:
    """Return verdicts/s of the judge and of the function on the loop and in threads, and the verdicts by kind."""
    found: dict[str, Any] = {}
    options: dict[str, Any] = {
        "num_verifiers": verifiers,
        "scoring_deadline_s": DEADLINE_S,
        "worker_memory_mb": MEMORY_MB,
    }
    wanted = list(range(count))
    good = [number for number in wanted if completion_of(number) not in BAD]
    async with Session(score="benchmarks._score:score", **options) as judge:
        found["judge, good completions"] = await _rate(good, lambda numbers: _ask(judge, numbers))
        started = time.perf_counter()
        verdicts = [v for of_row in await _in_rows(wanted, lambda numbers: _ask(judge, numbers)) for v in of_row]
        found["judge, all completions"] = {"verdicts_per_s": round(count / (time.perf_counter() - started))}
        processes = descendants(os.getpid())
    found["right_scores"] = sum(verdict.score == 1.0 for verdict in verdicts)
    found["reasons"] = {
        kind: Counter(verdict.reason.value for number, verdict in enumerate(verdicts) if completion_of(number) == kind)
        for kind in BAD
    }
    found["longest_scoring_s"] = round(max(verdict.scoring_s for verdict in verdicts), 2)
    found["processes_left"] = len(survivors(processes, 10.0))

    async def on_loop(numbers: list[int]) -> list[float]:
        return [score(completion_of(number), **row_of(number)) for number in numbers]

    async def in_threads(numbers: list[int]) -> list[float]:
        calls = (asyncio.to_thread(score, completion_of(number), **row_of(number)) for number in numbers)
        return list(await asyncio.gather(*calls))

    found["function on the loop, good completions"] = await _rate(good, on_loop)
    found["function in threads, good completions"] = await _rate(good, in_threads)
    return found


async def measure_math_verify(deadline_s: float = 5.0) -> dict[str, str]:
    """Return the reason and the processor time of each hanging input, after `examples/math_verify_judge.py`."""
    example = Path(__file__).parent.parent / "examples" / "math_verify_judge.py"
    row = {"answer": r"\frac{1}{2}"}
    async with Session(score=f"{example}:score", num_verifiers=2, scoring_deadline_s=deadline_s) as judge:
        verdicts = await judge.judge(row, [*HANGING.values(), r"$\boxed{0.5}$"])
    names = [*HANGING, "right answer after them"]
    return {
        name: f"{verdict.score:g}, {verdict.reason}, {verdict.scoring_s:.1f} s"
        for name, verdict in zip(names, verdicts, strict=True)
    }


async def _ask(judge: Session[Problem], numbers: list[int]) -> list[Verdict]:
    return await judge.judge(row_of(numbers[0]), [completion_of(number) for number in numbers])


async def _in_rows(numbers: list[int], work: Callable[[list[int]], Awaitable[Any]]) -> list[Any]:
    room = asyncio.Semaphore(AT_ONCE)
    rows: dict[int, list[int]] = {}
    for number in numbers:
        rows.setdefault(number // ROW, []).append(number)

    async def one(of_row: list[int]) -> Any:
        async with room:
            return await work(of_row)

    return list(await asyncio.gather(*map(one, rows.values())))


async def _rate(numbers: list[int], work: Callable[[list[int]], Awaitable[Any]]) -> dict[str, int]:
    started = time.perf_counter()
    await _in_rows(numbers, work)
    return {"verdicts_per_s": round(len(numbers) / (time.perf_counter() - started))}
