"""Stand-ins for the model that end-to-end tests need beside the scripted one."""

from __future__ import annotations

import random
from collections.abc import Callable

from aiohttp import web

from demo.policy import ScriptedPolicy
from demo.rules import solve
from testing import GenerationRequest, InferenceServer, Policy, respond

TASKS = "chain_sum,gcd,lcm,count_bits,products,letter_counting,spell_backward,word_sorting"
"""Cheap ones, and all known to the scripted policy."""


def steady_policy(skill: float, seed: int = 1) -> Policy:
    """Answer briefly, and the same prompt always in the same way."""

    def answer(request: GenerationRequest) -> list[str]:
        chance, right = random.Random(f"{seed}:{request.question}"), solve(request.question)
        answers = [right if right and chance.random() < skill else chance.randrange(10) for _ in range(request.n)]
        return [f"<answer>{answer}</answer>" for answer in answers]

    return answer


def unreliable_server(
    fails: Callable[[int], bool] = lambda number: False, gone_after: int | None = None
) -> InferenceServer:
    """A server with the scripted policy; the number of a request, from 1, decides whether it is an error.

    After `gone_after` requests nothing is answered any more, health checks included.
    """
    scripted = ScriptedPolicy(skill=0.6, seed=1)
    server = InferenceServer()

    def answer(request: GenerationRequest) -> list[str]:
        number = len(server.requests)
        if number == gone_after:
            server.fail(respond(503))
        if fails(number):
            raise web.HTTPInternalServerError
        return scripted(request)

    server.policy = answer
    return server
