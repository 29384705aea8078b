"""Pack a group into the parallel lists that a trainer gets."""

from __future__ import annotations

from atroposlib.envs.base import ScoredDataGroup

from ..records import Group


def pack(group: Group, *, mask_truncated: bool, include_messages: bool) -> ScoredDataGroup:
    """Return the parallel lists that a trainer gets, each with one entry per rollout.

    With `mask_truncated`, a rollout that ran out of tokens carries the override `set_advantage_to_zero`.
    """
    rollouts = group.rollouts
    with_logprobs = all(rollout.logprobs is not None for rollout in rollouts)
    packed: ScoredDataGroup = {
        "tokens": [list(rollout.tokens) for rollout in rollouts],
        "masks": [list(rollout.masks) for rollout in rollouts],
        "scores": [rollout.score for rollout in rollouts],
        "advantages": None,
        "ref_logprobs": None,
        "messages": None,
        "generation_params": None,
        "inference_logprobs": [list(rollout.logprobs or ()) for rollout in rollouts] if with_logprobs else None,
        "group_overrides": {},
        "overrides": [
            {"set_advantage_to_zero": True} if rollout.truncated and mask_truncated else {} for rollout in rollouts
        ],
        "images": None,
        "distill_token_ids": None,
        "distill_logprobs": None,
    }
    if include_messages:
        packed["messages"] = [
            [*map(dict, group.messages), {"role": "assistant", "content": rollout.text}] for rollout in rollouts
        ]
    return packed
