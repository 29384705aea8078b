"""A judge with scripted scores and errors, for tests of the judge server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiohttp.test_utils import TestClient

from reasoning_env.records import Reason, Verdict

REFERENCE = "gcd:train:1:-:0.1.25:0123456789abcdef:{}"


Client = TestClient[Any, Any]


class Judge:
    """Gives the score 1.0 to "right". Its first calls raise `errors`, one error per call."""

    fault: str | None = None

    def __init__(self) -> None:
        self.errors: list[Exception] = []
        self.asked: list[tuple[str, Sequence[str]]] = []

    async def judge(self, problem: str, completions: Sequence[str]) -> list[Verdict]:
        self.asked.append((problem, completions))
        if self.errors:
            raise self.errors.pop(0)
        return [Verdict(float(text == "right"), Reason.SCORED, text) for text in completions]


async def error_of(reply: Any) -> str:
    """Return the one-line error message of a refused request."""
    error: str = (await reply.json())["error"]
    assert len(error.splitlines()) == 1
    return error
