"""Freeze all clocks while generated code runs."""

from __future__ import annotations

import datetime
import pickle
import time

import pytest

from reasoning_env.records import ProblemRequest
from reasoning_env.workers.clock import frozen_clock
from reasoning_env.workers.library import Library


def test_every_time_function_returns_the_frozen_time() -> None:
    with frozen_clock():
        time.sleep(1000.0)
        read = [time.strftime("%H:%M %d.%m.%Y"), datetime.datetime.now().strftime("%H:%M %d.%m.%Y")]
        read += [time.ctime()[11:16], str(datetime.date.today()), str(datetime.datetime.utcnow()), f"{time.time():.0f}"]
    assert read == ["12:00 01.01.2025"] * 2 + ["12:00", "2025-01-01", "2025-01-01 12:00:00", "1735732800"]


def test_clocks_are_unfrozen_after_an_error() -> None:
    with pytest.raises(ValueError, match="broken"), frozen_clock():
        raise ValueError("broken")
    assert time.time() > 1_735_732_801 and datetime.datetime.now().year > 2025


def test_datetime_from_a_frozen_clock_can_be_pickled() -> None:
    with frozen_clock():
        moment = datetime.datetime.now()
    assert pickle.loads(pickle.dumps(moment)) == moment == datetime.datetime(2025, 1, 1, 12)


def test_generated_problem_does_not_depend_on_the_time(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only codeio runs generated code, so the test inserts code that reads the clock into another task's item."""
    dataset = library._datasets.get("codeio", {}, 0)
    entry = {"answer": "1", "metadata": {}}
    monkeypatch.setattr(type(dataset), "__getitem__", lambda self, item: {**entry, "question": f"{time.time()}"})
    assert library.generate(ProblemRequest("codeio", 1, {})).question == "1735732800.0"
