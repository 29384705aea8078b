"""A score function on a thread: verdicts, infrastructure errors, a server in place of processes, and the end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp.test_utils import TestServer

from reasoning_env.errors import ConfigError, WorkerError
from reasoning_env.integrations import verl
from reasoning_env.judging.server import JudgeServer
from reasoning_env.records import Reason, Verdict
from reasoning_env.score_bridge import ScoreBridge

FUNCTION = "tests.score_functions:score"


@pytest.fixture(scope="module")
def bridge() -> Iterator[ScoreBridge]:
    with ScoreBridge(FUNCTION, verifiers=1, deadline_s=0.5) as bridge:
        yield bridge


def scores(verdicts: list[Verdict | None]) -> list[float | None]:
    return [None if verdict is None else verdict.score for verdict in verdicts]


def test_scores_in_order(bridge: ScoreBridge) -> None:
    assert scores(bridge.judge({"answer": "right"}, ["right", {"role": "assistant", "content": "wrong"}])) == [1.0, 0.0]


async def test_scores_for_an_event_loop(bridge: ScoreBridge) -> None:
    assert scores(await bridge.ajudge({"answer": "right"}, ["right", "wrong"])) == [1.0, 0.0]


def test_row_that_is_no_json(bridge: ScoreBridge) -> None:
    with pytest.raises(ConfigError, match="row: must be a JSON object"):
        bridge.judge({"answer": object()}, ["right"])


def test_infrastructure_error_is_none(bridge: ScoreBridge, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: Any) -> list[Verdict]:
        raise WorkerError("no worker")

    monkeypatch.setattr(bridge._judge, "judge", fail)
    assert bridge.judge({}, ["a", "b"]) == [None, None]


async def test_server_in_place_of_processes() -> None:
    class OfRows:
        fault = None

        async def judge(self, row: Any, completions: Any) -> list[Verdict]:
            parts = {"row": float(row["answer"])}
            return [Verdict(0.5, Reason.SCORED, text, parts=parts, error="said") for text in completions]

    async with TestServer(JudgeServer(OfRows()).app()) as server:
        bridge = ScoreBridge(judge_url=str(server.make_url("/")))
        [verdict] = await bridge.ajudge({"answer": "42"}, ["x"])
        await asyncio.to_thread(bridge.close)
    assert verdict is not None
    assert (verdict.score, verdict.parts, verdict.error) == (0.5, {"row": 42.0}, "said")


@pytest.mark.parametrize("given", [{}, {"function": FUNCTION, "judge_url": "http://localhost:1"}])
def test_function_or_server(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="give a function, or the address of a server"):
        ScoreBridge(**given)


def test_error_of_the_start() -> None:
    with pytest.raises(ConfigError, match="there is no module nowhere"):
        ScoreBridge("nowhere:score")


def test_closed_bridge() -> None:
    bridge = ScoreBridge(FUNCTION, start=False)
    bridge.close()
    with pytest.raises(RuntimeError, match="this ScoreBridge is closed"):
        bridge.judge({}, ["x"])


# ---------------------------------------------------------------------------- the functions for verl, without verl


@pytest.fixture
def options(bridge: ScoreBridge, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What verl's functions make their bridge of; they get the bridge of this module."""
    given: dict[str, Any] = {}

    def row_judge(options_json: str) -> ScoreBridge:
        given.update(json.loads(options_json))
        return bridge

    monkeypatch.setattr(verl, "row_judge", row_judge)
    return given


async def test_row_of_verl(options: dict[str, Any]) -> None:
    info = {"numbers": [1, 2], "one": 1, "ground_truth": "another"}
    judge = {"function": "my:score", "read": ["a"]}
    found = await verl.compute_score_of_row("data", "numbers", "42", info, judge=judge, reward_router_address=None)
    assert found == {"score": 1.0, "reason": "scored", "correct": 1.0, "error": "", "parts": "{}"}
    assert options == {"function": "my:score", "read": ["a"]}


def test_blocking_row_of_verl(options: dict[str, Any]) -> None:
    found = verl.compute_score_of_row_blocking("data", "parts", "42")
    assert (found["score"], found["parts"]) == (0.5, '{"length": 3.0, "style": 0.25}')


async def test_error_of_a_row_of_verl(options: dict[str, Any]) -> None:
    found = await verl.compute_score_of_row("data", "raise", "42")
    assert (found["reason"], found["error"]) == ("verifier_error", "ZeroDivisionError: division by zero")
