"""Stand-ins for the model that end-to-end tests need beside the scripted one."""

from __future__ import annotations

import random

from demo.rules import solve
from testing import GenerationRequest, Policy

TASKS = "chain_sum,gcd,lcm,count_bits,products,letter_counting,spell_backward,word_sorting"
"""Cheap ones, and all known to the scripted policy."""


def steady_policy(skill: float, seed: int = 1) -> Policy:
    """Answer briefly, and the same prompt always in the same way."""

    def answer(request: GenerationRequest) -> list[str]:
        chance, right = random.Random(f"{seed}:{request.question}"), solve(request.question)
        answers = [right if right and chance.random() < skill else chance.randrange(10) for _ in range(request.n)]
        return [f"<answer>{answer}</answer>" for answer in answers]

    return answer
