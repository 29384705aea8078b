from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest
import pytest_asyncio
from aiohttp.test_utils import TestClient, TestServer

from reasoning_env import server as server_module
from reasoning_env.bridge import Bridge
from reasoning_env.errors import InvalidReferenceError, ScoringError, WorkerError
from reasoning_env.records import Reason, Verdict
from reasoning_env.server import JudgeServer

REFERENCE = "gcd:train:1:-:0.1.25:0123456789abcdef:{}"

Client = TestClient[Any, Any]


class Judge:
    """Gives 1.0 to "right"; `errors` are raised first, one a call."""

    def __init__(self) -> None:
        self.errors: list[Exception] = []
        self.asked: list[tuple[str, Sequence[str]]] = []

    async def judge(self, problem: str, completions: Sequence[str]) -> list[Verdict]:
        self.asked.append((problem, completions))
        if self.errors:
            raise self.errors.pop(0)
        return [Verdict(float(text == "right"), Reason.SCORED, text) for text in completions]


@pytest.fixture
def judge() -> Judge:
    return Judge()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "pauses", lambda: iter([0.0] * 10))


@pytest_asyncio.fixture
async def client(judge: Judge) -> AsyncIterator[Client]:
    async with TestClient(TestServer(JudgeServer(judge).app())) as client:
        yield client


async def error_of(reply: Any) -> str:
    """The one line of a refusal."""
    error: str = (await reply.json())["error"]
    assert len(error.splitlines()) == 1
    return error


# ---------------------------------------------------------------------------- formats


async def test_texts_get_verdicts_in_order(client: Client) -> None:
    reply = await client.post("/score", json={"ref": REFERENCE, "texts": ["right", "wrong"]})
    assert await reply.json() == {
        "verdicts": [
            {"score": 1.0, "reason": "scored", "answer": "right"},
            {"score": 0.0, "reason": "scored", "answer": "wrong"},
        ]
    }


async def test_slime_gets_a_number(client: Client) -> None:
    reply = await client.post("/rm", json={"prompt": "p", "response": "right", "label": REFERENCE})
    assert await reply.json() == 1.0


async def test_openrlhf_gets_its_lists(client: Client) -> None:
    reply = await client.post("/get_reward", json={"query": ["Q? right"], "prompts": ["Q? "], "labels": [REFERENCE]})
    assert await reply.json() == {"rewards": [1.0], "scores": [1.0], "extra_logs": {"correct": [1.0]}}


async def test_health_is_told(client: Client) -> None:
    assert (await client.get("/health")).status == 200


async def test_metrics_count_verdicts(client: Client) -> None:
    await client.post("/score", json={"ref": REFERENCE, "texts": ["right", "wrong"]})
    assert "reasoning_judge_verdicts_total 2\n" in await (await client.get("/metrics")).text()


# ---------------------------------------------------------------------------- a client's mistakes


@pytest.mark.parametrize(
    ("path", "body", "line"),
    [
        ("/score", b"{", "the body is not JSON"),
        ("/score", b"[" * 100_000, "the body is not JSON"),
        ("/score", b"\xff", "the body is not JSON"),
        ("/score", b"[]", "must be a JSON object, not list"),
        ("/score", b"{}", "'ref' must be a text"),
        ("/score", b'{"ref": "a", "texts": "b"}', "'texts' must be a list of texts"),
        ("/score", b'{"ref": "a", "texts": [1]}', "'texts' must be a list of texts"),
        ("/rm", b'{"response": "b", "label": null}', "'label' must be a text"),
        ("/get_reward", b'{"query": ["a"], "prompts": [], "labels": []}', "1 queries, 0 prompts and 0 labels"),
    ],
)
async def test_malformed_request_is_named(client: Client, path: str, body: bytes, line: str) -> None:
    reply = await client.post(path, data=body)
    assert reply.status == 400
    assert line in await error_of(reply)


async def test_bad_reference_is_a_4xx(client: Client, judge: Judge) -> None:
    judge.errors = [InvalidReferenceError("x", "expected task:split")]
    reply = await client.post("/rm", json={"response": "right", "label": "x"})
    assert reply.status == 422
    assert "expected task:split" in await error_of(reply)


async def test_large_body_is_refused(client: Client, monkeypatch: pytest.MonkeyPatch, judge: Judge) -> None:
    monkeypatch.setattr(JudgeServer, "MAX_BODY_BYTES", 100)
    async with TestClient(TestServer(JudgeServer(judge).app())) as small:
        reply = await small.post("/score", json={"ref": REFERENCE, "texts": ["x" * 200]})
        assert reply.status == 413
        assert await error_of(reply) == "more than 100 bytes"


async def test_unknown_route_is_one_line(client: Client) -> None:
    reply = await client.get("/nowhere")
    assert reply.status == 404
    assert await error_of(reply) == "Not Found"


@pytest.mark.parametrize("header", [None, "Bearer wrong", "Basic c2VjcmV0", "Bearer \x80"])
async def test_token_is_wanted(judge: Judge, header: str | None) -> None:
    async with TestClient(TestServer(JudgeServer(judge, token="secret").app())) as client:
        headers = {} if header is None else {"Authorization": header}
        reply = await client.post("/score", json={"ref": REFERENCE, "texts": []}, headers=headers)
        assert reply.status == 401
        assert "bearer token" in await error_of(reply)
    assert judge.asked == []


async def test_right_token_lets_in(judge: Judge) -> None:
    async with TestClient(TestServer(JudgeServer(judge, token="secret").app())) as client:
        headers = {"Authorization": "Bearer secret"}
        assert (await client.post("/score", json={"ref": REFERENCE, "texts": []}, headers=headers)).status == 200


# ---------------------------------------------------------------------------- faults of ours


async def test_fault_is_retried(client: Client, judge: Judge) -> None:
    judge.errors = [ScoringError("a worker died"), ScoringError("again")]
    reply = await client.post("/rm", json={"response": "right", "label": REFERENCE})
    assert await reply.json() == 1.0
    assert len(judge.asked) == 3


@pytest.mark.parametrize("error", [ScoringError("a worker died"), WorkerError("no workers")])
async def test_lasting_fault_is_no_score(client: Client, judge: Judge, error: Exception) -> None:
    judge.errors = [error] * 3
    reply = await client.post("/rm", json={"response": "right", "label": REFERENCE})
    assert reply.status == 503
    assert int(reply.headers["Retry-After"]) > 0
    assert await error_of(reply) == str(error)


async def test_internal_error_is_hidden(client: Client, judge: Judge) -> None:
    judge.errors = [ZeroDivisionError("secret")]
    reply = await client.post("/rm", json={"response": "right", "label": REFERENCE})
    assert reply.status == 500
    assert "secret" not in await reply.text()


async def test_full_server_says_so(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JudgeServer, "MAX_REQUESTS", 0)
    async with TestClient(TestServer(JudgeServer(judge).app())) as client:
        reply = await client.post("/score", json={"ref": REFERENCE, "texts": []})
    assert (reply.status, reply.headers["Retry-After"]) == (429, "1")


async def test_full_server_is_healthy(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JudgeServer, "MAX_REQUESTS", 0)
    async with TestClient(TestServer(JudgeServer(judge).app())) as client:
        assert [(await client.get(path)).status for path in ("/health", "/metrics")] == [200, 200]


# ---------------------------------------------------------------------------- with a session


@pytest.fixture(scope="module")
def bridge() -> Iterator[Bridge]:
    with Bridge(tasks=["chain_sum"], seed=1, num_generators=1, num_verifiers=1, worker_niceness=0) as bridge:
        yield bridge


class Bridged:
    """A real session's verdicts."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    async def judge(self, problem: str, completions: Sequence[str]) -> Any:
        return await asyncio.wrap_future(self._bridge._submit(self._bridge.session.judge(problem, completions)))


@pytest.mark.parametrize(
    ("part", "other", "line"),
    [
        (0, "chain_sun", "did you mean chain_sum"),
        (1, "exam", "'exam' is not a valid Split"),
        (2, "77", "its question comes out differently here; the reference was altered"),
        (3, "0.5", "its question comes out differently here; the reference was altered"),
        (3, "1.5", "a level lies between 0 and 1, not at 1.5"),
        (4, "0.1.9", "it was made by reasoning-gym 0.1.9, and this is 0.1.25"),
        (5, "0" * 16, "its question comes out differently here"),
        (6, '{"min_terms": -1}', "min_terms"),
        (6, '{"terms": 1}', "terms"),
    ],
)
async def test_wrong_reference_is_named(bridge: Bridge, part: int, other: str, line: str) -> None:
    reference = (await bridge.anext()).reference
    parts = reference.split(":", 6)
    parts[part] = other
    if other == "0.1.9":
        parts[5] = "0" * 16  # another release asks another question
    async with TestClient(TestServer(JudgeServer(Bridged(bridge)).app())) as client:
        refused = await client.post("/score", json={"ref": ":".join(parts), "texts": ["x"]})
        assert refused.status == 422
        assert line in await error_of(refused)
        served = await client.post("/score", json={"ref": reference, "texts": ["x"]})
        assert served.status == 200


async def test_dead_pool_is_no_score() -> None:
    dead = Bridge(tasks=["chain_sum"], seed=1, num_generators=1, num_verifiers=1, worker_niceness=0)
    reference = (await dead.anext()).reference
    await asyncio.wrap_future(dead._submit(dead.session.pool.close()))
    async with TestClient(TestServer(JudgeServer(Bridged(dead)).app())) as client:
        reply = await client.post("/score", json={"ref": reference, "texts": ["x"]})
        assert (reply.status, reply.headers["Retry-After"]) == (503, "5")
        assert await error_of(reply)
    await asyncio.to_thread(dead.close)
