"""The rows for verl, written by the command line. Needs pandas and PyArrow alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pandas = pytest.importorskip("pandas", reason="needs the extra `verl`: make integrations")
pytest.importorskip("pyarrow", reason="needs the extra `verl`: make integrations")

from reasoning_env.integrations import verl
from reasoning_env.integrations.verl import main
from reasoning_env.problems.references import Reference
from reasoning_env.settings import ReasoningSettings


def test_random_levels_from_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "run.yaml"
    config.write_text("env: {complexity_level: 0.1, exclude_tasks: lcm, group_size: 4}")
    path = tmp_path / "rows.parquet"
    options = ["--rows", "8", "--config", str(config), "--tasks", "gcd,lcm", "--level", "random"]
    assert main([str(path), *options]) == 0
    rows = pandas.read_parquet(path)
    assert list(rows["ability"]) == ["gcd"] * 8
    assert len({Reference.parse(row["ground_truth"]).level for row in rows["reward_model"]}) > 3
    assert "not used by this command: env.group_size" in capsys.readouterr().err


def test_options_win_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "run.yaml"
    config.write_text("env: {complexity_mode: random, seed: 3, tasks: games, task_params: {gcd: {max_numbers: 9}}}")
    made: list[Any] = []
    monkeypatch.setattr(verl, "write_parquet", lambda path, rows, settings: made.append(settings))
    params = "{gcd: {min_numbers: 5}}"
    options = ["--tasks", "algebra", "--exclude", "lcm", "--params", params, "--level", "0.5"]
    assert main(["rows.parquet", "--config", str(config), *options]) == 0
    [settings] = made
    assert settings == ReasoningSettings(
        tasks=["algebra"], exclude_tasks=["lcm"], task_params={"gcd": {"min_numbers": 5}}, complexity_level=0.5, seed=3
    )


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--level", "1.5"], "--level: must be at most 1; got '1.5'"),
        (["--level", "hard"], "--level: must be a number; got 'hard'"),
        (["--rows", "0"], "--rows: must be at least 1; got 0"),
        (["--params", "{gcd:{a:3}}"], "--params: the name 'a:3' has no value"),
        (["--config", "absent"], "--config: absent cannot be read: No such file or directory"),
    ],
)
def test_wrong_option_is_one_line(options: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rows.parquet", *options]) == 2
    assert capsys.readouterr().err.startswith(f"python -m reasoning_env.integrations.verl: {line}")


def test_curriculum_needs_a_trainer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "run.yaml"
    config.write_text("env: {complexity_mode: curriculum}")
    assert main([str(tmp_path / "rows.parquet"), "--config", str(config)]) == 2
    assert "verl reads its rows once, so that no curriculum is possible" in capsys.readouterr().err
