from __future__ import annotations

from pathlib import Path

import pytest

from reasoning_env.tasks import Task
from tests.small_library import write_small_library
from tools.check_release import main


def findings(folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> list[str]:
    checkout = write_small_library(folder) / "reasoning-gym"
    main([str(checkout), "--problems", "1", "--questions", "60", *options])
    return capsys.readouterr().out.splitlines()[:-1]


def test_undeclared_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "generous has no declaration" in findings(tmp_path, capsys)


def test_declaration_without_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "gcd has a declaration and is not in the library" in findings(tmp_path, capsys)


def test_level_without_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = findings(tmp_path, capsys, "--tasks", "broken")
    assert len(found) == 17
    assert found[0].startswith("levels: broken at 0: 1 of 1 fail: ")


def test_served_evaluation_question(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reasoning_env.problems.evaluation_set.TASKS", {"generous": Task("generous", "other")})
    (found,) = findings(tmp_path, capsys, "--tasks", "generous")
    assert found.startswith("questions: generous serves ")


def test_exit_status(tmp_path: Path) -> None:
    checkout = str(write_small_library(tmp_path) / "reasoning-gym")
    assert main([checkout, "--tasks", "exact", "--problems", "1", "--questions", "5"]) == 0
    assert main([checkout, "--tasks", "broken", "--problems", "1", "--questions", "5"]) == 1
