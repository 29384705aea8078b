"""Routes, formats and errors of the judge server."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

import pytest
from aiohttp.test_utils import RawTestServer, TestClient

from reasoning_env.errors import (
    GenerationError,
    GeneratorFaultError,
    InvalidReferenceError,
    ScoringError,
    WorkerError,
)
from reasoning_env.judging.openrlhf import completion_behind
from reasoning_env.judging.server import JudgeServer
from reasoning_env.records import Reason, Verdict
from reasoning_env.session import Session
from tests.waiting import until

from .scripted_judge import REFERENCE, Client, Judge, error_of

pytestmark = pytest.mark.usefixtures("no_pauses")


async def test_score_route_returns_verdicts_in_the_order_of_completions(client: Client) -> None:
    reply = await client.post("/score", json={"ref": REFERENCE, "texts": ["right", "wrong"]})
    assert await reply.json() == {
        "verdicts": [
            {
                "score": 1.0,
                "reason": "scored",
                "answer": "right",
                "parts": {"format": 1.0, "answer": 1.0, "length": 1.0},
            },
            {
                "score": 0.0,
                "reason": "scored",
                "answer": "wrong",
                "parts": {"format": 1.0, "answer": 0.0, "length": 1.0},
            },
        ]
    }


async def test_reward_model_route_for_slime_returns_a_number(client: Client) -> None:
    reply = await client.post("/rm", json={"prompt": "p", "response": "right", "label": REFERENCE})
    assert await reply.json() == 1.0


async def test_reward_route_for_openrlhf_returns_lists(client: Client) -> None:
    reply = await client.post("/get_reward", json={"query": ["Q? right"], "prompts": ["Q? "], "labels": [REFERENCE]})
    assert await reply.json() == {
        "rewards": [1.0],
        "scores": [1.0],
        "extra_logs": {"correct": [1.0], "format": [1.0]},
    }


class CountingJudge(Judge):
    """Counts concurrent calls. Each call returns after one turn of the event loop."""

    under_way = 0
    most = 0

    async def judge(self, problem: str, completions: Sequence[str]) -> list[Verdict]:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        return await super().judge(problem, completions)


async def test_reward_route_limits_the_number_of_problems_judged_concurrently() -> None:
    judge = CountingJudge()
    queries = ["right" if number % 3 == 0 else "wrong" for number in range(300)]
    body = {"query": queries, "prompts": [""] * 300, "labels": [REFERENCE] * 300}
    async with TestClient(RawTestServer(JudgeServer(judge).handle)) as client:
        reply = await client.post("/get_reward", json=body)
        assert (await reply.json())["rewards"] == [1.0, 0.0, 0.0] * 100
    assert judge.most == JudgeServer.AT_ONCE


PROMPT = "<answer> and </answer> surround it. " * 20 + "How many? assistant:"


@pytest.mark.parametrize(
    "query",
    [
        PROMPT + "right",
        "<s>" + PROMPT + "right",
        " " + PROMPT + "right",
        PROMPT[300:] + "right",
        "<s> " + PROMPT[300:] + "right",
        "<s>" + PROMPT.replace(". ", ".") + "right",
        "<s>" + PROMPT.replace("?", " ?") + "\nright",
    ],
    ids=["whole prompt", "bos token", "leading space", "cut prompt", "bos and cut", "spaces lost", "spaces added"],
)
def test_completion_is_the_text_after_the_prompt_in_the_query_field(query: str) -> None:
    assert completion_behind(PROMPT, query) == "right"


def test_completion_that_repeats_the_prompt_is_returned_whole() -> None:
    assert completion_behind(PROMPT, "<s>" + PROMPT + "wrong" + PROMPT + "right") == "wrong" + PROMPT + "right"


def test_completion_is_found_if_only_the_prompt_has_leading_spaces() -> None:
    assert completion_behind("  Q? ", "Q? right") == "right"


def test_completion_is_not_found_if_long_text_precedes_the_prompt() -> None:
    assert completion_behind(PROMPT, "wrong " * 400 + PROMPT + "right") is None


def test_completion_is_found_after_a_prompt_with_repeated_text() -> None:
    example = "How many legs have 3 spiders, if each of them has 8, as all spiders do? " * 3 + "assistant:"
    asked = "Count. " + example + "24 " + example
    assert completion_behind(asked, "<s>" + asked + "right") == "right"


def test_completion_is_not_found_if_the_prompt_is_blank() -> None:
    assert completion_behind("  ", "<s>  right") is None


async def test_server_returns_422_if_the_query_field_lacks_the_prompt(client: Client) -> None:
    reply = await client.post("/get_reward", json={"query": ["right"], "prompts": ["Q? "], "labels": [REFERENCE]})
    assert reply.status == 422
    assert "query 0 does not contain the end of prompt 0" in await error_of(reply)


async def test_health_route_returns_503_if_no_verifier_is_alive() -> None:
    judge = Judge()
    judge.fault = "no verifier is alive: out of memory"
    async with TestClient(RawTestServer(JudgeServer(judge).handle)) as client:
        reply = await client.get("/health")
        assert (reply.status, await error_of(reply)) == (503, "no verifier is alive: out of memory")
        judge.fault = None
        assert (await client.get("/health")).status == 200


async def scraped(client: Client) -> str:
    """Return the values that Prometheus reads."""
    text: str = await (await client.get("/metrics")).text()
    return text


async def test_judge_metrics_count_verdicts(client: Client) -> None:
    await client.post("/score", json={"ref": REFERENCE, "texts": ["right", "wrong"]})
    assert 'reasoning_judge_verdicts_total{reason="scored"} 2.0\n' in await scraped(client)


async def test_judge_metrics_start_at_zero(client: Client) -> None:
    text = await scraped(client)
    for reason in Reason:
        assert f'reasoning_judge_verdicts_total{{reason="{reason.value}"}} 0.0\n' in text
    assert 'reasoning_judge_replies_total{status="503"} 0.0\n' in text
    assert 'reasoning_judge_request_duration_seconds_count{route="/rm"} 0.0\n' in text


async def test_judge_metrics_have_descriptions(client: Client) -> None:
    text = await scraped(client)
    described = set(re.findall(r"^# HELP (\S+) \S", text, re.M)) & set(re.findall(r"^# TYPE (\S+) \w+$", text, re.M))
    names = {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"^(\w+)[ {]", text, re.M)}
    assert names == described - {"reasoning_answers_most_frequent_share"}


async def test_judge_metrics_measure_request_durations(client: Client) -> None:
    await client.post("/score", json={"ref": REFERENCE, "texts": ["right"]})
    assert 'reasoning_judge_request_duration_seconds_count{route="/score"} 1.0\n' in await scraped(client)


async def test_judge_metrics_count_failed_scoring_attempts(client: Client, judge: Judge) -> None:
    judge.errors = [ScoringError("no worker")] * 3
    await client.post("/score", json={"ref": REFERENCE, "texts": ["right"]})
    text = await scraped(client)
    assert "reasoning_judge_faults_total 3.0\n" in text
    assert 'reasoning_judge_replies_total{status="503"} 1.0\n' in text


async def test_judge_metrics_contain_the_share_of_the_most_frequent_answer(client: Client) -> None:
    await client.post("/score", json={"ref": REFERENCE, "texts": ["0", "0", "0", "right"]})
    text = await scraped(client)
    assert 'reasoning_answers_most_frequent_share{task="gcd"} 0.75\n' in text


@pytest.mark.parametrize(
    ("path", "body", "line"),
    [
        ("/score", b"", "Input data was truncated"),
        ("/score", b"{", "Input data was truncated"),
        ("/score", b"\xff", "JSON is malformed"),
        ("/score", b'{"ref": "\xff", "texts": []}', "can't decode byte 0xff"),
        ("/score", b'{"ref": "\\ud800", "texts": []}', "unexpected end of escaped utf-16"),
        ("/score", b"[]", "Expected `object`, got `array`"),
        ("/score", b'{"ref": "a"}', "Object missing required field `texts`"),
        ("/score", b'{"texts": []}', "the body needs `ref` (the reference of a problem) or `row` (a row"),
        ("/score", b'{"ref": "a", "texts": "b"}', "Expected `array`, got `str` - at `$.texts`"),
        ("/score", b'{"ref": "a", "texts": [1]}', "Expected `str`, got `int` - at `$.texts[0]`"),
        ("/score", b'{"ref": 1, "texts": []}', "Expected `str | null`, got `int` - at `$.ref`"),
        ("/score", b'{"row": [], "texts": []}', "Expected `object | null`, got `array` - at `$.row`"),
        ("/rm", b'{"response": "b", "label": null}', "Expected `str | object`, got `null` - at `$.label`"),
        ("/get_reward", b'{"query": ["a"], "prompts": [], "labels": []}', "must have the same length; got 1, 0 and 0"),
    ],
)
async def test_malformed_request_returns_the_cause(client: Client, path: str, body: bytes, line: str) -> None:
    reply = await client.post(path, data=body)
    assert reply.status == 400
    assert line in await error_of(reply)


async def test_invalid_problem_reference_returns_422(client: Client, judge: Judge) -> None:
    judge.errors = [InvalidReferenceError("x", "expected task:split")]
    reply = await client.post("/rm", json={"response": "right", "label": "x"})
    assert reply.status == 422
    assert "expected task:split" in await error_of(reply)


async def test_unknown_route_returns_a_one_line_error(client: Client) -> None:
    reply = await client.get("/nowhere")
    assert reply.status == 404
    assert (await error_of(reply)).startswith("unknown path '/nowhere'; use /score,")


@pytest.mark.parametrize(("method", "path", "right"), [("GET", "/score", "POST"), ("POST", "/health", "GET")])
async def test_wrong_http_method_returns_a_one_line_error(client: Client, method: str, path: str, right: str) -> None:
    reply = await client.request(method, path)
    assert reply.status == 405
    assert await error_of(reply) == f"use {right} for {path}"


async def test_server_sends_100_continue_if_the_client_expects_it(client: Client) -> None:
    reply = await client.post("/score", json={"ref": REFERENCE, "texts": ["right"]}, expect100=True)
    assert reply.status == 200


@pytest.mark.parametrize("header", [None, "Bearer wrong", "Basic c2VjcmV0", "Basic secret", "secret", "Bearer \x80"])
async def test_request_without_the_right_token_is_refused(judge: Judge, header: str | None) -> None:
    async with TestClient(RawTestServer(JudgeServer(judge, token="secret").handle)) as client:
        headers = {} if header is None else {"Authorization": header}
        reply = await client.post("/score", json={"ref": REFERENCE, "texts": []}, headers=headers)
        assert reply.status == 401
        assert "Authorization: Bearer" in await error_of(reply)
    assert judge.asked == []


@pytest.mark.parametrize("header", ["Bearer secret", "bearer secret", "BEARER  secret"])
async def test_request_with_the_right_token_is_accepted(judge: Judge, header: str) -> None:
    async with TestClient(RawTestServer(JudgeServer(judge, token="secret").handle)) as client:
        reply = await client.post("/score", json={"ref": REFERENCE, "texts": []}, headers={"Authorization": header})
        assert reply.status == 200


async def test_judge_server_retries_scoring_after_a_worker_failure(client: Client, judge: Judge) -> None:
    judge.errors = [ScoringError("a worker died"), ScoringError("again")]
    reply = await client.post("/rm", json={"response": "right", "label": REFERENCE})
    assert await reply.json() == 1.0
    assert len(judge.asked) == 3


@pytest.mark.parametrize("error", [ScoringError("a worker died"), WorkerError("no workers")])
async def test_repeated_worker_failure_returns_503(client: Client, judge: Judge, error: Exception) -> None:
    judge.errors = [error] * 3
    reply = await client.post("/rm", json={"response": "right", "label": REFERENCE})
    assert reply.status == 503
    assert int(reply.headers["Retry-After"]) > 0
    assert await error_of(reply) == str(error)


async def test_reply_to_an_internal_error_hides_the_error_text(client: Client, judge: Judge) -> None:
    judge.errors = [ZeroDivisionError("secret")]
    reply = await client.post("/rm", json={"response": "right", "label": REFERENCE})
    assert (reply.status, reply.headers["Retry-After"]) == (500, "5")
    assert "secret" not in await reply.text()


async def test_server_returns_422_if_a_problem_cannot_be_generated(client: Client, judge: Judge) -> None:
    judge.errors = [GenerationError("took over 5 s")]
    reply = await client.post("/rm", json={"response": "right", "label": REFERENCE})
    assert reply.status == 422
    assert await reply.json() == {"error": "took over 5 s", "kind": "not_generated"}


async def test_internal_error_returns_500(client: Client, judge: Judge) -> None:
    judge.errors = [GeneratorFaultError("an unexpected error")]
    reply = await client.post("/rm", json={"response": "right", "label": REFERENCE})
    assert (reply.status, reply.headers["Retry-After"]) == (500, "5")
    assert await error_of(reply) == "an unexpected error"
    assert len(judge.asked) == 1


async def test_health_route_returns_503_after_the_worker_pool_closes() -> None:
    session = Session(tasks=["chain_sum"], num_generators=1, num_verifiers=1)
    async with session, TestClient(RawTestServer(JudgeServer(session).handle)) as client:
        await until(lambda: session.pool.fault is None)
        assert (await client.get("/health")).status == 200
        await session.pool.close()
        reply = await client.get("/health")
        assert (reply.status, await error_of(reply)) == (503, "the worker pool is closed")
