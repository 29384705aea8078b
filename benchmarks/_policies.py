"""Cheap replacements for a model."""

from __future__ import annotations

import random
from functools import cache
from struct import pack, unpack

from tokenizers import Tokenizer

from demo.policy import wrong_answer_like
from reasoning_gym_testing import TOKENIZER, Completion, GenerationRequest, Policy

VARIANTS = 64
"""Number of different replies for a group. Each request gets a random one."""
LONG_VARIANTS = 4
"""The same for long replies, which take seconds to make."""


def prepared_policy(tokens: int) -> Policy:
    """Return a policy of prepared completions of `tokens` tokens, with a number as the answer.

    Answers within a group cluster, as those of a model: half are the likeliest, half of the rest the next, and so on.
    """
    tokenizer, thought = _tokenizer_and_thought(tokens)
    chance = random.Random(0)

    @cache
    def answer(n: int, length: int, variant: int) -> list[Completion]:
        draw = random.Random(f"{n} {length} {variant}")
        answers = draw.choices(draw.sample(range(1000), n), [0.5**rank for rank in range(n)], k=n)
        ends = [tokenizer.encode(f"</think>\n<answer>{answer}</answer><|im_end|>").ids for answer in answers]
        outputs = [[*thought[: max(0, length - len(end))], *end][-length:] for end in ends]
        texts = tokenizer.decode_batch(outputs)
        return [Completion(text, token_ids=tuple(output)) for text, output in zip(texts, outputs, strict=True)]

    def policy(request: GenerationRequest) -> list[Completion]:
        return answer(request.n, min(tokens, request.max_tokens), chance.randrange(VARIANTS))

    return policy


class HalfRight:
    """Return completions as token ids: half end in the answer, half in wrong answers of the same form.

    Each has `tokens` tokens, or more if the answer is longer.
    """

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens
        self._tokenizer, self._thought = _tokenizer_and_thought(tokens)
        self._chance = random.Random(0)

    def complete(self, answer: str, n: int) -> list[list[int]]:
        answers = [wrong_answer_like(answer, self._chance) if number % 2 else answer for number in range(n)]
        ends = {one: f"</think>\n<answer>{one}</answer><|im_end|>" for one in answers}
        ids = {one: self._tokenizer.encode(end, add_special_tokens=False).ids for one, end in ends.items()}
        return [[*self._thought[: max(0, self._tokens - len(ids[one]))], *ids[one]] for one in answers]


def _tokenizer_and_thought(tokens: int) -> tuple[Tokenizer, list[int]]:
    tokenizer = Tokenizer.from_file(f"{TOKENIZER}/tokenizer.json")
    return tokenizer, tokenizer.encode("<think>" + "so it goes on and on " * tokens, add_special_tokens=False).ids


def long_random_policy(tokens: int) -> Policy:
    """Return a policy of completions of random words, `tokens` long, with log-probabilities of full precision.

    There are LONG_VARIANTS groups of completions, each made at its first use. The answer is always 1.
    """
    tokenizer = Tokenizer.from_file(f"{TOKENIZER}/tokenizer.json")
    words = sorted(number for word, number in tokenizer.get_vocab().items() if word[0] == "Ġ" and word[1:].isalpha())
    end = tokenizer.encode("</think>\n<answer>1</answer><|im_end|>").ids
    chance = random.Random(0)

    @cache
    def completion(length: int, variant: int, number: int) -> Completion:
        draw = random.Random(f"{length} {variant} {number}")
        ids = [*draw.choices(words, k=max(0, length - len(end))), *end][-length:]
        # Models compute in float32. In JSON, such a number has seventeen digits.
        logprobs = unpack(f"{length}f", pack(f"{length}f", *(-draw.expovariate(2.0) for _ in ids)))
        return Completion(tokenizer.decode(ids), "stop", tuple(ids), logprobs)

    def policy(request: GenerationRequest) -> list[Completion]:
        length, variant = min(tokens, request.max_tokens), chance.randrange(LONG_VARIANTS)
        return [completion(length, variant, number) for number in range(request.n)]

    return policy
