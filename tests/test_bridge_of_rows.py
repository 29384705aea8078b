"""Judge rows with a score function through `Bridge` and verl's reward functions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import RawTestServer

from reasoning_env.bridge import Bridge
from reasoning_env.errors import ConfigError, RaisingFunctionError, ReasoningEnvError
from reasoning_env.integrations import process_bridge, verl
from reasoning_env.judging.client import JudgeClient
from reasoning_env.judging.server import JudgeServer
from reasoning_env.records import Reason, Verdict

FUNCTION = "tests.score_functions:score"


@pytest.fixture(scope="module")
def bridge() -> Iterator[Bridge]:
    with Bridge(score=FUNCTION, num_verifiers=1, scoring_deadline_s=0.5) as bridge:
        yield bridge


def scores(verdicts: list[Verdict | None]) -> list[float | None]:
    return [None if verdict is None else verdict.score for verdict in verdicts]


async def test_bridge_raises_if_the_judge_reports_that_the_score_function_always_raises() -> None:
    class AlwaysRaises:
        fault = None

        async def judge(self, row: Any, completions: Any) -> list[Verdict]:
            raise RaisingFunctionError(100, "ValueError: none")

    async with RawTestServer(JudgeServer(AlwaysRaises()).handle) as server:
        bridge = Bridge(judge=JudgeClient(str(server.make_url(""))), start=False)
        try:
            with pytest.raises(ReasoningEnvError, match="the first error: ValueError: none"):
                await bridge.ajudge({"answer": "1"}, ["a"])
        finally:
            await asyncio.to_thread(bridge.close)


async def test_bridge_sends_rows_to_a_judge_server() -> None:
    class OfRows:
        fault = None

        async def judge(self, row: Any, completions: Any) -> list[Verdict]:
            parts = {"row": float(row["answer"])}
            return [Verdict(0.5, Reason.SCORED, text, own_parts=parts, error="said") for text in completions]

    async with RawTestServer(JudgeServer(OfRows()).handle) as server:
        bridge = Bridge(judge=JudgeClient(str(server.make_url("/"))))
        [verdict] = await bridge.ajudge({"answer": "42"}, ["x"])
        await asyncio.to_thread(bridge.close)
    assert verdict is not None
    assert (verdict.score, verdict.parts, verdict.error) == (0.5, {"row": 42.0}, "said")


def test_bridge_with_both_a_score_function_and_a_judge_client_raises() -> None:
    with pytest.raises(ConfigError, match="score: cannot be combined with `judge`"):
        Bridge(score=FUNCTION, judge=JudgeClient("http://localhost:1"))


# ---------------------------------------------------------------------------- the functions for verl, without verl


@pytest.fixture
def options(bridge: Bridge, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The settings from which the verl functions would make their bridge. The functions use this module's bridge."""
    given: dict[str, Any] = {}

    def judge(settings_json: str) -> Bridge:
        given.update(json.loads(settings_json))
        return bridge

    monkeypatch.setattr(verl, "process_bridge", judge)
    return given


async def test_asynchronous_verl_function_returns_score_and_reward_parts_for_a_row(options: dict[str, Any]) -> None:
    info = {"numbers": [1, 2], "one": 1, "ground_truth": "another"}
    settings = {"score": "my:score", "num_verifiers": 1}
    found = await verl.compute_score_of_row("data", "numbers", "42", info, settings, reward_router_address=None)
    assert found == {"score": 1.0, "reason": "scored", "correct": 1.0, "error": "", "parts": "{}"}
    assert options == settings


def test_synchronous_verl_function_returns_the_score_for_a_row(options: dict[str, Any]) -> None:
    found = verl.compute_score_of_row_blocking("data", "parts", "42")
    assert (found["score"], found["parts"]) == (0.5, '{"length": 3.0, "style": 0.25}')


async def test_verl_result_contains_the_reward_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts are top-level numbers, because `gdpo_reward_keys` refers to top-level keys."""

    class OfProblems:
        async def averdict(self, reference: str, completion: str) -> Verdict:
            return Verdict(0.4, Reason.SCORED)

    monkeypatch.setattr(verl, "process_bridge", lambda _: OfProblems())
    found = await verl.compute_score("data", "<answer>1</answer>", "reference")
    parts = [found.pop(part) for part in ("format", "answer", "length")]
    assert parts == [1.0, 0.4, 1.0]
    assert found == {"score": prod(parts), "reason": "scored", "correct": 0.0}


async def test_verl_result_contains_the_error_of_the_score_function(options: dict[str, Any]) -> None:
    found = await verl.compute_score_of_row("data", "raise", "42")
    assert (found["reason"], found["error"]) == ("verifier_error", "ZeroDivisionError: division by zero")


def test_verl_settings_grant_permissions_to_the_score_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REASONING_JUDGE_URL", raising=False)
    (tmp_path / "file").write_text("content")
    function = {"name": FUNCTION, "read": [str(tmp_path)]}
    with process_bridge(json.dumps({"score": function, "num_verifiers": 1})) as bridge:
        assert scores(bridge.judge({"path": str(tmp_path / "file")}, ["read"])) == [1.0]
