"""Inspect's own reader finds in the log what the folder holds."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from reasoning_env.errors import ConfigError
from reasoning_env.evaluations.inspect_log import write_inspect_log
from tests.reports.lines import RESULTS, group, rollout, write_evaluation

HOSTILE = "<answer>3</answer> \ud800 <script>alert(1)</script> \x1b[2J"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    results = {
        **RESULTS,
        "model": "some/model",
        "started": "2026-01-02T03:04:05+0000",
        "seconds": 90.0,
        "fingerprint": "abc",
        "overall": {"mean_score": 0.75, "accuracy": 0.5},
    }
    rollouts = [
        rollout(1.0, "<answer>2</answer>", answer="2"),
        rollout(0.25, HOSTILE, finish_reason="length", tokens=7, library_score=0.5),
    ]
    for one in rollouts:
        one["conversation"].insert(0, {"role": "system", "content": "Think."})
    lines = [group(*rollouts, index=0, params={"a": 1}), group(task="lcm", index=0, failed=2)]
    return write_evaluation(tmp_path, *lines, results=results)


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
    assert first.input == "How many?"
    assert [message.role for message in first.messages] == ["system", "user", "assistant"]
    assert (first.scores["verifier"].value, first.scores["verifier"].answer, first.target) == (1.0, "2", "11")
    assert (second.scores["verifier"].value, second.output.stop_reason) == (0.25, "max_tokens")
    assert (second.scores["library"].value, second.model_usage["some/model"].output_tokens) == (0.5, 7)
    assert second.messages[-1].content == HOSTILE.replace("\ud800", "\\ud800")
    assert first.metadata == {"task": "gcd", "seed": 7, "level": None, "params": {"a": 1}}
    assert [Path(info.name).name for info in reader.list_eval_logs(str(folder))] == [path.name]


def test_missing_package_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "inspect_ai", None)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="inspect_ai"):
        write_inspect_log(folder)


def test_folder_without_an_evaluation_is_refused(folder: Path) -> None:
    pytest.importorskip("inspect_ai.log", reason="needs the extra `inspect`", exc_type=ImportError)
    (folder / "results.json").write_text("[]")
    with pytest.raises(ConfigError, match=str(folder)):
        write_inspect_log(folder)
