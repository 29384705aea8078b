"""From the JSON of a generation request to completions as tokens: the policy server without its HTTP."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tokenizers import Tokenizer

from .chat import TURN_END, last_question
from .policy import Policy

TOKENIZER_FOLDER = Path(__file__).parent / "tokenizer"
DEFAULT_MAX_TOKENS = 16
"""What vLLM and OpenAI assume for a completion request that does not say."""
MAX_COMPLETIONS = 256
MEAN_NEGATIVE_LOGPROB = 0.2


class BadRequestError(ValueError):
    """The request is not one that an inference server would take; the message says what was expected."""


@dataclass(frozen=True)
class GenerationRequest:
    """What is asked for, in the fields that both protocols share.

    Args:
        prompt: the whole prompt as text, markers of the chat template included.
        prompt_tokens: its length in tokens.
        n: number of completions.
        max_tokens: upper bound on the tokens of each, the end-of-turn token included.
        temperature: 0 gives the same completion whenever the same prompt comes.
    """

    prompt: str
    prompt_tokens: int
    n: int
    max_tokens: int
    temperature: float


@dataclass(frozen=True)
class Completion:
    """One completion; `token_ids` and `logprobs` have the same length and hold the end-of-turn token if it stopped."""

    text: str
    token_ids: list[int]
    logprobs: list[float]
    finish_reason: Literal["stop", "length"]


class Generator:
    """Answers generation requests with a policy's rollouts, from a generator seeded at the start.

    The same requests in the same order give the same completions.
    """

    def __init__(self, policy: Policy) -> None:
        self.tokenizer: Tokenizer = Tokenizer.from_file(str(TOKENIZER_FOLDER / "tokenizer.json"))
        (self._turn_end,) = self.tokenizer.encode(TURN_END, add_special_tokens=False).ids
        self._policy = policy
        self._rng = random.Random(policy.seed)

    def read_request(self, body: object) -> GenerationRequest:
        """Return the request that a decoded JSON body holds; raises BadRequestError."""
        if not isinstance(body, dict):
            raise BadRequestError(f"expected a JSON object, got {type(body).__name__}")
        prompt = body.get("prompt")
        if isinstance(prompt, dict):
            prompt = prompt.get("prompt_token_ids", prompt.get("prompt"))
        if isinstance(prompt, str):
            prompt_ids = self.tokenizer.encode(prompt, add_special_tokens=False).ids
        else:
            prompt_ids = self._check_token_ids(prompt)
            prompt = self.tokenizer.decode(prompt_ids, skip_special_tokens=False)
        if body.get("stream"):
            raise BadRequestError("'stream' is not supported")
        return GenerationRequest(
            prompt=prompt,
            prompt_tokens=len(prompt_ids),
            n=_read_integer(body, "n", default=1, most=MAX_COMPLETIONS),
            max_tokens=_read_integer(body, "max_tokens", default=DEFAULT_MAX_TOKENS),
            temperature=_read_temperature(body),
        )

    def _check_token_ids(self, value: object) -> list[int]:
        if not isinstance(value, list) or not value or not all(type(item) is int for item in value):
            raise BadRequestError("expected 'prompt' to be a text or a non-empty list of token ids")
        size = self.tokenizer.get_vocab_size()
        if not all(0 <= item < size for item in value):
            raise BadRequestError(f"expected token ids from 0 to {size - 1}")
        return value

    def complete(self, request: GenerationRequest) -> list[Completion]:
        """Return the completions for the last user turn of the prompt, or for all of it where it has no turns."""
        question = last_question(request.prompt)
        if request.temperature == 0:
            rng = random.Random(f"greedy:{self._policy.seed}:{question}")
            return [self._complete_once(question, request.max_tokens, rng)] * request.n
        return [self._complete_once(question, request.max_tokens, self._rng) for _ in range(request.n)]

    def _complete_once(self, question: str, max_tokens: int, rng: random.Random) -> Completion:
        text = self._policy.complete(question, rng)
        token_ids = [*self.tokenizer.encode(text, add_special_tokens=False).ids, self._turn_end]
        cut = len(token_ids) > max_tokens
        if cut:
            token_ids = token_ids[:max_tokens]
            text = self.tokenizer.decode(token_ids, skip_special_tokens=True)
        logprobs = [-round(rng.expovariate(1 / MEAN_NEGATIVE_LOGPROB), 6) for _ in token_ids]
        return Completion(text, token_ids, logprobs, "length" if cut else "stop")


def _read_integer(body: Mapping[str, Any], key: str, *, default: int, most: int | None = None) -> int:
    value = body.get(key)
    if value is None:
        return default
    if type(value) is not int or value < 1 or (most is not None and value > most):
        bounds = "of at least 1" if most is None else f"from 1 to {most}"
        raise BadRequestError(f"expected '{key}' to be a whole number {bounds}, got {value!r}")
    return value


def _read_temperature(body: Mapping[str, Any]) -> float:
    value = body.get("temperature")
    if value is None:
        return 1.0
    if type(value) not in (int, float) or not 0.0 <= value <= 2.0:
        raise BadRequestError(f"expected 'temperature' to be a number from 0 to 2, got {value!r}")
    return float(value)
