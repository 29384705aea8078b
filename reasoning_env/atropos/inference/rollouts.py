"""Make rollouts of completions.

A completion that is unfit for training is left out, with a reason, and the server is asked for another.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...inference.chat import PlainChat, ending_word
from ...inference.requests import finish_word
from ...prompts.chat_format import ChatFormat
from ...records import Ending, Prompt, Rollout, Sampling


def rollout_from_tokens(
    chat: ChatFormat | PlainChat,
    token_limit: int,
    prompt: Sequence[int],
    completion: tuple[Any, Any, Any],
) -> Rollout | str:
    """Return a rollout of the server's own tokens, or the reason why the tokens are unfit for training.

    `completion` has tokens, log-probabilities and the finish reason; SGLang's finish reason is a mapping. Tokens and
    log-probabilities are numpy's arrays, or lists from a stand-in for a server or an importer's own class.
    """
    given_tokens, given_logprobs, finish_reason = completion
    if len(given_tokens) == 0:
        return "no completion tokens"
    if len(given_tokens) != len(given_logprobs):
        return f"{len(given_tokens)} tokens and {len(given_logprobs)} log-probabilities"
    if len(prompt) + len(given_tokens) >= token_limit:
        return f"{len(prompt) + len(given_tokens)} tokens, at or over the limit of {token_limit}"
    tokens = np.asarray(given_tokens, dtype=np.int64)
    logprobs = np.asarray(given_logprobs, dtype=np.float64)
    if not np.isfinite(logprobs).all():
        return "log-probabilities that are not finite"
    if (logprobs > 0).any():
        return f"log-probabilities up to {logprobs.max():g}, which must not be above 0"
    if not 0 <= tokens.min() <= tokens.max() < chat.vocabulary_size:
        ids = f"token ids from {tokens.min()} to {tokens.max()}"
        return f"{ids}, but the tokenizer has {chat.vocabulary_size} ids; check env.tokenizer_name"
    in_bytes = tokens.astype(np.int32).tobytes()
    return Rollout(
        text=chat.completion_text(tokens),
        tokens=_joined(array("i", prompt), in_bytes),
        masks=_joined(array("i", [-100]) * len(prompt), in_bytes),
        logprobs=_joined(array("d", [1.0]) * len(prompt), logprobs.tobytes()),
        finish_reason=finish_word(finish_reason),
        token_count=len(tokens),
    )


def _joined(values: array[Any], of_completion: bytes) -> array[Any]:
    """Return the prompt's values with the completion's behind them: an array takes a tenth of a list's memory."""
    values.frombytes(of_completion)
    return values


def rollout_from_text(
    chat: ChatFormat | PlainChat, prompt: Prompt, sampling: Sampling, choice: Any, *, stop: str | None = None
) -> Rollout | str:
    """Return a rollout of tokens made from the server's text, or the reason why the text is unfit for training.

    `stop` is the stop text of the request; a model that was stopped by it has produced no end of turn.
    """
    assert isinstance(chat, ChatFormat), "servers that answer in text need a tokenizer"
    text = chat.strip_end_of_turn(choice.text or "")
    finish_reason = ending_word(choice)
    stopped = stop is not None and text.endswith(stop)
    finished = Ending.of(finish_reason) is Ending.FINISHED and not stopped
    completion = chat.completion_tokens(text, finished=finished)
    if not completion:
        return "no text, and says that it was cut short"
    room = sampling.token_limit - 1 - len(prompt.tokens)
    if len(completion) > room:
        # The text may have more tokens here than at the server.
        completion = completion[:room]
        finish_reason = "length"
    return Rollout(
        text=text,
        tokens=array("i", [*prompt.tokens, *completion]),
        masks=array("i", [*[-100] * len(prompt.tokens), *completion]),
        logprobs=None,
        finish_reason=finish_reason,
        token_count=len(completion),
    )
