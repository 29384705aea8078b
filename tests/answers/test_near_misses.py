"""Wrong answers that are made from right ones earn less than right ones, on every task."""

from __future__ import annotations

from pathlib import Path

import pytest

from reasoning_env.tasks import TASKS as DECLARED
from reasoning_env.workers.library import Library

from .near_misses import DENIED, DOUBLED, NEAR, SIGNED, STILL_RIGHT, judge_near_misses

TASKS = sorted(DECLARED.keys() - {"composite"})
SEEDS = (31, 32)
"""Seeds of default problems; `tools/near_misses.py` judges many, also at levels, whose long answers take seconds."""
MOST = 0.98
"""The highest score of a wrong answer."""


@pytest.fixture(scope="module")
def library() -> Library:
    return Library(None)


@pytest.mark.parametrize("task", TASKS)
def test_near_misses_earn_less(task: str, library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # some of the library's generators touch files
    judged = list(judge_near_misses(library, task, None, SEEDS))
    assert len(judged) >= 20
    assert [str(miss) for miss in judged if miss.score > MOST] == []


def test_exceptions_name_ways() -> None:
    ways = {*DOUBLED, *DENIED, *SIGNED, *NEAR}
    assert STILL_RIGHT.keys() <= set(TASKS)
    assert {way for row in STILL_RIGHT.values() for way in row} <= ways
