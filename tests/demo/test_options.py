"""The demo's command line."""

from __future__ import annotations

import pytest
from reasoning_gym.factory import DATASETS

from demo.options import GUESSED_TASKS, describe_tasks, read_options
from demo.rules import RULES


def test_default_tasks() -> None:
    chosen = read_options([]).tasks.split(",")
    assert set(chosen) == set(RULES) | set(GUESSED_TASKS)
    assert set(chosen) <= set(DATASETS)


def test_description_names_guessed_tasks() -> None:
    text = describe_tasks(read_options(["--tasks", "gcd, maze", "--skill", "0.25"]))
    assert "knows 1 of them" in text
    assert "25%" in text
    assert "At maze it can only guess" in text
    assert "guess" not in describe_tasks(read_options(["--tasks", "gcd"]))
    assert "most groups will be dropped" in describe_tasks(read_options(["--tasks", "all"]))


@pytest.mark.parametrize("argv", [["--batches", "0"], ["--group-size", "0"], ["--skill", "1.5"], ["--timeout-s", "0"]])
def test_wrong_option_is_one_line(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        read_options(argv)
    assert caught.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert argv[0] in line
