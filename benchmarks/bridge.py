"""Measure the cost of a Bridge over the pool alone: processor time of the calling process per rollout.

Both score the same groups of 8, one group at a time, alternating every `--groups` groups. Prints one line of JSON:
processor time of each in milliseconds per rollout and the difference (median, minimum and maximum over `--rounds`),
wall time of each, and rollouts/s of 64 threads that share the bridge.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

from reasoning_env import Problem, ReasoningSettings, WorkerPool
from reasoning_env.bridge import Bridge
from reasoning_env.rewards import score_texts
from reasoning_env.workers.pool import PoolSettings

GROUP_SIZE = 8
THREADS = 64
TASKS = ["chain_sum", "gcd", "basic_arithmetic", "spell_backward"]
SETTINGS = ReasoningSettings(tasks=TASKS, seed=1, num_generators=1, num_verifiers=1)

Groups = list[tuple[Problem, list[str]]]


class Clock:
    """Measures milliseconds per rollout inside `with`."""

    def __init__(self, groups: Groups) -> None:
        self._rollouts = len(groups) * GROUP_SIZE

    def __enter__(self) -> Clock:
        self._cpu_s, self._wall_s = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.cpu_ms = 1000 * (time.process_time() - self._cpu_s) / self._rollouts
        self.wall_ms = 1000 * (time.perf_counter() - self._wall_s) / self._rollouts


def completions(problem: Problem) -> list[str]:
    """Return half right completions, half different wrong completions."""
    wrong = [f"<think>{'so ' * 200}</think><answer>{number}</answer>" for number in range(GROUP_SIZE // 2)]
    return [*[f"<answer>{problem.answer}</answer>"] * (GROUP_SIZE - len(wrong)), *wrong]


async def judge_with_pool(pool: WorkerPool, groups: Groups) -> Clock:
    with Clock(groups) as clock:
        for problem, texts in groups:
            await score_texts(pool, problem, texts)
    return clock


def judge_with_bridge(bridge: Bridge, groups: Groups) -> Clock:
    with Clock(groups) as clock:
        for problem, texts in groups:
            bridge.judge(problem, texts)
    return clock


def judge_with_threads(bridge: Bridge, groups: Groups) -> Clock:
    with ThreadPoolExecutor(THREADS) as threads, Clock(groups) as clock:
        list(threads.map(lambda group: bridge.judge(*group), groups))
    return clock


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with asyncio.Runner() as runner, Bridge(SETTINGS) as bridge:
        pool = WorkerPool(PoolSettings(SETTINGS))
        runner.run(pool.start())
        problems = [bridge.next() for _ in range(options.groups)]
        groups = [(problem, completions(problem)) for problem in problems]
        runner.run(judge_with_pool(pool, groups))
        judge_with_bridge(bridge, groups)
        alone, bridged = [], []
        for _ in range(options.rounds):
            alone.append(runner.run(judge_with_pool(pool, groups)))
            bridged.append(judge_with_bridge(bridge, groups))
        threaded = judge_with_threads(bridge, groups)
        runner.run(pool.close())
    over = [theirs.cpu_ms - ours.cpu_ms for ours, theirs in zip(alone, bridged, strict=True)]
    figures = {
        "pool_cpu_ms": statistics.median(clock.cpu_ms for clock in alone),
        "bridge_cpu_ms": statistics.median(clock.cpu_ms for clock in bridged),
        "over_pool_cpu_ms": statistics.median(over),
        "over_pool_least": min(over),
        "over_pool_greatest": max(over),
        "pool_wall_ms": statistics.median(clock.wall_ms for clock in alone),
        "bridge_wall_ms": statistics.median(clock.wall_ms for clock in bridged),
    }
    rates = {"threads_rollouts_per_s": round(1000 / threaded.wall_ms)}
    print(json.dumps({name: round(value, 3) for name, value in figures.items()} | rates))


if __name__ == "__main__":
    main()
