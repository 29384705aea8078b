"""The hostile corpus of the tests against a pool with default settings, beside a heartbeat on the event loop.

`python -m benchmarks.hostile` scores every hostile answer to every task, the slow ones included, and after each of them
an ordinary answer to the same task and one to another; then it scores hostile completions by the group. Prints one line
of JSON, and each offender on stderr as it comes. Exits with 1 when something was executed, an exception escaped, an
answer earned more than it may, or an ordinary answer earned another score than before.

`wall_beyond_deadline_s` is by how much the slowest verdict came after its deadline, waiting for a free verifier worker
and replacing the killed one included. `executed` counts what the traps saw. Times are in the units of their names;
memory is what the main process' resident set grew by.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import json
import logging
import os
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks._usage import Heartbeat, resident_mb
from benchmarks.throughput import TASKS
from reasoning_env.records import Reason, Rollout
from reasoning_env.rewards import score_rollouts
from reasoning_env.workers.pool import PoolSettings, WorkerPool
from tests.workers.hostile import (
    LONG,
    WITNESSES,
    Attack,
    Target,
    Traps,
    attack,
    completions,
    hostile_answers,
    make_target,
)

COMPLETION_TASK = "chain_sum"
GROUP_SIZE = 8
LONG_TEXT = 1_000_000
"""Characters of the longest completions: more than any token budget makes likely."""
MUST_BE_ZERO = ("executed", "escaped", "undeserved", "wrong_afterwards", "completions_misjudged")


@dataclass
class Tally:
    """What came of the attacks so far."""

    answers: int = 0
    executed: int = 0
    escaped: int = 0
    undeserved: int = 0
    wrong_afterwards: int = 0
    completions: int = 0
    completions_misjudged: int = 0
    reasons: Counter[Reason] = field(default_factory=Counter)
    slowest_scored_s: float = 0.0
    wall_beyond_deadline_s: float = 0.0

    def add(self, one: Attack, deadline_s: float) -> None:
        self.answers += 1
        self.escaped += one.verdict is None
        self.undeserved += one.undeserved
        self.wrong_afterwards += len(one.harmed)
        worth_telling = one.verdict is None or one.undeserved or one.harmed
        if one.verdict is not None:
            reason = one.verdict.reason
            self.reasons[reason] += 1
            self.wall_beyond_deadline_s = max(self.wall_beyond_deadline_s, one.wall_s - deadline_s)
            if reason is Reason.SCORED:
                self.slowest_scored_s = max(self.slowest_scored_s, one.verdict.scoring_s)
            worth_telling = worth_telling or reason in (Reason.TIMEOUT, Reason.CRASH, Reason.BLOCKED)
        if worth_telling:
            tell(str(one))


def tell(offender: str) -> None:
    print(offender.encode("utf-8", "backslashreplace").decode(), file=sys.stderr, flush=True)


async def measure(tasks: Sequence[str], seeds: int, slow: bool) -> dict[str, Any]:
    settings = PoolSettings()
    pool = WorkerPool(settings)
    traps = Traps()
    tally = Tally()
    await pool.start()
    try:
        targets = [await make_target(pool, task, 1 + 100 * seed) for task in tasks for seed in range(seeds)]
        witnesses = itertools.cycle([await make_target(pool, task) for task in WITNESSES])
        sums = await make_target(pool, COMPLETION_TASK)
        gc.collect()
        before_mb = resident_mb(os.getpid())
        heartbeat = Heartbeat()
        for target in targets:
            for hostile in hostile_answers(target.problem, traps):
                if slow or not hostile.slow:
                    tally.add(await attack(pool, target, hostile, next(witnesses)), settings.scoring_deadline_s)
            spring(traps, tally, target.problem.task)
        await score_completions(pool, sums, tally)
        spring(traps, tally, "completions")
        heartbeat.stop()
        gc.collect()
        growth_mb = resident_mb(os.getpid()) - before_mb
    finally:
        traps.close()
        await pool.close()
    return figures(tally, heartbeat.late_ms, growth_mb)


def spring(traps: Traps, tally: Tally, where: str) -> None:
    for event in traps.sprung():
        tally.executed += 1
        tell(f"{where}: {event}")


async def score_completions(pool: WorkerPool, target: Target, tally: Tally) -> None:
    """Whole groups, as in training, with long completions among them."""
    tried = [(one.text, one.paid) for one in completions(target.ordinary, "1234567")]
    for piece in ("<", "<answer>", "<think>", "</answer", "İ", "\ud800"):
        tried.append((piece * (LONG_TEXT // len(piece)), False))
    for position in range(0, len(tried), GROUP_SIZE):
        group = tried[position : position + GROUP_SIZE]
        rollouts = [Rollout(text, (1,), (1,), None, "stop") for text, _ in group]
        scored = await score_rollouts(pool, target.problem, rollouts, max_answer_bytes=LONG, max_tokens=LONG)
        for rollout, (text, paid) in zip(scored, group, strict=True):
            tally.completions += 1
            if (rollout.score == 1.0) is not paid:
                tally.completions_misjudged += 1
                tell(f"completion: {rollout.score:g} for {text[:80]!r}")


def figures(tally: Tally, late_ms: Sequence[float], growth_mb: float) -> dict[str, Any]:
    ordered = sorted(late_ms)
    return {
        "answers": tally.answers,
        "completions": tally.completions,
        **{name: getattr(tally, name) for name in MUST_BE_ZERO},
        "timeouts": tally.reasons[Reason.TIMEOUT],
        "crashes": tally.reasons[Reason.CRASH],
        "blocked": tally.reasons[Reason.BLOCKED],
        "verifier_errors": tally.reasons[Reason.VERIFIER_ERROR],
        "slowest_scored_s": round(tally.slowest_scored_s, 3),
        "wall_beyond_deadline_s": round(max(0.0, tally.wall_beyond_deadline_s), 3),
        "heartbeat_late_p99_ms": round(ordered[int(0.99 * len(ordered))], 2),
        "heartbeat_late_max_ms": round(ordered[-1], 2),
        "main_process_growth_mb": round(growth_mb, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=TASKS, metavar="TASK", help="tasks to attack; all by default")
    parser.add_argument("--seeds", type=int, default=1, help="problems of each task")
    parser.add_argument("--skip-slow", action="store_true", help="leave out the answers that are known to take long")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    result = asyncio.run(measure(options.tasks, options.seeds, not options.skip_slow))
    settings = {"tasks": len(options.tasks), "seeds": options.seeds, "slow": not options.skip_slow}
    print(json.dumps({"benchmark": "hostile", "cores": os.cpu_count(), **settings, **result}))
    return int(any(result[name] for name in MUST_BE_ZERO))


if __name__ == "__main__":
    sys.exit(main())
