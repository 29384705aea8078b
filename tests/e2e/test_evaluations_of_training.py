"""Evaluations that `serve` runs during training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import wait_until

from .training_runs import make_training


@pytest.mark.slow
def test_evaluation_during_training_records_the_training_step(tmp_path: Path) -> None:
    evals = tmp_path / "evals"

    def finished() -> list[dict[str, Any]]:
        found = [json.loads(path.read_text()) for path in evals.glob("*/results.json")]
        return [results for results in found if results["finished"]]

    fields = {"num_eval_samples_per_task": 1, "data_dir_to_save_evals": evals, "steps_per_eval": 2}
    with make_training(tmp_path / "training", latency_s=0.05) as training:
        training.start_trainer(batch_size=16)
        environment = training.start_environment("first", seed=1, **fields)
        wait_until(lambda: finished() or not environment.check(), "an evaluation")
    results, *_ = finished()
    assert isinstance(results["step"], int)
    assert results["problems"] == 8
    assert results["server"]["type"] == "vllm"
