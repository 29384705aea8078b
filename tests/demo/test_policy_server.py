"""The policy server over real HTTP, in both of its protocols."""

from __future__ import annotations

import math
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import BaseTestServer, TestServer
from tokenizers import Tokenizer

from demo.generation import TOKENIZER_FOLDER
from demo.policy_server import MODEL_NAME, make_app

PROMPT = (
    "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nFind the Least Common Multiple (LCM) of these numbers:"
    " 60, 100<|im_end|>\n<|im_start|>assistant\n"
)
TOKENIZER = Tokenizer.from_file(str(TOKENIZER_FOLDER / "tokenizer.json"))
PROMPT_IDS: list[int] = TOKENIZER.encode(PROMPT).ids
TURN_END = TOKENIZER.token_to_id("<|im_end|>")


class Client:
    """Posts to one server."""

    def __init__(self, session: aiohttp.ClientSession, server: BaseTestServer) -> None:
        self.session = session
        self.server = server

    async def post(self, path: str, **options: Any) -> Any:
        async with self.session.post(self.server.make_url(path), **options) as response:
            return response.status, await response.json()

    async def generate(self, prompt: object = None, **fields: object) -> Any:
        body = {"prompt": prompt or {"prompt_token_ids": PROMPT_IDS}, "logprobs": 0, **fields}
        status, reply = await self.post("/generate", json=body)
        assert status == 200, reply
        return reply


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with TestServer(make_app(skill=1.0, seed=1)) as server, aiohttp.ClientSession() as session:
        yield Client(session, server)


def token_ids(logprobs: list[list[dict[str, float]]]) -> list[int]:
    return [int(key) for place in logprobs for key in place[0]]


async def test_native_completions_stop_with_the_end_of_turn(client: Client) -> None:
    reply = await client.generate(n=3, max_tokens=1000)
    assert reply["finish_reasons"] == ["stop"] * 3
    for text, logprobs in zip(reply["text"], reply["logprobs"], strict=True):
        ids = token_ids(logprobs)
        assert ids[-1] == TURN_END
        assert TOKENIZER.decode(ids) == text
        assert text.endswith("<answer>300</answer>")


async def test_native_logprobs_are_those_of_a_distribution(client: Client) -> None:
    reply = await client.generate(n=4, max_tokens=1000)
    values = [value for logprobs in reply["logprobs"] for place in logprobs for value in place[0].values()]
    assert all(math.isfinite(value) and value <= 0.0 for value in values)
    assert len(set(values)) > len(values) / 2


async def test_a_completion_is_cut_at_max_tokens(client: Client) -> None:
    reply = await client.generate(n=2, max_tokens=5)
    assert reply["finish_reasons"] == ["length"] * 2
    assert [len(logprobs) for logprobs in reply["logprobs"]] == [5, 5]
    assert TURN_END not in token_ids(reply["logprobs"][0])


async def test_max_tokens_has_room_for_the_end_of_turn_or_cuts_it(client: Client) -> None:
    whole = await client.generate(max_tokens=1000, temperature=0)
    length = len(whole["logprobs"][0])
    exact = await client.generate(max_tokens=length, temperature=0)
    short = await client.generate(max_tokens=length - 1, temperature=0)
    assert exact == whole
    assert short["finish_reasons"] == ["length"]
    assert short["text"] == whole["text"]


async def test_temperature_zero_always_gives_the_same(client: Client) -> None:
    first = await client.generate(n=2, max_tokens=1000, temperature=0)
    second = await client.generate(n=2, max_tokens=1000, temperature=0)
    assert first == second
    assert first["text"][0] == first["text"][1]


async def test_servers_with_the_same_seed_give_the_same() -> None:
    replies = []
    for _ in range(2):
        async with TestServer(make_app(skill=0.5, seed=9)) as server, aiohttp.ClientSession() as session:
            replies.append(await Client(session, server).generate(n=8, max_tokens=400))
    assert replies[0] == replies[1]


async def test_the_question_is_the_last_user_turn(client: Client) -> None:
    earlier = "<|im_start|>user\nSpell this word backward (example: sun -> nus): drawer<|im_end|>\n"
    reply = await client.generate(prompt=earlier + PROMPT, max_tokens=1000)
    assert "<answer>300</answer>" in reply["text"][0]


async def test_an_unskilled_policy_is_cut_off_now_and_then() -> None:
    async with TestServer(make_app(skill=0.0, seed=1)) as server, aiohttp.ClientSession() as session:
        reply = await Client(session, server).generate(n=200, max_tokens=1500)
    assert 0 < reply["finish_reasons"].count("length") < 50
    assert not any(text.endswith("</think>\n<answer>300</answer>") for text in reply["text"])


async def test_openai_completions(client: Client) -> None:
    body = {"model": MODEL_NAME, "prompt": PROMPT, "n": 3, "max_tokens": 1000, "temperature": 0.7, "top_p": 0.9}
    status, reply = await client.post("/v1/completions", json=body)
    assert status == 200
    assert [choice["index"] for choice in reply["choices"]] == [0, 1, 2]
    assert {choice["finish_reason"] for choice in reply["choices"]} == {"stop"}
    assert all(choice["text"].endswith("<answer>300</answer>") for choice in reply["choices"])
    usage = reply["usage"]
    assert usage["prompt_tokens"] == len(PROMPT_IDS)
    # The end of turn counts, though the text does not show it.
    assert usage["completion_tokens"] == sum(len(TOKENIZER.encode(c["text"]).ids) + 1 for c in reply["choices"])
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


async def test_openai_requests_default_to_one_short_completion(client: Client) -> None:
    _, reply = await client.post("/v1/completions", json={"prompt": PROMPT_IDS})
    (choice,) = reply["choices"]
    assert (choice["finish_reason"], reply["usage"]["completion_tokens"]) == ("length", 16)


async def test_health_and_models(client: Client) -> None:
    async with client.session.get(client.server.make_url("/health")) as response:
        assert response.status == 200
    async with client.session.get(client.server.make_url("/v1/models")) as response:
        models = await response.json()
    assert [model["id"] for model in models["data"]] == [MODEL_NAME]


@pytest.mark.parametrize("path", ["/generate", "/v1/completions"])
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "JSON body"),
        (b"\xff\xfe\xfd", "JSON body"),
        ([], "JSON object"),
        ({}, "'prompt'"),
        ({"prompt": 3}, "'prompt'"),
        ({"prompt": []}, "'prompt'"),
        ({"prompt": {"prompt_token_ids": []}}, "'prompt'"),
        ({"prompt": {"prompt_token_ids": [1, "2"]}}, "'prompt'"),
        ({"prompt": {"prompt_token_ids": [True]}}, "'prompt'"),
        ({"prompt": {"prompt_token_ids": [-1]}}, "token ids from 0"),
        ({"prompt": {"prompt_token_ids": [10**9]}}, "token ids from 0"),
        ({"prompt": "x", "n": 0}, "'n'"),
        ({"prompt": "x", "n": 10**9}, "'n'"),
        ({"prompt": "x", "n": "2"}, "'n'"),
        ({"prompt": "x", "max_tokens": 0}, "'max_tokens'"),
        ({"prompt": "x", "max_tokens": 1.5}, "'max_tokens'"),
        ({"prompt": "x", "temperature": -1}, "'temperature'"),
        ({"prompt": "x", "temperature": "hot"}, "'temperature'"),
        ({"prompt": "x", "stream": True}, "'stream'"),
    ],
)
async def test_a_malformed_request_is_refused_with_a_reason(client: Client, path: str, body: Any, message: str) -> None:
    options = {"data": body} if isinstance(body, bytes) else {"json": body}
    status, reply = await client.post(path, **options)
    assert status == 400
    assert message in reply["error"]["message"]


async def test_generations_take_the_chosen_time() -> None:
    async with TestServer(make_app(latency_s=0.2)) as server, aiohttp.ClientSession() as session:
        start = time.monotonic()
        await Client(session, server).generate(max_tokens=10)
    assert 0.1 <= time.monotonic() - start < 1.0


def test_as_a_process_it_names_its_port_and_ends_at_sigterm() -> None:
    command = [sys.executable, "-m", "demo.policy_server", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert re.fullmatch(r"policy_server: port=[1-9]\d*\n", process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0
