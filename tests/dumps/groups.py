"""Groups for the dump tests, and functions that read task names and indices from dumped groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from reasoning_env.dumps.format import DumpedGroup
from reasoning_env.records import Group
from tests.records import make_rollout, make_spec, problem_of

REPOSITORY = Path(__file__).parents[2]
PASSED = "reasoning_gym_environment_rollouts_run_{:04d}.jsonl"
FAILED = "reasoning_gym_environment_FAILED_rollouts_run_{:04d}.jsonl"
PROMPT = ({"role": "system", "content": "Think."}, {"role": "user", "content": "What is 1 + 1?"})


def make_group(
    scores: tuple[float, ...] = (1.0, 0.0),
    index: int = 0,
    *,
    text: str = "<answer>2</answer>",
    params: dict[str, Any] | None = None,
    metadata_json: str = '{"difficulty": 1}',
    verdict: bool = True,
) -> Group:
    spec = make_spec(index=index, params=params or {})
    rollout = replace(make_rollout(), text=text)
    if not verdict:
        rollout = replace(rollout, verdict=None)
    problem = problem_of(spec, metadata=metadata_json, params=spec.params, level=0.25)
    return Group(problem, PROMPT, tuple(replace(rollout, score=score) for score in scores))


def passed(index: int = 0) -> Group:
    return make_group((1.0, 0.0), index)


def failed(index: int = 0) -> Group:
    return make_group((0.0, 0.0), index)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def indices(groups: Iterator[DumpedGroup]) -> list[int | None]:
    return [group.index for group in groups]
