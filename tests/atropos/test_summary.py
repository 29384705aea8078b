from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reasoning_env.atropos import Process
from reasoning_env.metrics.recorder import MetricsRecorder


@pytest.mark.parametrize("written", [0, 3])
def test_summary_names_file(capsys: pytest.CaptureFixture[str], written: int) -> None:
    mode: Any = Process()
    mode._file = SimpleNamespace(path=Path("g.jsonl"), keys=set(range(written)))
    mode.print_summary(MetricsRecorder())
    assert (f"g.jsonl holds {written} groups" in capsys.readouterr().out) is bool(written)


def test_nothing_left_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    mode: Any = Process()
    mode._file = SimpleNamespace(path=Path("g.jsonl"), keys=set(range(3)))
    mode._total = 3
    recorder = MetricsRecorder()
    mode.print_summary(recorder)
    assert capsys.readouterr().out.splitlines() == [
        "g.jsonl holds 3 groups; the command `report g.jsonl` shows them",
        "Nothing was left to do: env.total_steps is 3, and more groups need a higher number.",
    ]
