"""verl: the reward function for rows that `problems --format verl` writes.

    reward.custom_reward_function.path=pkg://reasoning_env.integrations.verl
    reward.custom_reward_function.name=compute_score

verl's reward managers `naive`, `dapo`, `gdpo` and `rate_limited` call the coroutine. `remote` calls no coroutines: with
it, the name is `compute_score_blocking`. `main_ppo` of verl 0.9.1 does not call the older managers in
`verl.workers.reward_manager`, and neither function is for them.

verl has no reward of None, so an infrastructure error is retried and then raised. With the variable
`REASONING_JUDGE_URL`, all reward workers of a node share the processes of a `judge` server; otherwise each reward
worker has a pool of its own.
"""

from __future__ import annotations

import asyncio
import os
import time
from functools import cache
from typing import Any

from reasoning_env.bridge import Bridge
from reasoning_env.errors import ScoringError
from reasoning_env.records import Verdict

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
