"""Inspect AI: the evaluation set as a task, scored by this project's verifiers.

    inspect eval reasoning_env/reasoning_gym --model openai/gpt-5 -T tasks=gcd,chain_sum -T limit=20
    inspect eval reasoning_env/reasoning_gym --model openai/gpt-5 -T preset=rg-hard -T limit=5

Without an installation, use the file `reasoning_env/integrations/inspect.py` as the task.

Limit the tokens of a completion with --max-tokens, because Inspect sets no limit.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageSystem, ChatMessageUser
from inspect_ai.scorer import Score, Target, grouped, mean, scorer, stderr
from inspect_ai.solver import TaskState, generate

from reasoning_env.bridge import Bridge

MESSAGES = {"system": ChatMessageSystem, "user": ChatMessageUser}


@cache
def _bridge(settings_json: str) -> Bridge:
    return Bridge(**json.loads(settings_json))


@task
def reasoning_gym(
    tasks: str | list[str] = "all",
    preset: str | None = None,
    limit: int | None = None,
    seed: int = 123,
    task_modules: str | list[str] = "",
    checkout: str | None = None,
    settings: dict[str, Any] | None = None,
) -> Task:
    """Make the task: `limit` problems of each task of `tasks`, or of a preset.

    Args:
        tasks: Names, globs or categories, separated by commas or as a list.
        preset: `rg-easy` or `rg-hard`, the set of a published evaluation.
        limit: Number of problems of each task.
        seed: Seed of the problems.
        task_modules: Modules with your own tasks.
        checkout: Folder of a clone of reasoning-gym, to use instead of the installed package.
        settings: More settings of `Bridge`: `-T 'settings={"rewards": "library", "eval_level": 0.5}'`.
    """
    # Inspect's command line converts a value with commas to a list.
    chosen: dict[str, object] = {**(settings or {}), "tasks": _joined(tasks), "eval_preset": preset, "eval_seed": seed}
    chosen |= {"task_modules": _joined(task_modules), "checkout": checkout}
    if limit is not None:
        chosen["num_eval_samples_per_task"] = limit
    bridge = _bridge(json.dumps(chosen, sort_keys=True))
    samples = [
        Sample(
            # The id must identify the problem, because Inspect reuses samples by id in retries. A position does not.
            id=problem.reference,
            input=[MESSAGES[message["role"]](content=message["content"]) for message in bridge.messages(problem)],
            target=problem.answer or "",
            metadata={"task": problem.task, "reference": problem.reference},
        )
        for problem in bridge.evaluation_problems()
    ]
    return Task(dataset=MemoryDataset(samples, name="reasoning_gym"), solver=generate(), scorer=judged(bridge))


def _joined(names: str | list[str]) -> str:
    return names if isinstance(names, str) else ",".join(names)


@scorer(metrics=[grouped(mean(), "task"), mean(), stderr()])
def judged(bridge: Bridge) -> Any:
    """Score a completion in a sandboxed process. An infrastructure error fails the sample; it is never scored 0."""

    async def score(state: TaskState, target: Target) -> Score:
        verdict = await bridge.averdict(state.metadata["reference"], state.output.completion)
        return Score(value=verdict.score, answer=verdict.answer, explanation=verdict.reason.value)

    return score
