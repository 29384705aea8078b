"""What a trainer may expect of a batch: each rule is checked, and what breaks one is named exactly.

Terms: a batch is a list of groups; a group holds one list per field (`tokens`, `masks`, `scores`, ...) with one entry
per rollout; a rollout's tokens are its prompt followed by its completion.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

MASKED = -100
"""In `masks`, stands where a token is not trained on; elsewhere the mask repeats the token."""
PROMPT_LOGPROB = 1.0
"""In `inference_logprobs`, stands over the prompt, where there is no logprob."""

Group = Mapping[str, Any]


class BatchError(Exception):
    """A batch breaks a rule; the message says where, what was expected and what came."""


def check_batch(batch: Sequence[Group], *, batch_size: int, group_size: int, max_token_len: int) -> None:
    """Raise BatchError unless every group is sound and the groups together hold `batch_size` rollouts.

    `max_token_len` is the bound that every rollout's prompt and completion together must stay below.
    """
    if not isinstance(batch, list) or not batch:
        raise BatchError(f"batch: expected a non-empty list of groups, got {batch!r:.80}")
    for index, group in enumerate(batch):
        where = f"group {index}"
        _check_sizes(where, group, group_size)
        _check_scores(where, group["scores"], group_size)
        prompts = [
            _check_rollout(f"{where}, rollout {number}", group, number, max_token_len) for number in range(group_size)
        ]
        for number, prompt in enumerate(prompts):
            if prompt != prompts[0]:
                raise BatchError(f"{where}: the prompts of rollouts 0 and {number} differ")
    total = sum(len(group["tokens"]) for group in batch)
    if total != batch_size:
        raise BatchError(f"batch: expected {batch_size} sequences, got {total}")


def _check_sizes(where: str, group: Group, group_size: int) -> None:
    for field in ("tokens", "masks", "scores"):
        if not isinstance(group.get(field), list):
            raise BatchError(f"{where}: expected a list in '{field}', got {type(group.get(field)).__name__}")
        if len(group[field]) != group_size:
            raise BatchError(f"{where}: expected {group_size} entries in '{field}', got {len(group[field])}")
    for field in ("inference_logprobs", "overrides"):
        if group.get(field) is not None and len(group[field]) != group_size:
            raise BatchError(f"{where}: expected {group_size} entries in '{field}', got {len(group[field])}")
    for number, override in enumerate(group.get("overrides") or []):
        if not isinstance(override, dict):
            raise BatchError(f"{where}, rollout {number}: expected an object in 'overrides', got {override!r:.80}")


def _check_scores(where: str, scores: Sequence[Any], group_size: int) -> None:
    for number, score in enumerate(scores):
        if isinstance(score, bool) or not isinstance(score, (int, float)) or not math.isfinite(score):
            raise BatchError(f"{where}, rollout {number}: expected a finite score, got {score!r:.80}")
        if not 0.0 <= score <= 1.0:
            raise BatchError(f"{where}, rollout {number}: expected a score from 0 to 1, got {score}")
    if group_size > 1 and len(set(scores)) == 1:
        raise BatchError(f"{where}: all {group_size} scores are {scores[0]}, which carries no learning signal")


def _check_rollout(where: str, group: Group, number: int, max_token_len: int) -> Sequence[int]:
    """Check one rollout's tokens, mask and logprobs; return its prompt's tokens."""
    tokens, mask = group["tokens"][number], group["masks"][number]
    if len(mask) != len(tokens):
        raise BatchError(f"{where}: {len(mask)} mask entries for {len(tokens)} tokens")
    if len(tokens) >= max_token_len:
        raise BatchError(f"{where}: expected fewer than {max_token_len} tokens, got {len(tokens)}")
    prompt_length = next((place for place, entry in enumerate(mask) if entry != MASKED), len(mask))
    if prompt_length == 0:
        raise BatchError(f"{where}: the mask hides no prompt")
    if prompt_length == len(tokens):
        raise BatchError(f"{where}: the mask leaves no completion")
    for place in range(prompt_length, len(tokens)):
        if mask[place] != tokens[place]:
            raise BatchError(f"{where}: at place {place} the mask has {mask[place]}, the token is {tokens[place]}")
    if group.get("inference_logprobs") is not None:
        _check_logprobs(where, group["inference_logprobs"][number], prompt_length, len(tokens))
    return tuple(tokens[:prompt_length])


def _check_logprobs(where: str, logprobs: Sequence[Any], prompt_length: int, length: int) -> None:
    if len(logprobs) != length:
        raise BatchError(f"{where}: {len(logprobs)} logprobs for {length} tokens")
    for place, logprob in enumerate(logprobs):
        if isinstance(logprob, bool) or not isinstance(logprob, (int, float)) or not math.isfinite(logprob):
            raise BatchError(f"{where}: expected a finite logprob at place {place}, got {logprob!r:.80}")
        if place < prompt_length and logprob != PROMPT_LOGPROB:
            raise BatchError(f"{where}: expected {PROMPT_LOGPROB} over the prompt, got {logprob} at place {place}")
        if place >= prompt_length and logprob > 0.0:
            raise BatchError(f"{where}: expected a logprob of at most 0, got {logprob} at place {place}")
