"""The server over HTTP: log-probabilities, weights and weight versions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch (the extra `learn`)")

from learn.model import build, save, save_weights
from learn.server import ModelServer
from learn.trainer import token_logprobs

PROMPTS = [[4, 20, 21, 22, 2, 5], [4, 30, 2, 5], [4, *range(10, 40), 2, 5]]


@pytest.fixture
async def server(tiny: tuple[Any, Any], tmp_path: Path) -> AsyncIterator[ModelServer]:
    save(*tiny, tmp_path / "model")
    async with ModelServer(tmp_path / "model") as running:
        yield running


async def ask(server: ModelServer, path: str, body: Any) -> Any:
    async with aiohttp.ClientSession() as session, session.post(f"{server.url}{path}", json=body) as reply:
        reply.raise_for_status()
        return await reply.json()


async def generate(server: ModelServer, prompt: list[int], **fields: Any) -> Any:
    asked = {"prompt": {"prompt_token_ids": prompt}, "n": 3, "max_tokens": 9, "temperature": 1.0, "logprobs": 0}
    return await ask(server, "/generate", asked | fields)


async def test_server_logprobs_equal_the_trainer_logprobs(server: ModelServer, tiny: tuple[Any, Any]) -> None:
    replies = await asyncio.gather(*(generate(server, prompt) for prompt in PROMPTS))
    for prompt, reply in zip(PROMPTS, replies, strict=True):
        for completion in reply["logprobs"]:
            places = [(int(token), value) for (place,) in completion for token, value in place.items()]
            tokens, told = [token for token, _ in places], [value for _, value in places]
            ours, _ = token_logprobs(tiny[0], torch.tensor([[*prompt, *tokens]]))
            assert ours[0, len(prompt) - 1 :].tolist() == pytest.approx(told, abs=1e-4)


async def test_greedy_completions_of_a_prompt_are_equal(server: ModelServer) -> None:
    reply = await generate(server, PROMPTS[0], temperature=0.0)
    assert len(set(reply["text"])) == 1


async def test_server_samples_from_the_weights_that_the_trainer_sent(server: ModelServer, tmp_path: Path) -> None:
    await generate(server, PROMPTS[0])
    other, _ = build(2, width=16, layers=1)
    save_weights(other, tmp_path / "new.safetensors")
    await ask(server, "/update_weights", {"weights": str(tmp_path / "new.safetensors"), "version": 7})
    reply = await generate(server, PROMPTS[1])
    versions = (await ask(server, "/versions", {"prompts": [*PROMPTS]}))["versions"]
    assert versions == [0, 7, None]
    ((place,), *_) = reply["logprobs"][0]
    ((token, told),) = place.items()
    ours, _ = token_logprobs(other, torch.tensor([[*PROMPTS[1], int(token)]]))
    assert ours[0, -1].item() == pytest.approx(told, abs=1e-4)


async def test_server_refuses_top_p(server: ModelServer) -> None:
    with pytest.raises(aiohttp.ClientResponseError, match="400"):
        await generate(server, PROMPTS[0], top_p=0.9)
