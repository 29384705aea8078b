from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reasoning_env.atropos.summary import print_summary
from reasoning_env.metrics import MetricsRecorder


@pytest.mark.parametrize(("written", "waiting"), [(0, 2), (3, 0), (3, 2), (0, 0)])
def test_summary_tells_of_groups_that_are_written_and_of_those_that_wait(
    capsys: pytest.CaptureFixture[str], written: int, waiting: int
) -> None:
    file = SimpleNamespace(path=Path("g.jsonl"), lines=written, ahead=dict.fromkeys(range(waiting), b""))
    run: Any = SimpleNamespace(metrics=MetricsRecorder(), group_file=file)
    print_summary(run)
    told = capsys.readouterr().out
    assert [f"{written} groups are in g.jsonl" in told, f"{waiting} more wait" in told] == [
        bool(written or waiting),
        bool(waiting),
    ]
