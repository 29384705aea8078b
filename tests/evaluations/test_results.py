"""Rows, tables and data frames of evaluations and groups."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from reasoning_env import ConfigError, read_evaluation, read_groups
from reasoning_env.evaluations.results import EvaluationResult
from tests.reports.lines import RESULTS, write_evaluation


def write_groups(path: Path, **scores: list[float]) -> Path:
    """Write a group for each task, with rollouts of these scores."""
    lines = []
    for task, earned in scores.items():
        conversation = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "<b>5</b>"}]
        rollouts = [{"conversation": conversation, "score": score, "answer": "5"} for score in earned]
        lines.append(json.dumps({"item_id": task, "reference": f"{task}:1", "rollouts": rollouts}))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_groups(tmp_path / "groups.jsonl", gcd=[1.0, 0.0], lcm=[0.0, 0.0])


def test_first_result_row_is_the_worst_task(file: Path) -> None:
    rows = read_groups(file).rows()
    assert [(row["task"], row["score"]) for row in rows] == [("lcm", 0.0), ("gcd", 0.5), ("ALL TASKS", 0.25)]


def test_score_in_a_result_row_lies_within_the_confidence_interval(file: Path) -> None:
    assert all(row["score_low"] <= row["score"] <= row["score_high"] for row in read_groups(file).rows())


def test_result_groups_can_be_iterated_twice(file: Path) -> None:
    groups = read_groups(file)
    assert list(groups) == list(groups) != []


def test_rollout_row_joins_values_of_the_group_and_the_rollout(file: Path) -> None:
    rollout = next(read_groups(file).rollouts())
    assert (rollout["reference"], rollout["answer"], rollout["completion"]) == ("gcd:1", "5", "<b>5</b>")


def test_rollouts_of_a_group_are_numbered_from_0(file: Path) -> None:
    assert [rollout["rollout"] for rollout in read_groups(file).rollouts()] == [0, 1, 0, 1]


def test_rollouts_of_a_file_are_converted_to_a_pandas_data_frame(file: Path) -> None:
    pytest.importorskip("pandas")
    assert list(read_groups(file).to_pandas()["score"]) == [1.0, 0.0, 0.0, 0.0]


def test_row_of_a_rollout_has_the_metadata_of_its_group(file: Path) -> None:
    (file.parent / "groups.jsonl.header").write_text('{"made_with": {"models": ["small"]}}')
    first = next(read_groups(file).rollouts())
    facts = {name: first[name] for name in ("level", "params", "pass_rate", "group_size", "model")}
    assert facts == {"level": None, "params": {}, "pass_rate": 0.5, "group_size": 2, "model": "small"}


def test_converting_to_a_data_frame_without_pandas_raises_with_install_advice(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        read_groups(file).to_pandas()


def test_notebook_table_escapes_html(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    file = write_groups(tmp_path / "<script>.jsonl", **{"<img src=x>": [0.0]})
    html = read_groups(file)._repr_html_()
    assert "<img" not in html
    assert "<script>" not in html


def test_empty_result_file_has_no_rows(tmp_path: Path) -> None:
    groups = read_groups(write_groups(tmp_path / "empty.jsonl"))
    assert groups.rows() == []


def test_evaluation_folder_without_results_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is not an evaluation folder: .*No such file"):
        read_evaluation(tmp_path)


def test_results_file_of_a_newer_format_raises(tmp_path: Path) -> None:
    write_evaluation(tmp_path, results={**RESULTS, "format": 2})
    with pytest.raises(ConfigError, match="the file does not contain evaluation results in format 1"):
        read_evaluation(tmp_path)


def test_repr_of_a_result_is_one_escaped_line(tmp_path: Path) -> None:
    overall = {"problems": 1, "completions": 1, "failed": 0, "mean_score": 0.5}
    results = {"model": "m\x1b[2J", "overall": overall, "tasks": {"gcd": overall, "lcm": overall}, "finished": True}
    expected = f"<m\\x1b[2J: mean score 0.500 over 2 tasks, in {tmp_path}>"
    assert repr(EvaluationResult(results, tmp_path)) == expected


def test_result_of_an_evaluation_without_scores_has_no_rows(tmp_path: Path) -> None:
    result = EvaluationResult({"model": "m", "overall": None, "tasks": {}, "finished": False}, tmp_path)
    assert result.rows() == []
    assert "nothing was scored" in str(result)
