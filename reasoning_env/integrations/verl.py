"""verl: rows of references in Parquet, and the reward function that judges them.

    python -m reasoning_env.integrations.verl train.parquet --rows 10000 --tasks gcd,chain_sum --seed 1
    python -m reasoning_env.integrations.verl test.parquet --evaluation --tasks gcd,chain_sum

    reward.custom_reward_function.path=pkg://reasoning_env.integrations.verl
    reward.custom_reward_function.name=compute_score

Levels are fixed or random: verl reads its rows once, and no process sees whole groups. verl has no reward of None, so a
fault of ours is tried again and then raised. With `REASONING_JUDGE_URL` all reward workers of a node share a `judge`
server's processes; without, each has a pool of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from functools import cache
from typing import Any

import pandas

from reasoning_env.bridge import Bridge
from reasoning_env.errors import ScoringError

DATA_SOURCE = "reasoning_gym"
RETRY_PAUSES_S = (1.0, 5.0, 30.0)
"""The last one outlasts a restart of a judge."""


@cache
def judge() -> Bridge:
    """Return this process' bridge, started when it is first needed."""
    return Bridge(judge_url=os.environ.get("REASONING_JUDGE_URL"))


async def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None, **_: Any
) -> dict[str, Any]:
    """Return the score of a completion with its reason; `ground_truth` is the problem's reference.

    Raises ScoringError when a fault of ours persists, and InvalidReferenceError for what is no reference.
    """
    for pause_s in (*RETRY_PAUSES_S, None):
        [verdict] = await judge().ajudge(ground_truth, [solution_str])
        if verdict is not None:
            return {"score": verdict.score, "reason": verdict.reason.value, "correct": float(verdict.correct)}
        if pause_s is not None:
            await asyncio.sleep(pause_s)
    raise ScoringError("a completion could not be judged; the log above says why")


def write_parquet(path: str, rows: int | None, **settings: Any) -> None:
    """Write the first `rows` problems of a stream, or without a number the evaluation set, which no stream asks.

    `settings` are the bridge's.
    """
    with Bridge(**settings) as bridge:
        problems = bridge.evaluation_problems() if rows is None else [bridge.next() for _ in range(rows)]
        table = [
            {
                "data_source": DATA_SOURCE,
                "prompt": bridge.messages(problem),
                "ability": problem.task,
                "reward_model": {"style": "rule", "ground_truth": problem.reference},
                "extra_info": {"index": problem.spec.index, "task": problem.task},
            }
            for problem in problems
        ]
    pandas.DataFrame(table).to_parquet(path)


def main() -> None:
    parser = argparse.ArgumentParser(description="Write problems as Parquet for verl.")
    parser.add_argument("path")
    parser.add_argument("--rows", type=int, default=10_000, help="problems to train on (default: %(default)s)")
    parser.add_argument("--evaluation", action="store_true", help="write the evaluation set instead, which no row asks")
    parser.add_argument("--tasks", default="all", help="names, globs or categories, joined by commas")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--level", type=float, help="difficulty from 0 to 1 (default: the library's own)")
    options = parser.parse_args()
    rows = None if options.evaluation else options.rows
    write_parquet(options.path, rows, tasks=options.tasks, seed=options.seed, complexity_level=options.level)


if __name__ == "__main__":
    main()
