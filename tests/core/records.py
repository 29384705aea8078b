"""Records for the tests of this folder."""

from __future__ import annotations

from collections.abc import Sequence

from reasoning_env.records import Group, Problem, ProblemSpec, Reason, Rollout, Split, Verdict

MESSAGES = ({"role": "user", "content": "What is 1 + 1?"},)


def make_problem(task: str = "chain_sum", seed: int = 7, index: int = 0, *, generation_s: float = 0.0) -> Problem:
    spec = ProblemSpec(task, seed, Split.TRAIN, index)
    return Problem(spec, "What is 1 + 1?", "2", "{}", b"entry", generation_s)


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
    return Rollout(
        text="<answer>2</answer>",
        tokens=(9,) * (prompt_tokens + completion_tokens),
        masks=(-100,) * prompt_tokens + (9,) * completion_tokens,
        logprobs=None,
        finish_reason=finish_reason,
        verdict=Verdict(score, reason, "2", scoring_s),
        score=score if reward is None else reward,
    )


def make_group(rollouts: Sequence[Rollout], task: str = "chain_sum", *, generation_s: float = 0.0) -> Group:
    return Group(make_problem(task, generation_s=generation_s), MESSAGES, tuple(rollouts))
