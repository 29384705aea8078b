"""Check a batch against the rules that a trainer relies on, and name the group that breaks a rule.

A batch is a list of groups. A group has a list for each field (`tokens`, `masks`, `scores`, ...), with one entry for
each rollout. The tokens of a rollout are its prompt followed by its completion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

MASKED = -100
"""Entry of `masks` for a token that is not trained on; for other tokens the entry is the token."""
PROMPT_LOGPROB = 1.0
"""Entry of `inference_logprobs` for tokens of the prompt, which have no log-probability."""


class BatchError(Exception):
    """A batch breaks a rule. The message has the position, the expected value and the received value."""


class _SentGroup(BaseModel):
    model_config = ConfigDict(strict=True)

    tokens: list[list[int]]
    masks: list[list[int]]
    scores: list[Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]]
    inference_logprobs: list[list[FiniteFloat]] | None = None
    overrides: list[dict[str, Any]] | None = None


def check_batch(batch: Sequence[Mapping[str, Any]], *, batch_size: int, group_size: int, max_token_len: int) -> None:
    """Raise BatchError for an invalid group, a group of equal scores, or a total other than `batch_size` rollouts.

    Prompt and completion of a rollout must have fewer than `max_token_len` tokens together.
    """
    for index, group in enumerate(batch):
        check_group(group, f"group {index}", group_size=group_size, max_token_len=max_token_len)
        scores = group["scores"]
        _expect(group_size == 1 or len(set(scores)) > 1, f"group {index}", "scores that differ", scores)
    total = sum(len(group["tokens"]) for group in batch)
    _expect(total == batch_size, "batch", f"{batch_size} rollouts", total)


def check_group(plain: Mapping[str, Any], where: str = "group", *, group_size: int, max_token_len: int) -> None:
    """Raise BatchError unless the group's lists have matching lengths and every rollout is valid."""
    try:
        group = _SentGroup.model_validate(plain)
    except ValueError as error:
        raise BatchError(f"{where}: {error}") from error
    for field, values in group:
        _expect(values is None or len(values) == group_size, where, f"{group_size} {field}", values)
    prompts = []
    for number, (tokens, mask) in enumerate(zip(group.tokens, group.masks, strict=True)):
        rollout = f"{where}, rollout {number}"
        _expect(len(tokens) < max_token_len, rollout, f"fewer than {max_token_len} tokens", len(tokens))
        _expect(len(mask) == len(tokens), rollout, f"{len(tokens)} mask entries", len(mask))
        length = next((index for index, entry in enumerate(mask) if entry != MASKED), len(mask))
        prompts.append(tokens[:length])
        _expect(prompts[number] == prompts[0], rollout, "the prompt of rollout 0", prompts[number])
        _expect(0 < length < len(tokens), rollout, "a mask over a prompt and not over a completion", mask)
        _expect(mask[length:] == tokens[length:], rollout, "the completion's tokens in its mask", mask)
        if group.inference_logprobs is not None:
            logprobs = group.inference_logprobs[number]
            _expect(len(logprobs) == len(tokens), rollout, f"{len(tokens)} logprobs", len(logprobs))
            _expect(set(logprobs[:length]) == {PROMPT_LOGPROB}, rollout, f"{PROMPT_LOGPROB} over the prompt", logprobs)
            _expect(max(logprobs[length:]) <= 0.0, rollout, "logprobs of at most 0", logprobs)


def _expect(holds: bool, where: str, what: str, got: object) -> None:
    if not holds:
        raise BatchError(f"{where}: expected {what}, got {got!r:.80}")
