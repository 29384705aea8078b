"""The replies of the test inference server have the keys, types and order of recorded vLLM replies."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest

from reasoning_gym_testing import InferenceServer
from tests.reply_shapes import RECORDED, disagreements, requests_for, shape_of_reply

REAL: dict[str, Any] = json.loads(RECORDED.read_text())
REQUESTS = requests_for([5, 6, 7], 256)


@pytest.mark.parametrize("name", [name for name in REQUESTS if REAL[name]["status"] == 200])
async def test_reply_of_the_test_server_has_the_keys_of_a_recorded_vllm_reply(name: str) -> None:
    path, body = REQUESTS[name]
    async with (
        InferenceServer(lambda asked: ["see the sea"] * asked.n) as server,
        aiohttp.ClientSession() as session,
        session.post(f"{server.url}{path}", json=body) as response,
    ):
        imitated = shape_of_reply(response.status, await response.json())
    assert list(disagreements(imitated, REAL[name])) == []
