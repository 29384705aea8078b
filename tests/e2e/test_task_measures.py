"""What `tasks --difficulty` and `tasks --overlap` say of the real library."""

from __future__ import annotations

import pytest

from .conftest import Cli


def _rows(stdout: str) -> dict[str, list[str]]:
    table = stdout.partition("\n\n")[0]
    return {cells[0]: cells[1:] for cells in map(str.split, table.splitlines()[1:])}


def test_difficulty_counts_levels_and_names_their_parameters(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    result = cli("tasks", "--difficulty", "gcd", "rubiks_cube", "acre", "logic/knights_*")
    assert result.status == 0
    rows = _rows(result.stdout)
    assert list(rows) == ["gcd", "knights_knaves", "rubiks_cube"]
    assert [cells[:3] for cells in rows.values()] == [["17", "-", "-"], ["4", "-", "-"], ["17", "-", "-"]]
    assert "min/max_numbers 2..2 -> 4..5; min/max_value 100..1000 -> 10000..100000" in result.stdout
    assert "cube_size* 3 -> 6" in result.stdout
    assert "  rubiks_cube: cube_size: the config refuses 7" in result.stdout
    assert "  acre: the library has no curriculum for it" in result.stdout


def test_overlap_is_there_as_drawn_and_gone_as_served(cli: Cli) -> None:
    result = cli("tasks", "--contamination", "tower_of_hanoi", "chain_sum", "--items", "300")
    assert result.status == 0
    rows = _rows(result.stdout)
    hanoi = rows["tower_of_hanoi"]
    assert hanoi[:2] == ["5", "300"]
    assert 10 < int(hanoi[2]) < 150
    assert 1.0 < float(hanoi[3]) < 30.0
    assert hanoi[-1] == "0"
    assert rows["chain_sum"][-2:] == ["0", "0"]
    assert result.stdout.splitlines()[-1] == (
        "1 of 2 tasks draw questions of the evaluation set; a run serves none of them"
    )
