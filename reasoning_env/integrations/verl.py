"""verl: a Parquet file of problems by reference, and the reward function for them.

    python -m reasoning_env.integrations.verl train.parquet --rows 10000 --tasks gcd,chain_sum --seed 1
    python -m reasoning_env.integrations.verl test.parquet --evaluation --tasks gcd,chain_sum

    reward.custom_reward_function.path=pkg://reasoning_env.integrations.verl
    reward.custom_reward_function.name=compute_score

The reward manager `remote` calls no coroutines: with it, the name is `compute_score_blocking`.

Levels are fixed or random, because verl reads the rows once and no process sees a whole group. verl has no reward of
None, so an infrastructure error is retried and then raised. With the variable `REASONING_JUDGE_URL`, all reward workers
of a node share the processes of a `judge` server; otherwise each reward worker has a pool of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from functools import cache
from typing import Any

import pandas

from reasoning_env.bridge import Bridge
from reasoning_env.errors import ScoringError
from reasoning_env.records import Verdict

DATA_SOURCE = "reasoning_gym"
NOT_JUDGED = "a completion could not be judged; the log above says why"
RETRY_PAUSES_S = (1.0, 5.0, 30.0)
"""The last pause is longer than the restart of a judge takes."""


@cache
def judge() -> Bridge:
    """Return the bridge of this process. The bridge starts its workers at the first call, on its own thread."""
    return Bridge(judge_url=os.environ.get("REASONING_JUDGE_URL"), start=False)


async def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None, **_: Any
) -> dict[str, Any]:
    """Return the score of a completion and the reason; `ground_truth` is the problem's reference.

    Raises ScoringError when an infrastructure error persists, and InvalidReferenceError for a wrong reference.
    """
    for pause_s in (*RETRY_PAUSES_S, None):
        [verdict] = await judge().ajudge(ground_truth, [solution_str])
        if verdict is not None:
            return _score(verdict)
        if pause_s is not None:
            await asyncio.sleep(pause_s)
    raise ScoringError(NOT_JUDGED)


def compute_score_blocking(
    data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None, **_: Any
) -> dict[str, Any]:
    """Do the same as `compute_score` without a coroutine, for verl's reward manager `remote`."""
    for pause_s in (*RETRY_PAUSES_S, None):
        [verdict] = judge().judge(ground_truth, [solution_str])
        if verdict is not None:
            return _score(verdict)
        if pause_s is not None:
            time.sleep(pause_s)
    raise ScoringError(NOT_JUDGED)


def _score(verdict: Verdict) -> dict[str, Any]:
    return {"score": verdict.score, "reason": verdict.reason.value, "correct": float(verdict.correct)}


def write_parquet(path: str, rows: int | None, **settings: Any) -> None:
    """Write the first `rows` problems of the stream, or with None the evaluation set. The two share no question.

    `settings` are settings of the bridge.
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
    parser.add_argument(
        "--evaluation", action="store_true", help="write the evaluation set instead of rows to train on"
    )
    parser.add_argument("--tasks", default="all", help="names, globs or categories, joined by commas")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--level", type=float, help="difficulty from 0 to 1 (default: the library's own)")
    options = parser.parse_args()
    rows = None if options.evaluation else options.rows
    write_parquet(options.path, rows, tasks=options.tasks, seed=options.seed, complexity_level=options.level)


if __name__ == "__main__":
    main()
