"""Boards and matrices become the expected answer in other layouts of the same cells."""

from __future__ import annotations

import pytest

from reasoning_env.verifiers.readings import readings

from .entries import entry, is_read


@pytest.mark.parametrize(
    "said",
    [
        "1, 2\n3, 4",
        "12\n34",
        "1 2\n\n3 4",
        "[[1, 2], [3, 4]]",
        "((1, 2), (3, 4))",
        "| 1 | 2 |\n|---|---|\n| 3 | 4 |",
        "[1 2]\n[3 4]",
        "[[1 2]\n [3 4]]",
        "[1 2; 3 4]",
        '["1 2", "3 4"]',
        "1 & 2 \\\\ 3 & 4",
        "\\begin{bmatrix}\n1 & 2 \\\\\n3 & 4\n\\end{bmatrix}",
        "\\left[\\begin{array}{cc} 1 & 2 \\\\ 3 & 4 \\end{array}\\right]",
        "$$\\left(\\begin{array}{c|c}\n1 & 2 \\\\ \\hline\n3 & 4\n\\end{array}\\right)$$",
        "1 | 2\n---\n3   4",
        "**1** 2\n3 **4**",
        "x = np.array([[1, 2],\n              [3, 4]])",
        "Matrix([[1, 2], [3, 4]])",
        "\\begin{Bmatrix} 1 & 2 \\\\ 3 & 4 \\end{Bmatrix}",
        "\\left[\\begin{smallmatrix} 1 & 2 \\\\ 3 & 4 \\end{smallmatrix}\\right]",
        "Output grid:\n1 2\n3 4",
        "+---+---+\n| 1 | 2 |\n+---+---+\n| 3 | 4 |\n+---+---+",
    ],
)
def test_board_layouts(said: str) -> None:
    assert is_read(said, "sudoku", "1 2\n3 4")


@pytest.mark.parametrize(
    "said",
    ["1 2 3 4", "1 2\n3", "1 2\n3 4\n5 6", "1 x\n3 4", "12 1\n3 4", "", "one 1 2\n3 4", "1 2\n3 4 or 5", "3 4\n1 2"],
)
def test_other_board(said: str) -> None:
    assert not is_read(said, "sudoku", "1 2\n3 4")


@pytest.mark.parametrize(
    "sign",
    [
        "-B",
        "-(B)",
        '-"B"',
        "-\nB",
        "B-",
        "+B",
        ">B",
        "> B",
        "B >",
        "<B",
        "B =",
        "B:",
        "^B",
        "B'",
        "B''",
        "(B",
        "B]",
    ],
)
@pytest.mark.parametrize("board", ["1 2\n3 4", "[1 2]\n[3 4]", "[[1, 2], [3, 4]]"])
def test_sign_beside_board(sign: str, board: str) -> None:
    assert not is_read(sign.replace("B", board), "sudoku", "1 2\n3 4")


@pytest.mark.parametrize(
    "said",
    [
        "-\\begin{bmatrix} 1 & 2 \\\\ 3 & 4 \\end{bmatrix}",
        "\\begin{vmatrix} 1 & 2 \\\\ 3 & 4 \\end{vmatrix}",
        "[[1, 2], [3, 4]] is wrong",
        "[[1, 2], [3, 4]].T",
        "[[1, 2], [3, 4]]*2",
        "\\begin{bmatrix} 1 & 2 \\\\ 3 & 4",
        "1 < 2\n3 4",
        "1 v 2\n3 4",
        ", 1 2\n3 4",
        "[1 2)\n3 4",
        "]1 2[\n3 4",
        "|1 2\n3 4|",
        "\\left| 1 & 2 \\\\ 3 & 4 \\right|",
    ],
)
def test_other_matrix(said: str) -> None:
    assert not is_read(said, "sudoku", "1 2\n3 4")


@pytest.mark.parametrize(
    ("said", "same"),
    [
        ("| 0 | 0 | 5 |", True),
        ("|0 0 5|", False),
        ("||0 0 5||", False),
        ("[0 0 5]", True),
        ('["0", "0", "5"]', True),
        ('["0", "5", "0"]', False),
    ],
)
def test_row_between_bars(said: str, same: bool) -> None:
    assert is_read(said, "string_splitting", "0 0 5") is same


@pytest.mark.parametrize(
    "said",
    [
        "\\left|\\begin{array}{cc} 1 & 2 \\\\ 3 & 4 \\end{array}\\right|",
        "\\left\\lvert\\begin{matrix} 1 & 2 \\\\ 3 & 4 \\end{matrix}\\right\\rvert",
        "|\\begin{matrix} 1 & 2 \\\\ 3 & 4 \\end{matrix}|",
        "|\n1 2\n3 4\n|",
        "||\n1 2\n3 4\n||",
        "\\begin{comment}\n1 2\n3 4\n\\end{comment}",
        "\\begin{cases} 1 & 2 \\\\ 3 & 4 \\end{cases}",
        "\x001 2\n3 4",
        "np.array([[1, 2], [3, 4]], dtype=bool)",
    ],
)
def test_determinant_or_hidden_board(said: str) -> None:
    assert not is_read(said, "sudoku", "1 2\n3 4")


@pytest.mark.parametrize("rule", ["|:-:|:-:|", "|-|-|", "|:---|---:|"])
def test_rule_of_a_table(rule: str) -> None:
    assert is_read(f"| 1 | 2 |\n{rule}\n| 3 | 4 |", "sudoku", "1 2\n3 4")


def test_sign_beside_a_queen() -> None:
    assert not is_read("_ -Q\nQ _", "n_queens", "_ Q\nQ _")


@pytest.mark.parametrize("said", ["1 < 2\n2   1\n\u2228", "\u2228\n1 < 2\n2   1"])
def test_sign_between_other_rows(said: str) -> None:
    assert not is_read(said, "futoshiki", "1 < 2\n\u2228\n2   1")


def test_lone_v_is_sign() -> None:
    board = "1 < 2\n\u2228\n2   1"
    forms = [
        "1<2\nv\n2 1",
        '[["1", "<", "2"], ["v", "", ""], ["2", "", "1"]]',
        "1&<&2\\\\v&&\\\\2&&1",
        "|1|<|2|\n|v||\n|2||1|",
    ]
    assert all(is_read(form, "futoshiki", board) for form in forms)
    assert not is_read("1v2\n2 1", "futoshiki", board)
    assert not is_read("1 v 2\n2 1", "futoshiki", board)


@pytest.mark.parametrize("row", ["1 > 2", "1 << 2", "1 <> 2", "1^ < 2"])
def test_other_sign_in_row(row: str) -> None:
    assert is_read("1 < 2\n2 1", "futoshiki", "1 < 2\n\u2228\n2   1")
    assert not is_read(f"{row}\n2 1", "futoshiki", "1 < 2\n\u2228\n2   1")


@pytest.mark.parametrize("signs", ["\u2227", "^", "v v", "\u2228 ^"])
def test_other_sign_between_rows(signs: str) -> None:
    assert is_read("1 < 2\n v\n2 1", "futoshiki", "1 < 2\n\u2228\n2   1")
    assert not is_read(f"1 < 2\n{signs}\n2 1", "futoshiki", "1 < 2\n\u2228\n2   1")


def test_board_with_signs() -> None:
    assert "2 < 1\n\u2228\n1   2" in readings("2 1\n1 2", "futoshiki", entry("1 < 2\n\u2228\n2   1"))


def test_row_with_blanks_of_latex() -> None:
    assert is_read("\\boxed{1\\ 2\\ 3}", "spiral_matrix", "1 2 3")
    assert not is_read("\\boxed{1\\ 23}", "spiral_matrix", "1 2 3")
