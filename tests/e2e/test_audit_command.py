"""The audit of the real library: what passes, what fails, and the status that a machine reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Cli

FEW = ("--items", "3")


def test_audit_fails_for_a_verifier_that_pays_for_anything(cli: Cli) -> None:
    result = cli("audit", "--plain", "--tasks", "chain_sum,game_of_life_halting", *FEW)
    assert result.status == 1
    last = result.stdout.splitlines()[-1]
    assert last.startswith("audit failed: game_of_life_halting pays 1.00 for '0', and well on 3 of 3 items")
    assert "chain_sum" not in last
    report = json.loads(Path("audit.json").read_text())
    assert report["failed"] == ["game_of_life_halting"]
    assert report["tasks"]["chain_sum"]["kinds"]["oracle"]["mean"] == 1.0


def test_audit_of_an_honest_verifier_passes(cli: Cli) -> None:
    result = cli("audit", "--tasks", "chain_sum", *FEW, "--output", "out/numbers.json")
    assert result.status == 0
    assert result.stdout.splitlines()[-1].startswith("audit passed: 1 of 1 tasks ")
    assert json.loads(Path("out/numbers.json").read_text())["failed"] == []


@pytest.mark.parametrize("words", [["--tasks", "chain_sun"], ["--items", "none"], ["--output", "file/audit.json"]])
def test_audit_with_a_bad_word_is_a_usage_error(cli: Cli, words: list[str]) -> None:
    Path("file").write_text("")
    result = cli("audit", *words)
    assert result.status == 2
    assert words[0].removeprefix("--") in result.stderr
