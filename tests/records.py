"""Records for tests, with defaults for fields that a test does not name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from reasoning_env.problems.references import Reference
from reasoning_env.records import (
    Group,
    LibraryInfo,
    Problem,
    ProblemRequest,
    ProblemSpec,
    Reason,
    Rollout,
    Sampling,
    Split,
    TaskInfo,
    Verdict,
)

MESSAGES = ({"role": "user", "content": "What is 1 + 1?"},)
SAMPLING = Sampling(temperature=0.7, top_p=0.9, token_limit=200, split="train")


def make_library(categories: Mapping[str, str], **fields: Any) -> LibraryInfo:
    """Return a library with these tasks."""
    tasks = tuple(TaskInfo(name, category) for name, category in categories.items())
    known = {"version": "1", "path": "/", "tasks": tasks, "warnings": (), "adjustable": frozenset()}
    return LibraryInfo(**{**known, **fields})


def make_spec(task: str = "chain_sum", index: int = 0, **fields: Any) -> ProblemSpec:
    """Return a spec. `fields` are fields of the spec or of its request."""
    position = {name: fields.pop(name) for name in ("split", "attempt") if name in fields}
    request = ProblemRequest(**{"task": task, "seed": 7, **fields})
    return ProblemSpec(request, **{"split": Split.TRAIN, "index": index, **position})


def problem_of(
    spec: ProblemSpec, question: str = "What is 1 + 1?", answer: str | None = "2", metadata: str = "{}", **fields: Any
) -> Problem:
    problem = Problem(
        spec, question, answer, metadata, b"entry", **{"params": spec.params, "level": spec.level, **fields}
    )
    return replace(problem, reference=str(Reference.of(problem, "1")))


def make_problem(task: str = "chain_sum", index: int = 0, question: str = "What is 1 + 1?", **fields: Any) -> Problem:
    return problem_of(make_spec(task, index), question, **fields)


def make_rollout(
    score: float = 1.0,
    reason: Reason = Reason.SCORED,
    *,
    reward: float | None = None,
    prompt_tokens: int = 2,
    completion_tokens: int = 3,
    finish_reason: str = "stop",
    scoring_s: float = 0.0,
) -> Rollout:
    """Return a scored rollout. With a length penalty, `reward` differs from the verdict's score."""
    return Rollout(
        text="<answer>2</answer>",
        tokens=(9,) * (prompt_tokens + completion_tokens),
        masks=(-100,) * prompt_tokens + (9,) * completion_tokens,
        logprobs=None,
        finish_reason=finish_reason,
        verdict=Verdict(score, reason, "2", scoring_s),
        score=score if reward is None else reward,
    )


def make_group(rollouts: Sequence[Rollout], task: str = "chain_sum", **fields: Any) -> Group:
    return Group(make_problem(task, **fields), MESSAGES, tuple(rollouts))
