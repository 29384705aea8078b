"""Pack a group into the parallel lists that trainers get, and these into JSON for run-api and files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from atroposlib.envs.base import ScoredDataGroup
from pydantic_core import to_json

from ..records import Group

SEQUENCES = ("tokens", "masks", "inference_logprobs")
"""The packed lists with a sequence of numbers for each rollout."""


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


def encode_members(fields: Mapping[str, Any]) -> bytes:
    """Return packed lists as the members of a JSON object, without its braces; slow for long ones.

    Sequences are encoded by pydantic's core: json takes ten times as long for log-probabilities. Each by a call of its
    own, because a call holds the interpreter's lock until it is done. Raises TypeError or ValueError for what JSON
    cannot hold.
    """
    return b",".join(json.dumps(name).encode() + b":" + _encode(name, value) for name, value in fields.items())


def _encode(name: str, value: Any) -> bytes:
    if name in SEQUENCES and isinstance(value, list):
        return b"[" + b",".join(map(to_json, value)) + b"]"
    return json.dumps(value).encode()
