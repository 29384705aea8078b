from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reasoning_env.atropos import Process
from reasoning_env.metrics.recorder import MetricsRecorder


@pytest.mark.parametrize("written", [0, 3])
def test_summary_of_the_process_command_omits_an_empty_group_file(
    capsys: pytest.CaptureFixture[str], written: int
) -> None:
    mode: Any = Process()
    mode._file = SimpleNamespace(path=Path("g.jsonl"), keys=set(range(written)))
    mode.print_summary(MetricsRecorder())
    assert (f"g.jsonl has {written} groups" in capsys.readouterr().out) is bool(written)
