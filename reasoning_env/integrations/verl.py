"""verl: a Parquet file of problems by reference, and the reward function for them.

    python -m reasoning_env.integrations.verl train.parquet --rows 10000 --tasks gcd,chain_sum --seed 1
    python -m reasoning_env.integrations.verl test.parquet --evaluation --tasks gcd,chain_sum
    python -m reasoning_env.integrations.verl hard.parquet --level random --exclude games --config run.yaml

    reward.custom_reward_function.path=pkg://reasoning_env.integrations.verl
    reward.custom_reward_function.name=compute_score

verl's reward managers `naive`, `dapo`, `gdpo` and `rate_limited` call the coroutine. `remote` calls no coroutines: with
it, the name is `compute_score_blocking`. `main_ppo` of verl 0.9.1 does not call the older managers in
`verl.workers.reward_manager`, and neither function is for them.

Levels are fixed or random, because verl reads the rows once and no process sees a whole group. verl has no reward of
None, so an infrastructure error is retried and then raised. With the variable `REASONING_JUDGE_URL`, all reward workers
of a node share the processes of a `judge` server; otherwise each reward worker has a pool of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Sequence
from functools import cache
from typing import Any

import pandas

from reasoning_env.bridge import Bridge
from reasoning_env.errors import ConfigError, ReasoningEnvError, ScoringError
from reasoning_env.records import Verdict
from reasoning_env.runtime.text import visible
from reasoning_env.settings import ReasoningSettings
from reasoning_env.storage.config_files import read_core_settings

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


def write_parquet(path: str, rows: int | None, settings: ReasoningSettings | None = None, **fields: Any) -> None:
    """Write the first `rows` problems of the stream, or with None the evaluation set. The two share no question.

    The settings are an object, or the keywords `fields`. Raises ConfigError for a curriculum, whose levels follow
    verdicts that do not exist when the rows are written.
    """
    with Bridge(settings, start=False, **fields) as bridge:
        if bridge.session.settings.complexity_mode == "curriculum":
            remedy = "take `random` or a level"
            raise ConfigError(
                "verl reads its rows once, so that no curriculum is possible", setting="complexity_mode", remedy=remedy
            )
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


OPTIONS = {
    "tasks": "--tasks",
    "exclude_tasks": "--exclude",
    "task_params": "--params",
    "seed": "--seed",
    "complexity_level": "--level",
    "complexity_mode": "--level",
}
"""The options that are settings, by setting."""


def main(argv: Sequence[str] | None = None) -> int:
    """Write a file as the command line asks; returns 0, or 2 after a line on stderr for a setting that is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m reasoning_env.integrations.verl", description="Write problems as Parquet for verl."
    )
    parser.add_argument("path", help="the file to write")
    parser.add_argument("--rows", type=int, default=10_000, help="problems to train on (default: %(default)s)")
    parser.add_argument(
        "--evaluation", action="store_true", help="write the evaluation set instead of rows to train on"
    )
    parser.add_argument("--tasks", help="names, globs or categories, joined by commas (default: all)")
    parser.add_argument("--exclude", dest="exclude_tasks", metavar="TASKS", help="tasks to leave out of --tasks")
    parser.add_argument(
        "--params",
        dest="task_params",
        metavar="MAPPING",
        help="parameters of the library's config, by task: '{chain_sum: {min_terms: 4}}'",
    )
    parser.add_argument("--seed", help="seed of the stream (default: 42)")
    parser.add_argument("--level", help="difficulty from 0 to 1, or `random` (default: the library's own)")
    parser.add_argument(
        "--config", metavar="FILE", action="append", default=[], help="a YAML file with settings, as `serve` takes it"
    )
    options = parser.parse_args(argv)
    named = {name: getattr(options, name) for name in ("tasks", "exclude_tasks", "task_params", "seed")}
    given = {name: value for name, value in named.items() if value is not None}
    if options.level == "random":
        given |= {"complexity_mode": "random", "complexity_level": None}
    elif options.level is not None:
        given |= {"complexity_mode": None, "complexity_level": options.level}
    try:
        if options.rows < 1:
            raise ConfigError("must be at least 1", setting="--rows", got=options.rows)
        settings, others = read_core_settings(options.config, {}, given)
        if others:
            print(f"not used by this command: {visible(', '.join(others))}", file=sys.stderr)
        write_parquet(options.path, None if options.evaluation else options.rows, settings)
    except ReasoningEnvError as error:
        print(f"{parser.prog}: {visible(error.describe(OPTIONS))}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
