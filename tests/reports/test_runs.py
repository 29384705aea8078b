"""The runs that files and folders lead to."""

from __future__ import annotations

import json
import re
from pathlib import Path

from reasoning_env.dumps.format import FAILED, PASSED, header_path
from tests.reports.lines import group, report, rollout, write, write_evaluation


def test_each_folder_is_a_run(tmp_path: Path) -> None:
    dumps = [write(kind.path(tmp_path / "d", "u", 0), group(rollout())) for kind in (PASSED, FAILED)]
    for name in ("a", "b"):
        write_evaluation(tmp_path / "evals" / name, group(rollout()))
    runs = report(*dumps, tmp_path / "evals")["runs"]
    assert [(run["name"], run["groups"], run["evaluation"]) for run in runs] == [
        ("d", 2, False),
        ("a", 1, True),
        ("b", 1, True),
    ]


def test_each_process_file_is_a_run(tmp_path: Path) -> None:
    for name in ("a", "b"):
        header_path(write(tmp_path / f"{name}.jsonl", group(rollout()))).write_text("{}")
    (tmp_path / "a-best.jsonl").write_text('{"messages": []}\n')
    data = report(tmp_path, tmp_path / "a.jsonl", tmp_path)
    assert [(run["name"], run["groups"]) for run in data["runs"]] == [("a.jsonl", 1), ("b.jsonl", 1)]
    assert not data["notes"]


def test_damaged_files_are_named_once(tmp_path: Path) -> None:
    good = json.dumps(group(rollout())) + "\n"
    (tmp_path / "a.jsonl").write_text(good + "{\n[]\n" + good + good[:-9])
    (tmp_path / "b.jsonl").write_text('{"task": "gcd", "completion": "of an earlier version"}\n' * 100)
    data = report(tmp_path, write_evaluation(tmp_path / "e", group(rollout()), results=[]))
    assert [run["groups"] for run in data["runs"]] == [2, 1]
    first, second, third = data["notes"]
    assert re.search(r"a\.jsonl: lines left out: 3; line 2: ", first)
    assert re.search(r"b\.jsonl: .*line 1: item_id: ", second)
    assert "results.json" in third
