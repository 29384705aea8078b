"""Send generated requests to every route of a judge server with real workers. No reply may be a server error."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import ClientSession, web
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reasoning_env.judging.limits import JudgeLimits
from reasoning_env.judging.server import JudgeServer
from reasoning_env.records import Problem
from reasoning_env.session import Session
from reasoning_env.settings import ReasoningSettings

on_module_loop = pytest.mark.asyncio(loop_scope="module")

ROUTES = ("/score", "/rm", "/get_reward")
NUMBERS = st.one_of(st.integers(-10, 30), st.sampled_from([10**6, 10**18, -(10**400), 0.5, float("nan"), float("inf")]))
TEXTS = st.text(st.characters(codec=None), max_size=40)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)
PARAMS = {
    "chain_sum": ["min_terms", "max_terms", "min_digits", "max_digits", "allow_negation", "seed", "size"],
    "gcd": ["min_numbers", "max_numbers", "min_value", "max_value", "seed"],
    "number_sorting": ["min_numbers", "max_numbers", "min_decimals", "max_decimals"],
    "composite": ["datasets"],
    "letter_jumble": ["min_word_len", "max_word_len", "consecutive_words"],
}


@st.composite
def references(draw: st.DrawFn) -> str:
    """Return a reference, which is valid in most cases."""
    task = draw(st.sampled_from(sorted(PARAMS)))
    params = draw(st.dictionaries(st.sampled_from(PARAMS[task]), VALUES, max_size=3))
    fields: list[str] = [
        task,
        draw(st.sampled_from(["train", "eval"])),
        draw(st.sampled_from(["1", "7+3/50", "4294967295"])),
        draw(st.sampled_from(["-", "0.5", "1.0"])),
        "0.1.25",
        "0123456789abcdef",
        json.dumps(params),
    ]
    if draw(st.integers(0, 3)) == 0:
        fields[draw(st.integers(0, 6))] = draw(TEXTS)
    return ":".join(fields)


@st.composite
def bodies(draw: st.DrawFn, real: str) -> bytes:
    """Return a request, which is valid in most cases. `real` is the reference of an existing problem."""
    reference: st.SearchStrategy[Any] = st.one_of(st.just(real), references(), VALUES)
    texts: st.SearchStrategy[Any] = st.one_of(
        st.lists(st.one_of(TEXTS, TEXTS.map("<answer>{}</answer>".format)), max_size=4), VALUES
    )
    count = draw(st.integers(0, 3))
    fields = {
        "ref": draw(reference),
        "label": draw(reference),
        "labels": draw(st.one_of(st.lists(reference, min_size=count, max_size=count), VALUES)),
        "texts": draw(texts),
        "response": draw(st.one_of(TEXTS, VALUES)),
        "query": draw(st.one_of(st.lists(TEXTS, min_size=count, max_size=count), VALUES)),
        "prompts": draw(st.one_of(st.lists(TEXTS, min_size=count, max_size=count), VALUES)),
    }
    body = json.dumps(fields).encode()
    if draw(st.integers(0, 4)) == 0:
        return draw(st.binary(max_size=50)) + body[draw(st.integers(0, len(body))) :]
    return body


@dataclass(frozen=True)
class Served:
    client: ClientSession
    url: str
    problem: Problem

    async def ask(self, path: str, body: bytes) -> tuple[int, Any]:
        async with self.client.post(self.url + path, data=body) as reply:
            return reply.status, await reply.json()

    async def is_alive(self) -> bool:
        """Return True if the server still judges a valid request."""
        texts = [f"<answer>{self.problem.answer}</answer>", "<answer>wrong</answer>"]
        body = json.dumps({"ref": self.problem.reference, "texts": texts}).encode()
        status, reply = await self.ask("/score", body)
        async with self.client.get(f"{self.url}/health") as health:
            return (status, [row["score"] for row in reply["verdicts"]], health.status) == (200, [1.0, 0.0], 200)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served() -> AsyncIterator[Served]:
    workers = ReasoningSettings(
        tasks=["chain_sum"],
        num_generators=1,
        num_verifiers=1,
        worker_memory_mb=512,
    )
    async with Session(workers) as session:
        runner = JudgeServer(session, limits=JudgeLimits(max_texts=3)).runner()
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0]
        async with ClientSession() as client:
            yield Served(client, f"http://{host}:{port}", await session.next())
        await runner.cleanup()


@pytest.mark.slow
@on_module_loop
async def test_no_request_causes_a_server_error(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.get_running_loop()

    async def check(path: str, body: bytes) -> None:
        caplog.clear()
        status, reply = await served.ask(path, body)
        assert status < 500, reply
        if status != 200:
            assert len(reply["error"].splitlines()) == 1
        assert not [record for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR]
        assert await served.is_alive()

    @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(ROUTES), bodies(served.problem.reference))
    def try_requests(path: str, body: bytes) -> None:
        asyncio.run_coroutine_threadsafe(check(path, body), loop).result()

    await asyncio.to_thread(try_requests)
