from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from reasoning_env.inference.chat import ChatRequests, PlainChat
from reasoning_env.records import Sampling

SAMPLING = Sampling(temperature=0.5, top_p=0.9, token_limit=1000, split="eval")
PROMPT = PlainChat().prompt([{"role": "user", "content": "x" * 200}])


class Client:
    """Answers each request alike, and counts them."""

    model = "m"

    def __init__(self) -> None:
        self.asked = 0

    async def create(self, **request: object) -> Any:
        self.asked += 1
        return SimpleNamespace(choices=[SimpleNamespace(message=SimpleNamespace(content="yes"), finish_reason="stop")])


async def test_servers_are_asked_in_turn() -> None:
    clients, requests = [Client(), Client()], ChatRequests()
    for _ in range(4):
        await requests.complete(clients, PROMPT, 1, SAMPLING)
    assert [client.asked for client in clients] == [2, 2]


def test_long_prompt_leaves_fewer_tokens() -> None:
    assert SAMPLING.completion_budget(PROMPT) < 1000 - 50
