"""Make rollouts of what servers answer; what is unfit for training is told apart here."""

from __future__ import annotations

import math
from typing import Any

from ...prompting import ChatFormat
from ...records import Prompt, Rollout, Sampling


def rollout_from_node(choice: Any, node: Any, token_limit: int) -> Rollout | str:
    """Return a rollout of the server's own tokens, or what makes them unfit for training."""
    tokens, masks, logprobs = tuple(node.tokens), tuple(node.masked_tokens), tuple(node.logprobs)
    prompt_length = next((place for place, token in enumerate(masks) if token != -100), len(masks))
    problem = None
    if not len(tokens) == len(masks) == len(logprobs):
        problem = f"{len(tokens)} tokens, {len(masks)} masks and {len(logprobs)} log-probabilities"
    elif prompt_length == len(masks):
        problem = "no completion tokens"
    elif masks[prompt_length:] != tokens[prompt_length:]:
        problem = "masks that differ from the tokens"
    elif len(tokens) >= token_limit:
        problem = f"{len(tokens)} tokens, at or over the limit of {token_limit}"
    elif not math.isfinite(sum(logprobs)):
        problem = "log-probabilities that are not finite"
    if problem is not None:
        return problem
    return Rollout(
        text=choice.text or "",
        tokens=tokens,
        masks=masks,
        logprobs=logprobs,
        finish_reason=choice.finish_reason or "stop",
        token_count=len(tokens) - prompt_length,
    )


def rollout_from_text(chat: ChatFormat, prompt: Prompt, sampling: Sampling, choice: Any) -> Rollout | str:
    """Return a rollout of tokens made from the server's text, or what makes the text unfit for training."""
    text = chat.strip_end_of_turn(choice.text or "")
    finish_reason = choice.finish_reason or "stop"
    completion = chat.completion_tokens(text, finished=finish_reason == "stop")
    if not completion:
        return "no text, and says that it was cut short"
    room = sampling.token_limit - 1 - len(prompt.tokens)
    if len(completion) > room:
        # The text may have more tokens here than at the server.
        completion, finish_reason = completion[:room], "length"
    return Rollout(
        text=text,
        tokens=(*prompt.tokens, *completion),
        masks=(*[-100] * len(prompt.tokens), *completion),
        logprobs=None,
        finish_reason=finish_reason,
        token_count=len(completion),
    )
