"""Compare the faster generators with the library's own, problem by problem, and measure the processor time of both.

`python -m benchmarks.faster` makes each task's problems at the defaults and at five levels, with the library as it is
and with the replacement, and compares all that a worker would send. Items for which the library takes over `--limit`
seconds of processor time are counted, not compared. `--mix N` measures N seeds of every task, which weigh alike.

Prints a line of JSON for each task as soon as it is done, and one for the mix. Times are in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from importlib import import_module
from typing import Any

from reasoning_env.library_facts import KNOWN_TASKS
from reasoning_env.workers.faster import REPLACEMENTS, FasterGenerators
from reasoning_env.workers.library import Library

LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0)
LIBRARY: Any = None
Spec = tuple[str, int, float | None]


class OutOfTime(BaseException):
    """No Exception, since the library swallows those."""


def _stop(*_: object) -> None:
    raise OutOfTime


def generate(specs: Iterable[Spec], limit_s: float = 0.0) -> tuple[list[Any], list[float]]:
    """What is made of each spec, an error's text or, beyond the limit, None; and the milliseconds that each took.

    A limit makes the clock coarse: some milliseconds.
    """
    made: list[Any] = []
    took_ms = []
    for task, seed, level in specs:
        started = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, limit_s)
        try:
            made.append(LIBRARY.generate(task, seed, {}, level))
        except OutOfTime:
            made.append(None)
        except Exception as error:
            made.append(repr(error))
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        took_ms.append(1000 * (time.process_time() - started))
    return made, took_ms


def describe(took_ms: list[float]) -> dict[str, float]:
    ordered = sorted(took_ms)
    named = {"mean": statistics.fmean(ordered), "p99.9": ordered[int(0.999 * len(ordered))], "max": ordered[-1]}
    return {name: round(value, 2) for name, value in named.items()}


def compare(replacement: Any, options: argparse.Namespace) -> dict[str, Any]:
    seeds = range(options.first, options.first + options.seeds)
    specs: list[Spec] = [(replacement.task, seed, None) for seed in seeds]
    for number, level in enumerate(LEVELS):
        specs += [(replacement.task, 10**6 * (number + 1) + seed, level) for seed in seeds[: options.level_seeds]]
    library, library_ms = generate(specs, options.limit)
    replacement.install(lambda name: import_module(f"reasoning_gym.{name}"))
    faster, faster_ms = generate(specs)
    pairs = [(spec, one, other) for spec, one, other in zip(specs, library, faster, strict=True) if one is not None]
    return {
        "task": replacement.task,
        "compared": len(pairs),
        "different": [spec for spec, one, other in pairs if one != other],
        "beyond_the_limit": len(specs) - len(pairs),
        "library_ms": describe(library_ms[: options.seeds]),
        "faster_ms": describe(faster_ms[: options.seeds]),
        "faster_at_levels_ms": describe(faster_ms[options.seeds :] or [0.0]),
    }


def main() -> None:
    global LIBRARY
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="*", default=[replacement.task for replacement in REPLACEMENTS])
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1500, help="seeds of each task at the defaults")
    parser.add_argument("--level-seeds", type=int, default=100, help="seeds of each task at each of five levels")
    parser.add_argument("--limit", type=float, default=30.0, help="seconds for an item of the library's")
    parser.add_argument("--mix", type=int, default=0, help="seeds of every task to measure the mix with")
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # as workers have it: without it the library differs from itself
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
    for replacement in REPLACEMENTS:
        if replacement.task in options.tasks:
            print(json.dumps(compare(replacement, options)), file=out, flush=True)
    if options.mix:
        FasterGenerators(LIBRARY.module, LIBRARY.tasks).install()
        tasks = sorted(KNOWN_TASKS - {"composite"})
        _, took_ms = generate((task, seed, None) for seed in range(options.mix) for task in tasks)
        print(json.dumps({"mix": describe(took_ms), "over_10_s": sum(ms > 10_000 for ms in took_ms)}), file=out)


if __name__ == "__main__":
    main()
