"""Inspect's own reader finds in the log what the folder holds."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from reasoning_env.errors import ConfigError
from reasoning_env.evaluations.inspect_log import write_inspect_log

HOSTILE = "<answer>3</answer> \ud800 <script>alert(1)</script> \x1b[2J"


def rollout(text: str, score: float, **fields: Any) -> dict[str, Any]:
    messages = [("system", "Think."), ("user", "What is 1 + 1?"), ("assistant", text)]
    conversation = [{"role": role, "content": content} for role, content in messages]
    return {"conversation": conversation, "score": score, "reason": "scored", "answer": "2", **fields}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    results = {
        "format": 1,
        **dict.fromkeys(("server", "step", "preset", "versions")),
        "remarks": [],
        "model": "some/model",
        "finished": True,
        "started": "2026-01-02T03:04:05+0000",
        "seconds": 90.0,
        "fingerprint": "abc",
        "settings": {"eval_seed": 7},
        "overall": {"mean_score": 0.75, "accuracy": 0.5},
    }
    rollouts = [
        rollout("<answer>2</answer>", 1.0),
        rollout(HOSTILE, 0.25, finish_reason="length", tokens=7, library_score=0.5),
    ]
    lines = [
        {"item_id": "gcd", "rollouts": rollouts, "seed": 5, "index": 0, "expected_answer": "2", "params": {"a": 1}},
        {"item_id": "lcm", "rollouts": [], "seed": 6, "index": 0, "failed": 2},
    ]
    (tmp_path / "results.json").write_text(json.dumps(results))
    (tmp_path / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_log_is_read_back_by_inspect(folder: Path) -> None:
    reader = pytest.importorskip("inspect_ai.log", reason="needs the extra `inspect`", exc_type=ImportError)
    path = write_inspect_log(folder)
    log = reader.read_eval_log(str(path))
    assert (log.status, log.eval.model, log.eval.metadata["fingerprint"]) == ("success", "some/model", "abc")
    assert {name: metric.value for name, metric in log.results.scores[0].metrics.items()} == {
        "mean_score": 0.75,
        "accuracy": 0.5,
    }
    assert (log.stats.started_at, log.stats.completed_at) == ("2026-01-02T03:04:05+00:00", "2026-01-02T03:05:35+00:00")
    first, second = log.samples
    assert [(sample.id, sample.epoch) for sample in log.samples] == [("gcd-0", 1), ("gcd-0", 2)]
    assert first.input == "What is 1 + 1?"
    assert [message.role for message in first.messages] == ["system", "user", "assistant"]
    assert (first.scores["verifier"].value, first.scores["verifier"].answer, first.target) == (1.0, "2", "2")
    assert (second.scores["verifier"].value, second.output.stop_reason) == (0.25, "max_tokens")
    assert (second.scores["library"].value, second.model_usage["some/model"].output_tokens) == (0.5, 7)
    assert second.messages[-1].content == HOSTILE.replace("\ud800", "\\ud800")
    assert first.metadata == {"task": "gcd", "seed": 5, "level": None, "params": {"a": 1}}
    assert [Path(info.name).name for info in reader.list_eval_logs(str(folder))] == [path.name]


def test_missing_package_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "inspect_ai", None)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="pip install"):
        write_inspect_log(folder)


def test_folder_without_an_evaluation_is_refused(folder: Path) -> None:
    pytest.importorskip("inspect_ai.log", reason="needs the extra `inspect`", exc_type=ImportError)
    (folder / "results.json").write_text("[]")
    with pytest.raises(ConfigError, match="no folder of an evaluation"):
        write_inspect_log(folder)
