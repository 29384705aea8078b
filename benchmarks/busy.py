"""Measure groups/s and delays of the event loop beside other busy processes, by the workers' niceness.

`python -m benchmarks.busy` runs the environment as `benchmarks.throughput` does (64 groups in flight, groups of 8, 200
tokens a completion, all tasks, an inference server that answers at once) beside 0, 2 and 6 processes that are always
busy, as a trainer's data loaders are, with each `--niceness` of the workers. `--raise N` also raises the priority
of the main process by N, which only root may do.

Prints one line for each run on stderr, then one line of JSON: groups/s, and delays of the event loop in milliseconds
(99th percentile and longest), as medians over `--seeds`. Takes about 20 seconds a run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from reasoning_env.workers import fork_server
from reasoning_env.workers.sandbox import set_group_priority

from .throughput import Environment, Load, in_fresh_process, measure, medians

PRINTED_FIGURES = ("groups_per_s", "stall_p99_ms", "stall_max_ms")


@contextmanager
def busy_processes(number: int) -> Iterator[None]:
    """Run processes that take all available processor time, each in its own session."""
    processes = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True) for _ in range(number)
    ]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


async def measure_raised(load: Load, steps: int, niceness: int) -> dict[str, float]:
    """Measure the environment in a process with a raised priority. Its workers have their own niceness."""
    fork_server.WORKER_NICENESS = niceness
    os.nice(-steps)
    if steps:
        set_group_priority(-steps)
    return await measure(Environment, load)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--niceness", nargs="+", type=int, default=[0, 2, 5, 10], help="of the workers")
    parser.add_argument("--busy", nargs="+", type=int, default=[0, 2, 6], help="numbers of busy processes")
    parser.add_argument(
        "--raise", dest="raised", type=int, default=0, help="raise the priority of the main process by this much"
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--groups", type=int, default=600, help="groups to measure over, for each seed")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for number in options.busy:
        for niceness in options.niceness:
            runs = []
            for seed in options.seeds:
                load = Load(options.groups, 200, 64, 200, seed)
                with busy_processes(number):
                    runs.append(in_fresh_process(measure_raised, load, options.raised, niceness))
            row = {"busy": number, "niceness": niceness, **{name: medians(runs)[name] for name in PRINTED_FIGURES}}
            print(row, file=sys.stderr, flush=True)
            rows.append(row)
    print(json.dumps({"benchmark": "busy", "cores": os.cpu_count(), **vars(options), "rows": rows}))


if __name__ == "__main__":
    main()
