"""Compare the faster generators with the library's, problem by problem, and their processor time.

`python -m benchmarks.faster` makes each task's problems at the defaults and at random levels, with the library's
generator and with its replacement, and compares everything that a worker would send. Items for which the library takes
over `--limit` seconds of processor time are counted, but not compared. `--mix N` measures N seeds of every task, with
equal weights.

The two sides alternate in separate processes, so that both see the same load of the machine. Prints a line to stderr
after each block of problems, then a line of JSON for each task and one for the mix. Times are in milliseconds of
processor time.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from reasoning_env.records import ProblemRequest
from reasoning_env.seeds import hash_fraction
from reasoning_env.tasks import COMPOSITE, TASKS
from reasoning_env.workers.child import freeze_imports
from reasoning_env.workers.faster import FasterGenerators
from reasoning_env.workers.library import Library

BLOCK = 50
SLOWEST = 12
LEVEL_SEEDS = 10**6
"""The first seed for problems at random levels."""
LIBRARY: Any = None
Spec = tuple[str, int, float | None]


class OutOfTime(BaseException):
    """Not an Exception, because the library catches all of them."""


def _stop(*_: object) -> None:
    raise OutOfTime


def generate(specs: Iterable[Spec], limit_s: float = 0.0) -> tuple[list[Any], list[float]]:
    """Return the result of each spec (an error as text; None beyond the limit) and its milliseconds."""
    made: list[Any] = []
    took_ms = []
    for task, seed, level in specs:
        started = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, limit_s)
        try:
            made.append(LIBRARY.generate(ProblemRequest(task, seed, {}, level, exact_seed=True, uncorrected=True)))
        except OutOfTime:
            made.append(None)
        except Exception as error:
            made.append(repr(error))
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        took_ms.append(1000 * (time.process_time() - started))
    return made, took_ms


def become_faster() -> None:
    """Use the replacements in this process, and drop the datasets that the library has built."""
    global LIBRARY
    FasterGenerators(LIBRARY.module, LIBRARY.tasks).install()
    LIBRARY = Library(None)


def describe(took_ms: list[float]) -> dict[str, float]:
    ordered = sorted(took_ms)
    named = {"mean": statistics.fmean(ordered), "p99.9": ordered[int(0.999 * len(ordered))], "max": ordered[-1]}
    return {name: round(value, 2) for name, value in named.items()}


@dataclass
class Measured:
    """The compared problems, and the milliseconds of each. With a limit, the clock of a side is coarse."""

    compared: int = 0
    different: list[Spec] = field(default_factory=list)
    library_ms: list[float] = field(default_factory=list)
    faster_ms: list[float] = field(default_factory=list)


def measure(specs: Sequence[Spec], limit_s: float) -> Measured:
    """Make problems with the unchanged library and with the replacements, block by block."""
    measured = Measured()
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(1, mp_context=context, initializer=become_faster) as faster_side:
        for start in range(0, len(specs), BLOCK):
            block = specs[start : start + BLOCK]
            library, library_ms = generate(block, limit_s)
            faster, faster_ms = faster_side.submit(generate, block).result()
            made = zip(block, library, faster, strict=True)
            pairs = [(spec, one, other) for spec, one, other in made if one is not None]
            measured.compared += len(pairs)
            measured.different += [spec for spec, one, other in pairs if one != other]
            measured.library_ms += library_ms
            measured.faster_ms += faster_ms
            told = f"{block[0]} to {block[-1]}: {len(measured.different)} of {measured.compared} differ so far"
            print(told, file=sys.stderr, flush=True)
    return measured


def compare(task: str, options: argparse.Namespace) -> dict[str, Any]:
    seeds = range(options.first, options.first + options.seeds)
    level_seeds = range(LEVEL_SEEDS + options.first, LEVEL_SEEDS + options.first + options.level_seeds)
    specs: list[Spec] = [(task, seed, None) for seed in seeds]
    specs += [(task, seed, hash_fraction("random level", seed)) for seed in level_seeds]
    measured = measure(specs, options.limit)
    return {
        "task": task,
        "compared": measured.compared,
        "different": measured.different,
        "beyond_the_limit": len(specs) - measured.compared,
        "library_ms": describe(measured.library_ms[: options.seeds]),
        "faster_ms": describe(measured.faster_ms[: options.seeds]),
        "library_at_levels_ms": describe(measured.library_ms[options.seeds :]),
        "faster_at_levels_ms": describe(measured.faster_ms[options.seeds :]),
    }


def measure_mix(options: argparse.Namespace) -> dict[str, Any]:
    tasks = sorted(TASKS.keys() - {COMPOSITE})
    measured = measure([(task, seed, None) for seed in range(options.mix) for task in tasks], options.limit)
    of_task = {task: statistics.fmean(measured.faster_ms[number :: len(tasks)]) for number, task in enumerate(tasks)}
    slowest = sorted(of_task, key=of_task.__getitem__, reverse=True)[:SLOWEST]
    return {
        "mix": options.mix,
        "compared": measured.compared,
        "different": measured.different,
        "library_ms": describe(measured.library_ms),
        "faster_ms": describe(measured.faster_ms),
        "over_10_s": sum(ms > 10_000 for ms in measured.faster_ms),
        "slowest_ms": {task: round(of_task[task], 1) for task in slowest},
    }


def main() -> None:
    global LIBRARY
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="*", default=[task.name for task in TASKS.values() if task.faster is not None])
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1500, help="seeds of each task at the defaults")
    parser.add_argument("--level-seeds", type=int, default=500, help="seeds of each task at random levels")
    parser.add_argument("--limit", type=float, default=30.0, help="limit of seconds for an item of the library")
    parser.add_argument("--mix", type=int, default=0, help="seeds of every task to measure the mix with")
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # like workers; without it, two runs of the library differ
        os.execve(
            sys.executable,
            [sys.executable, "-m", "benchmarks.faster", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": os.getcwd()},
        )
    signal.signal(signal.SIGPROF, _stop)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # some of the library's generators print
    os.chdir(tempfile.mkdtemp())
    LIBRARY = Library(None)
    freeze_imports()  # as workers do
    for task in options.tasks:
        print(json.dumps(compare(task, options)), file=out, flush=True)
    if options.mix:
        print(json.dumps(measure_mix(options)), file=out, flush=True)


if __name__ == "__main__":
    main()
