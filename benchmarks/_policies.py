"""A stand-in for the model that costs next to nothing, for `testing.inference_server`."""

from __future__ import annotations

import random
from functools import cache

from tokenizers import Tokenizer

from testing import TOKENIZER, Completion, GenerationRequest, Policy

VARIANTS = 64
"""Different replies for a group; which one a request gets is drawn."""


def canned(tokens: int) -> Policy:
    """Give completions made beforehand, all of this length, that end in a number as the answer.

    Within a group the answers cluster, as a policy's do: half give the likeliest, half of the rest the next, and so on.
    """
    tokenizer = Tokenizer.from_file(f"{TOKENIZER}/tokenizer.json")
    thought = tokenizer.encode("<think>" + "so it goes on and on " * tokens, add_special_tokens=False).ids
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
