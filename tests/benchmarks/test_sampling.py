from __future__ import annotations

import pytest

from benchmarks.sampling import measure_rates

pytestmark = pytest.mark.slow


def test_tasks_out_of_reach_take_the_signal() -> None:
    """A curriculum chooses levels and not tasks; adaptive sampling leaves tasks that never have anything right."""
    found = measure_rates([0.0, 0.0, 0.0, 0.5], groups=400, size=8, seeds=1)
    signals = {mode: figures["signal_share"] for mode, figures in found.items()}
    assert signals["levels"] + 0.1 < signals["both"] < signals["rows"]
