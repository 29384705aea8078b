from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reasoning_env.atropos.config import RunMode
from reasoning_env.atropos.summary import print_summary
from reasoning_env.metrics.recorder import MetricsRecorder


@pytest.mark.parametrize("written", [0, 3])
def test_summary_tells_of_groups_that_are_written(capsys: pytest.CaptureFixture[str], written: int) -> None:
    file = SimpleNamespace(path=Path("g.jsonl"), lines=written)
    run: Any = SimpleNamespace(
        mode=RunMode.PROCESS, session=SimpleNamespace(metrics=MetricsRecorder()), group_file=file
    )
    print_summary(run)
    assert (f"{written} groups are in g.jsonl" in capsys.readouterr().out) is bool(written)
