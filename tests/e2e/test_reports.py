"""What the reports say of the real library, and the status that a machine reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Cli


def _rows(stdout: str) -> dict[str, list[str]]:
    table = stdout.partition("\n\n")[0]
    return {cells[0]: cells[1:] for cells in map(str.split, table.splitlines()[1:])}


def test_audit_fails_for_a_verifier_that_pays_for_anything(cli: Cli) -> None:
    words = ("--tasks", "chain_sum,game_of_life_halting", "--levels", "defaults", "--items", "3")
    result = cli("audit", "--plain", *words)
    assert result.status == 1
    report = json.loads(Path("audit.json").read_text())
    assert report["failed"] == ["game_of_life_halting"]
    assert report["audits"][1]["kinds"]["0"]["mean"] == 1.0
    assert report["audits"][0]["kinds"]["oracle"]["mean"] == 1.0


def test_audit_of_the_scores_of_training_passes_for_a_sample_of_tasks(cli: Cli) -> None:
    tasks = "chain_sum,knights_knaves,mini_sudoku,pool_matrix,string_insertion,time_intervals"
    result = cli("audit", "--tasks", tasks, "--levels", "defaults,0,1", "--items", "6", "--output", "out/numbers.json")
    assert result.status == 0, result.stdout
    assert json.loads(Path("out/numbers.json").read_text())["failed"] == []


@pytest.mark.parametrize("words", [["--tasks", "chain_sun"], ["--items", "none"], ["--output", "file/audit.json"]])
def test_audit_with_a_bad_word_is_a_usage_error(cli: Cli, words: list[str]) -> None:
    Path("file").write_text("")
    result = cli("audit", *words)
    assert result.status == 2
    assert words[0].removeprefix("--") in result.stderr


def test_difficulty_counts_levels_and_names_their_parameters(cli: Cli) -> None:
    result = cli("tasks", "--difficulty", "gcd", "rubiks_cube", "acre", "logic/knights_*")
    assert result.status == 0
    rows = _rows(result.stdout)
    assert {task: cells[:3] for task, cells in rows.items()} == {
        "gcd": ["17", "0", "0"],
        "knights_knaves": ["4", "0", "0"],
        "rubiks_cube": ["17", "0", "0"],
    }
    assert "min/max_numbers* 2..2 -> 2..3; min/max_value 100..1000 -> 10000..100000" in result.stdout
    assert "cube_size* 3 -> 6" in result.stdout
    assert "no levels of their own: acre\n" in result.stdout


def test_contamination_is_there_as_drawn_and_gone_as_served(cli: Cli) -> None:
    result = cli("tasks", "--contamination", "tower_of_hanoi", "chain_sum", "--items", "300")
    assert result.status == 0
    rows = _rows(result.stdout)
    evaluated, items, questions, drawn, served = rows["tower_of_hanoi"]
    assert (evaluated, items, served) == ("5", "300", "0.00%")
    assert 10 < int(questions) < 150
    assert 1.0 < float(drawn.removesuffix("%")) < 30.0
    assert rows["chain_sum"][-2:] == ["0.00%", "0.00%"]


def test_tasks_by_name_shows_question_and_answer(cli: Cli) -> None:
    result = cli("tasks", "chain_sum", "--samples", "2")
    assert result.status == 0
    blocks = result.stdout.split("=== ")[1:]
    assert len(blocks) == 2
    for block in blocks:
        question, _, answer = block.partition("--- answer\n")
        assert block.startswith("chain_sum (arithmetic)")
        terms = question.rpartition(": ")[2].removesuffix(" =\n\n").replace(" ", "")
        assert sum(int(term) for term in terms.replace("-", "+-").split("+")) == int(answer)
