"""The demo's command line."""

from __future__ import annotations

import pytest
from reasoning_gym.factory import DATASETS

from demo.options import GUESSED_TASKS, describe_tasks, read_options
from demo.rules import RULES
from reasoning_env.errors import ConfigError
from reasoning_env.program.parser import CommandParser


def test_default_tasks() -> None:
    chosen = read_options([], CommandParser()).tasks.split(",")
    assert set(chosen) == set(RULES) | set(GUESSED_TASKS)
    assert set(chosen) <= set(DATASETS)


def test_description_names_guessed_tasks() -> None:
    text = describe_tasks(read_options(["--tasks", "gcd, maze", "--skill", "0.25"], CommandParser()))
    assert "knows 1 of them" in text
    assert "25%" in text
    assert "At maze it can only guess" in text
    assert "guess" not in describe_tasks(read_options(["--tasks", "gcd"], CommandParser()))
    assert "most groups will be dropped" in describe_tasks(read_options(["--tasks", "all"], CommandParser()))


@pytest.mark.parametrize("argv", [["--batches", "0"], ["--group-size", "0"], ["--skill", "1.5"], ["--timeout-s", "0"]])
def test_wrong_option_is_named(argv: list[str]) -> None:
    with pytest.raises(ConfigError, match=argv[0]):
        read_options(argv, CommandParser())
