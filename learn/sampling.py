"""Sample completions from a model, with the log-probabilities of their tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Sample:
    """A completion: tokens and their log-probabilities. If `finished`, the last token is the end-of-text token."""

    tokens: list[int]
    logprobs: list[float]
    finished: bool


@torch.no_grad()
def sample(
    model: Any, tokenizer: Any, prompts: Sequence[Sequence[int]], limits: Sequence[int], *, temperature: float = 1.0
) -> list[Sample]:
    """Complete all prompts in one batch, each up to its limit of tokens. With temperature 0, sampling is greedy."""
    end = tokenizer.eos_token_id
    device = model.device
    distinct = {tuple(prompt): None for prompt in prompts}
    width = max(map(len, distinct))
    # Pad on the left, so that all completions begin in the same column.
    rows = [[tokenizer.pad_token_id] * (width - len(prompt)) + list(prompt) for prompt in distinct]
    seen = [[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in distinct]
    attention = torch.tensor(seen, device=device)
    positions = (attention.cumsum(1) - 1).clamp(min=0)
    given = {"input_ids": torch.tensor(rows, device=device), "position_ids": positions}
    output = model(**given, attention_mask=attention, use_cache=True)
    # The model reads each distinct prompt once. From here on, each completion has a row.
    row_by_prompt = {prompt: row for row, prompt in enumerate(distinct)}
    row_of = torch.tensor([row_by_prompt[tuple(prompt)] for prompt in prompts], device=device)
    output.past_key_values.batch_select_indices(row_of)
    logits, attention, positions = output.logits[row_of, -1], attention[row_of], positions[row_of, -1:]
    most_tokens = torch.tensor(limits, device=device)
    cache = output.past_key_values
    done = most_tokens < 1
    sampled: list[torch.Tensor] = []
    sampled_logprobs: list[torch.Tensor] = []
    for number in range(1, max(limits) + 1):
        logprobs = torch.log_softmax(logits.float() / (temperature or 1.0), dim=-1)
        tokens = logprobs.argmax(-1) if temperature == 0 else torch.multinomial(logprobs.exp(), 1)[:, 0]
        sampled.append(tokens)
        sampled_logprobs.append(logprobs.gather(1, tokens[:, None])[:, 0])
        done = done | (tokens == end) | (most_tokens <= number)
        if bool(done.all()):
            break
        positions = positions + 1
        attention = torch.cat([attention, torch.ones_like(positions)], dim=1)
        given = {"input_ids": tokens[:, None], "position_ids": positions}
        logits = model(**given, attention_mask=attention, past_key_values=cache, use_cache=True).logits[:, -1]
    return [
        _cut(tokens[:limit], logprobs[:limit], end)
        for tokens, logprobs, limit in zip(
            torch.stack(sampled, 1).tolist(), torch.stack(sampled_logprobs, 1).tolist(), limits, strict=True
        )
    ]


def _cut(tokens: list[int], logprobs: list[float], end: int) -> Sample:
    finished = end in tokens
    length = tokens.index(end) + 1 if finished else len(tokens)
    return Sample(tokens[:length], logprobs[:length], finished)


def text_of(tokenizer: Any, sample: Sample) -> str:
    """Return a completion's text without special tokens."""
    return str(tokenizer.decode(sample.tokens, skip_special_tokens=True))
