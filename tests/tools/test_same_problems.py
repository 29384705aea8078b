"""A seed gives equal problems in different environments. `tools/same_problems.py` compares more problems."""

from __future__ import annotations

import pytest

from tools.same_problems import main

pytestmark = pytest.mark.slow

FEW = ["--count", "1", "--judged", "1"]
SENSITIVE = (
    "arc_agi,codeio,color_cube_rotation,figlet_font,intermediate_integration,knight_swap,list_functions,"
    "polynomial_equations,propositional_logic,rearc,rubiks_cube,zebra_puzzles"
)
"""Tasks whose problems once depended on hash seeds, local files or floating-point results, and similar tasks."""


def test_no_differences_are_reported_if_all_runs_make_the_same_problems(capsys: pytest.CaptureFixture[str]) -> None:
    status = main([*FEW, "--tasks", SENSITIVE, "--levels", "0.5"])
    assert (capsys.readouterr().out, status) == ("0 differences\n", 0)
