"""Measure the processor time of a generator worker for each problem that is served, task by task.

`python -m benchmarks.generation` requests `--count` problems of each task from a pool with one generator, at the
defaults and at random levels. The time of a problem includes rejected draws, corrections, clarifications and the reply.
A problem that exceeds its deadline counts with the deadline, and a failure counts with the time until it fails. The
first problem of each task does not count, because a worker then loads the task's data.

Prints the mean and the longest time of each task on stderr, then one line of JSON, in milliseconds. Means are over
tasks, each with the same weight; at random levels, tasks without levels count with their defaults. Needs Linux.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from reasoning_env.errors import GenerationError
from reasoning_env.records import ProblemRequest, ProblemSpec, Split
from reasoning_env.seeds import hash_fraction, train_seed
from reasoning_env.settings import ReasoningSettings
from reasoning_env.tasks import COMPOSITE
from reasoning_env.workers.pool import PoolSettings, WorkerPool
from tools.running import choose_tasks

PATIENCE_S = 3600.0
"""Wall-clock limit for a problem on a busy machine. Its processor time has a separate limit."""
SHOWN = 12


async def measure(tasks: Sequence[str], options: argparse.Namespace, *, at_levels: bool) -> dict[str, list[float]]:
    """Return the milliseconds of each problem, by task."""
    settings = ReasoningSettings(num_generators=1, num_verifiers=1)
    pool = WorkerPool(PoolSettings(settings))
    library = await pool.start()
    clock = GeneratorClock(pool)
    took_ms: dict[str, list[float]] = {}
    try:
        for task in tasks:
            took_ms[task] = []
            for number in range(options.count + 1):
                seed = train_seed(options.seed, 0, number, 0)
                level = hash_fraction("random level", seed) if at_levels and task in library.adjustable else None
                spec = ProblemSpec(ProblemRequest(task, seed, {}, level), Split.TRAIN, number)
                took_ms[task].append(1000 * await clock.time(spec, settings.generation_deadline_s))
            del took_ms[task][0]
    finally:
        await pool.close()
    return took_ms


class GeneratorClock:
    """Measures the processor time that the only generator of a pool takes for a problem, in seconds."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._pid = 0
        self._worked_s = 0.0

    async def time(self, spec: ProblemSpec, limit_s: float) -> float:
        failed = False
        try:
            await self._pool.generate(spec, PATIENCE_S, cpu_s=limit_s)
        except GenerationError as error:
            print(error, file=sys.stderr)
            failed = True
        generator = self._pool.worker_pids[0]
        if failed and generator != self._pid:  # the worker was killed at its limit and replaced
            return limit_s
        before_s = self._worked_s if generator == self._pid else 0.0
        self._pid, self._worked_s = generator, _worked_s(generator)
        return self._worked_s - before_s


def _worked_s(pid: int) -> float:
    """Return the processor time of a process with one thread, with a finer resolution than its `stat`."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def summarize(took_ms: dict[str, list[float]]) -> dict[str, object]:
    means = {task: statistics.fmean(times) for task, times in took_ms.items()}
    slowest = sorted(means, key=means.__getitem__, reverse=True)
    everything = sorted(ms for times in took_ms.values() for ms in times)
    return {
        "mean_ms": round(statistics.fmean(means.values()), 3),
        "median_task_ms": round(statistics.median(means.values()), 3),
        "p99_ms": round(everything[int(0.99 * len(everything))], 1),
        "longest_ms": round(everything[-1], 1),
        "slowest_ms": {task: round(means[task], 1) for task in slowest[:SHOWN]},
    }


async def main(options: argparse.Namespace) -> None:
    tasks = [task for task in choose_tasks(options.tasks) if task != COMPOSITE]
    figures = {}
    for name, at_levels in (("defaults", False), ("random_levels", True)):
        if name in options.at:
            took_ms = await measure(tasks, options, at_levels=at_levels)
            figures[name] = summarize(took_ms)
            for task in sorted(tasks, key=lambda task: -sum(took_ms[task])):
                times = took_ms[task]
                print(f"{name:14}{task:28}{statistics.fmean(times):9.2f}{max(times):10.1f}", file=sys.stderr)
    print(json.dumps({"benchmark": "generation", **vars(options), **figures}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="*", metavar="NAME,NAME", help="patterns of tasks (default: all)")
    parser.add_argument("--count", type=int, default=100, help="problems of each task (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the problems (default: %(default)s)")
    parser.add_argument("--at", nargs="+", default=["defaults", "random_levels"], choices=["defaults", "random_levels"])
    asyncio.run(main(parser.parse_args()))
