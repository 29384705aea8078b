"""In an answer that is a value of JSON, quotes and brackets are content."""

from __future__ import annotations

import pytest

from reasoning_env.verifiers.readings import readings

from .entries import entry


@pytest.mark.parametrize("said", ["17", "```json\n17\n```", "`17`", "**17**"])
def test_value_of_json(said: str) -> None:
    assert "17" in [said, *readings(said, "codeio", entry("17"))]


@pytest.mark.parametrize("said", ['"17"', "[17]", "{17}", '{"result": 17}', '{"answer": 17}'])
def test_other_value_of_json(said: str) -> None:
    assert "17" not in readings(said, "codeio", entry("17"))


@pytest.mark.parametrize("said", ['"[1, 2]"', "1, 2", "1 2", "[[1, 2]]"])
def test_other_list_of_json(said: str) -> None:
    assert "[1, 2]" not in readings(said, "codeio", entry("[1, 2]"))
