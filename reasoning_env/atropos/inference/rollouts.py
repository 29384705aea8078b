"""Make rollouts of what servers answer; what is unfit for training is told apart here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ...prompting import ChatFormat
from ...records import Prompt, Rollout, Sampling
from .chat import PlainChat


def rollout_from_tokens(
    chat: ChatFormat | PlainChat,
    token_limit: int,
    prompt: tuple[int, ...],
    completion: tuple[Sequence[int], Sequence[float], Any],
) -> Rollout | str:
    """Return a rollout of the server's own tokens, or what makes them unfit for training.

    `completion` has the tokens, their log-probabilities and the finish reason, for which SGLang has a mapping.
    """
    tokens, logprobs, finish_reason = completion
    if not tokens:
        return "no completion tokens"
    if len(tokens) != len(logprobs):
        return f"{len(tokens)} tokens and {len(logprobs)} log-probabilities"
    if len(prompt) + len(tokens) >= token_limit:
        return f"{len(prompt) + len(tokens)} tokens, at or over the limit of {token_limit}"
    if not math.isfinite(sum(logprobs)):
        return "log-probabilities that are not finite"
    reason = finish_reason.get("type") if isinstance(finish_reason, Mapping) else finish_reason
    return Rollout(
        text=chat.completion_text(tokens),
        tokens=(*prompt, *tokens),
        masks=(*[-100] * len(prompt), *tokens),
        logprobs=(*[1.0] * len(prompt), *logprobs),
        finish_reason=reason or "stop",
        token_count=len(tokens),
    )


def rollout_from_text(
    chat: ChatFormat | PlainChat, prompt: Prompt, sampling: Sampling, choice: Any, *, stop: str | None = None
) -> Rollout | str:
    """Return a rollout of tokens made from the server's text, or what makes the text unfit for training.

    `stop` is the text with which the server was asked to end; the model has then produced no end of turn after it.
    """
    assert isinstance(chat, ChatFormat), "servers that answer in text need a tokenizer"
    text = chat.strip_end_of_turn(choice.text or "")
    finish_reason = choice.finish_reason or "stop"
    stopped = stop is not None and text.endswith(stop)
    completion = chat.completion_tokens(text, finished=finish_reason == "stop" and not stopped)
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
