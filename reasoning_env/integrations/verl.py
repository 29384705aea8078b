"""verl: the reward function for rows that `problems --format verl` writes.

    reward.custom_reward_function.path=pkg://reasoning_env.integrations.verl
    reward.custom_reward_function.name=compute_score

verl's reward managers `naive`, `dapo`, `gdpo` and `rate_limited` call the coroutine `compute_score`. `remote` cannot
call coroutines, so use the name `compute_score_blocking` with it. The older managers in `verl.workers.reward_manager`
are not supported; `main_ppo` of verl 0.9.1 does not use them.

After an infrastructure error, judging is retried, and a persisting error is raised. If the environment variable
`REASONING_JUDGE_URL` is set, all reward workers use this `judge` server. Otherwise each reward worker starts its own
pool of processes. The pool's settings, such as modules with your own tasks, are in `reward_kwargs.settings`:

    +reward.custom_reward_function.reward_kwargs.settings.task_modules=[/data/my_tasks.py]

`compute_score_of_row` judges rows of your own data with your function `score(completion, ground_truth, **extra_info)`.
With `remote`, use `compute_score_of_row_blocking`. `reward_kwargs.settings.score` names the function:

    reward.custom_reward_function.name=compute_score_of_row
    +reward.custom_reward_function.reward_kwargs.settings.score=my_rewards:score

If `REASONING_JUDGE_URL` is set, start the server with `judge --score my_rewards:score`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from reasoning_env.errors import ScoringError
from reasoning_env.integrations import process_bridge
from reasoning_env.records import Subject, Verdict

RESTART_PAUSES_S = (1.0, 5.0, 30.0)
"""Seconds between retries. The last pause is longer than a `judge` server needs to restart."""


async def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: object = None,
    settings: Mapping[str, object] | None = None,
    **_: object,
) -> dict[str, object]:
    """Return a completion's score, the parts of the score and the reason for the score.

    `ground_truth` is the reference that identifies the problem. The parts are items of the returned dict, so
    `algorithm.gdpo_reward_keys=[format,answer]` can select them.

    Raises ScoringError if an infrastructure error persists, and InvalidReferenceError for an invalid reference.
    """
    verdict = await _verdict(settings, ground_truth, solution_str)
    return {**_score(verdict), **verdict.parts}


def compute_score_blocking(*given: Any, **named: Any) -> dict[str, object]:
    """Call `compute_score` and wait for the result. verl's reward manager `remote` needs this function."""
    return asyncio.run(compute_score(*given, **named))


async def compute_score_of_row(
    data_source: str,
    solution_str: str,
    ground_truth: object,
    extra_info: Mapping[str, object] | None = None,
    settings: Mapping[str, object] | None = None,
    **_: object,
) -> dict[str, object]:
    """Judge a completion with a score function, which gets `ground_truth` and the items of `extra_info` as keywords.

    Raises ScoringError if an infrastructure error persists, and ConfigError if the function cannot be used.
    """
    verdict = await _verdict(settings, {**(extra_info or {}), "ground_truth": ground_truth}, solution_str)
    # One JSON string, because verl needs the same keys for all completions of a batch.
    parts = json.dumps(dict(verdict.own_parts or {}))
    return {**_score(verdict), "error": verdict.error or "", "parts": parts}


def compute_score_of_row_blocking(*given: Any, **named: Any) -> dict[str, object]:
    """Call `compute_score_of_row` and wait for the result. verl's reward manager `remote` needs this function."""
    return asyncio.run(compute_score_of_row(*given, **named))


async def _verdict(settings: Mapping[str, object] | None, subject: Subject, completion: str) -> Verdict:
    bridge = process_bridge(_as_json(settings))
    for pause_s in RESTART_PAUSES_S:
        with suppress(ScoringError):
            return await bridge.averdict(subject, completion)
        await asyncio.sleep(pause_s)
    return await bridge.averdict(subject, completion)


def _as_json(arguments: Mapping[str, object] | None) -> str:
    """Return the arguments of a `Bridge` as JSON, even if they are Hydra's mappings and lists."""
    return json.dumps(arguments or {}, sort_keys=True, default=_plain)


def _plain(value: Iterable[object]) -> object:
    return dict(value) if isinstance(value, Mapping) else list(value)


def _score(verdict: Verdict) -> dict[str, object]:
    return {"score": verdict.score, "reason": verdict.reason.value, "correct": float(verdict.correct)}
