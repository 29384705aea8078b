"""The help of commands."""

from __future__ import annotations

import pytest

from reasoning_env.program.parser import CommandParser


def help_of_option(help_text: str) -> str:
    parser = CommandParser(prog="command")
    parser.add_argument("--thinking", help=help_text)
    return parser.format_help()


def test_help_is_not_wrapped_inside_a_hyphenated_word(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns in range(50, 70):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert "gpt-oss" in help_of_option("the format of the thinking, such as gpt-oss and also think")


@pytest.mark.parametrize(("columns", "widest"), [("60", 60), ("400", 100)])
def test_help_is_at_most_100_columns_wide(monkeypatch: pytest.MonkeyPatch, columns: str, widest: int) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    lines = help_of_option("word " * 100).splitlines()
    assert widest - 10 < max(map(len, lines)) <= widest
