from __future__ import annotations

import pytest

from reasoning_env.reports.tables import LEAST_WIDTH, UNBROKEN_SPACE, format_table

WORDS = "one two three four five six seven eight nine ten eleven twelve"


def test_columns_are_aligned_and_numbers_stand_to_the_right() -> None:
    assert format_table(("TASK", "N", "NOTE"), [("gcd", "5", "-"), ("chain_sum", "125", "slow")], {"N"}) == [
        "TASK         N  NOTE",
        "gcd          5  -",
        "chain_sum  125  slow",
    ]


def test_a_last_cell_that_is_too_wide_goes_on_below_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    lines = format_table(("TASK", "NOTE"), [("chain_sum", WORDS), ("gcd", "-")])
    assert lines[1:] == [
        "chain_sum  one two three four five six seven eight nine ten",
        "           eleven twelve",
        "gcd        -",
    ]


def test_a_narrow_terminal_leaves_the_last_column_readable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "5")
    lines = format_table(("TASK", "NOTE"), [("chain_sum", WORDS)])
    assert len(lines[1]) > LEAST_WIDTH / 2
    assert " ".join(" ".join(lines[1:]).split()) == f"chain_sum {WORDS}"


def test_no_line_ends_at_an_unbroken_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    lines = format_table(("TASK", "NOTE"), [("chain_sum", WORDS.replace("ten eleven", f"ten{UNBROKEN_SPACE}eleven"))])
    assert lines[1:] == ["chain_sum  one two three four five six seven eight nine", "           ten eleven twelve"]


def test_an_empty_last_cell_leaves_no_space_at_the_end() -> None:
    assert format_table(("TASK", "NOTE"), [("gcd", "")]) == ["TASK  NOTE", "gcd"]
