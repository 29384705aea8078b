from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reasoning_env.atropos import Process
from reasoning_env.metrics.recorder import MetricsRecorder


@pytest.mark.parametrize("written", [0, 3])
def test_summary_names_the_group_file_if_it_has_groups(capsys: pytest.CaptureFixture[str], written: int) -> None:
    mode: Any = Process()
    mode._file = SimpleNamespace(path=Path("g.jsonl"), keys=set(range(written)))
    mode.print_summary(MetricsRecorder())
    assert (f"g.jsonl has {written} groups" in capsys.readouterr().out) is bool(written)


def test_summary_says_that_the_file_was_finished(capsys: pytest.CaptureFixture[str]) -> None:
    mode: Any = Process()
    mode._file = SimpleNamespace(path=Path("g.jsonl"), keys=set(range(3)))
    mode._total = 3
    recorder = MetricsRecorder()
    mode.print_summary(recorder)
    assert capsys.readouterr().out.splitlines() == [
        "g.jsonl has 3 groups. Show them as a web page with `report g.jsonl`.",
        "Nothing to do: the file already has 3 groups. For more, raise env.total_steps.",
    ]
