from __future__ import annotations

import pytest

from tools.start_levels import main


def test_every_published_task_has_a_start(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    printed = capsys.readouterr().out
    assert printed.count("`") == 2 * 101
    assert "| defaults | above | above | `basic_arithmetic` (0.65, 0.96, 0.96)" in printed
