"""For each answer type: accept equal notations of the right value, and reject strings with another value or none."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from reasoning_env.answers.scoring import Scorer
from reasoning_env.tasks import find_task

ANGLE = {"task_type": "angle_measure", "angle_ABC_degrees": 40.5}
RADIUS = {"task_type": "incircle_radius", "incircle_radius_approx": 1.2042}
POINT = {"task_type": "orthocenter", "ortho": ("-41/10", "2")}
ROLES = {
    "names": ["Ann", "Bob"],
    "solution": (True, False),
    "knight_knave_terms": {"knight": "angel", "knave": "devil", "a_knight": "an angel", "a_knave": "a devil"},
}
ROOTS = {"real_solutions": [-0.04, 0.0], "polynomial_expr": "25*x**2 + x"}


@dataclass(frozen=True)
class Case:
    """Notations of a right answer to a task (`same`), and strings with another meaning (`other`)."""

    task: str
    right: str
    same: Sequence[str]
    other: Sequence[str]
    metadata: Mapping[str, Any] = field(default_factory=dict)


CASES = [
    Case(
        "leg_counting",
        "16",
        [
            "16.0",
            "+16",
            "+ 16",
            "016",
            "4 * 3 + 2 * 2 = 12 + 4 = 16",
            "4 \u00d7 4 = 16",
            "2^4 = 4 \\cdot 4 = 16",
            "2\u00b2 * 2\u00b2 = 16",
            "32 \u00f7 2 = 16",
            "4(1 + 3) = 16",
            "2 x 8 = 16",
            "So the final answer is: 16",
            "1.6e1",
            "(16)",
            "1.6 \\times 10^{1}",
            "1.6 × 10¹",
            "0.16*10**2",
            "$\\boxed{16}$",
            "Answer: \\boxed{16}",
            "\\boxed{\\text{16}}",
        ],
        [
            "17",
            "-16",
            "- 16",
            "160",
            "1,6",
            "16 or 17",
            "16 legs",
            "legs = 16",
            "x = 16",
            "$16 million",
            "1/2(32) = 16",
            "4 4 = 16",
            "2^4",
            "\\boxed{1}6",
            "\\boxed{1}\\boxed{6}",
            "1\\quad 6",
            "16 17",
            "16 + 0",
            "0x10",
            "1_6",
            "١٦",
            "16!",
            "1600%",
            "16\nlegs",
            "16%",
            ">16",
            "≠ 16",
            "not 16",
            "32/2",
            "16/1",
            "4^2",
            "16 ± 1",
            "16, 17",
            "16 and 16",
            "0,016",
            "1.6 \\times 10",
            "16°",
            "16?",
            "~16",
            "-(16)",
            "12 + 5 = 16",
            "3 = 16",
            "3 cows = 16",
            "[16, 16]",
            "16; 16",
            "$16 $17",
            "x = 15 = 16",
            "16 = x",
            "16 months",
            "$16",
        ],
    ),
    Case("chain_sum", "-5", ["- 5", "\u22125", "\u2212 5.0", "\u20135"], ["5", "--5", "-5-"]),
    Case("gcd", "0", ["0.0", "00"], ["-0", "- 0", "-0.0"]),
    Case(
        "lcm",
        "1234567",
        ["1,234,567", "1{,}234{,}567", "1\\,234\\,567", "1\u202f234\u202f567", "1 234 567"],
        ["1,2345,67", "1,234567", "1234,567", "1,234{,}567"],
    ),
    Case(
        "chain_sum",
        "1326",
        ["859 + 467 = 1326", "$859 + 467 = 1326$"],
        ["467 = 1326", "59 + 467 = 1326", "859 + 46 = 1326", "859 + 467 = 1325 = 1326", "859 + 467 != 1326"],
    ),
    Case(
        "simple_equations",
        "50",
        ["h = 50", "**h:** 50", "The value of h is 50.", "h = 100 / 2 = 50"],
        ["q = 50", "f(h) = 50", "h_2 = 50", "k: 50", "x = 50"],
        {"variable": "h"},
    ),
    Case("gsm_symbolic", "40", ["40.0"], ["40%", "$40", "\u20ac40", "40 dollars", "40 toys"]),
    Case("calendar_arithmetic", "No", ["no", "NO."], ["not", "No or Yes"]),
    Case("power_function", "1.23456e-14", ["1.23e-14", "1.235 x 10^-14"], ["1.24e-14", "1.2e-14", "1.23e-13"]),
    Case(
        "coin_flip",
        "0.03125",
        ["1/32", "1/32 = 0.03125", "1/32 \u2248 0.03125", "\u2248 0.03125", "3.125%", "0.0313", "2/64"],
        ["1/31 = 0.03125", "1/32 = 0.5", "0.5 = 1/32", "not \u2248 0.03125", "0.03", "1/31"],
        metadata={"rational": {"numerator": 1, "denominator": 32}},
    ),
    Case("coin_flip", "0.9375", ["0.938"], ["0.937"], metadata={"rational": {"numerator": 15, "denominator": 16}}),
    Case("coin_flip", "0.03125", ["0.0312"], [], metadata={"rational": {"numerator": 1, "denominator": 32}}),
    Case(
        "coin_flip",
        "0.375",
        ["3 * 1/8 = 3/8 = 0.375"],
        ["3 * 1/4 = 3/8 = 0.375"],
        metadata={"rational": {"numerator": 3, "denominator": 8}},
    ),
    Case(
        "number_format",
        "791044.979",
        ["791,044.979", "7.91044979e5", "791044.9790"],
        ["791044.978", "791044.98"],
        metadata={"solution": 791044.979, "candidates": [791044.979], "formatted_candidates": ["791,044.979"]},
    ),
    Case(
        "advanced_geometry",
        "40.5\u00b0",
        ["$40.5^\\circ$", "40.5 degrees", "40.50", "The answer is 40.5\u00b0."],
        ["\u2220ACB = 40.5\u00b0", "41.5\u00b0", "40\u00b0", "40.5 cm"],
        ANGLE,
    ),
    Case("advanced_geometry", "1.204", ["\u2248 1.204", "1.2042"], ["1.20", "1.204\u00b0"], RADIUS),
    Case("simple_geometry", "40", ["40\u00b0", "40 degrees", "40^\\circ"], ["40 cm", "degrees 40"]),
    Case(
        "advanced_geometry",
        "(-4.1, 2)",
        ["(-4.1,2)", "\\left(-4.1, 2\\right)", "H = (-4.1, 2)", "[-4.1, 2.000]", "x = -4.1, y = 2"],
        ["(2, -4.1)", "(-4.1, 2), 1", "(-4.1)"],
        POINT,
    ),
    Case(
        "complex_arithmetic",
        "-5.0 + 20.0i",
        [
            "-5 + 20j",
            "20i - 5",
            "-5.0 + 20.0 \\cdot i",
            "$-5.0 + 20.0i$",
            "(-5.0+20.0*i)",
            "-5 + 20.0 i",
            "-1 - 4 + (25 - 5)i = -5 + 20i",
            "(2i) * (10 + 2.5i) = 20i + 5i^2 = -5 + 20i",
        ],
        [
            "5 + 20i",
            "-5 - 20i",
            "-5.0 20.0i",
            "nan",
            "-5",
            "20i",
            "-5 + 20",
            "+ + 20i",
            "-5 + 21i = -5 + 20i",
            "-4 - 1 + 20i",
        ],
        metadata={"result": (-5.0, 20.0)},
    ),
    Case(
        "polynomial_equations",
        "-0.04, 0.0",
        [
            "x = -0.04, x = 0.0",
            "x = -0.04 or x = 0.0",
            "x_1 = -0.04, x_2 = 0",
            "[-0.04, 0.0]",
            "\\{-0.04, 0.0\\}",
            "-0.04\n0.0",
            "-0.04; 0.0",
            '["-0.04", "0.0"]',
            "0.0, -0.0400",
            "x \\in \\{-0.04, 0.0\\}",
            "-0.04, -0.0000",
        ],
        ["-0.04, 0, 0", "-0.04, 0.1", "-0.04, 0.0 and 1", "x = -0.04, y = 0.0", "-0.04", ";-0.04, 0.0"],
        metadata=ROOTS,
    ),
    Case(
        "polynomial_equations",
        "0.0, 1.0",
        ["0, 0, 1"],
        ["0, 1, 1", "0, 0, 0, 1", "0, 0"],
        {"real_solutions": [0.0, 1.0], "polynomial_expr": "x**3 - x**2"},
    ),
    Case(
        "polynomial_equations",
        "0.0",
        ["0, 0, 0", "-0.0000, 0.0000"],
        ["0, 0, 0, 0"],
        {"real_solutions": [0.0], "polynomial_expr": "-59*o**3"},
    ),
    Case(
        "polynomial_equations",
        "-1.1",
        ["-1.1000"],
        ["-1.0999", "-1.1001"],
        {"real_solutions": [-1.1], "polynomial_expr": "-90*y - 99"},
    ),
    Case(
        "base_conversion",
        "651",
        ["651_7", "(651)_{7}", "651\u2087", "651 (base 7)", "+651"],
        ["651_8", "0x651", "651 base 8", "6*7^2 = 294 = 651"],
        {"target_base": 7},
    ),
    Case(
        "base_conversion",
        "989",
        ["4*15^2 + 5*15^1 + 14*15^0 = 900 + 75 + 14 = 989"],
        ["4*15^2 + 5*15 = 989"],
        {"target_base": 10},
    ),
    Case(
        "bitwise_arithmetic",
        "-0x3f",
        ["-0X3F", "-0x3f_{16}", "-3f_16", "-3f (base 16)"],
        ["-3f", "-63", "0x3f", "-0x3f_8", "(-3f)", "-3g_16"],
    ),
    Case(
        "prime_factorization",
        "2 \u00d7 3",
        ["2*3", "3 x 2", "6 = 2 \\times 3", "2 \\cdot 3"],
        ["6", "7 = 2 x 3", "2, 3"],
    ),
    Case(
        "time_intervals",
        "3 days, 04:05",
        ["3 Days 04:05", "3 days and 4:05", "76:05", "3D 04:05", "3 D, 04:05", "3 04:05"],
        ["2 days, 27:65", "3 days, 03:65", "3 days", "04:05", "3 days, 04:06", "D3 04:05", "3 3 04:05", "4D 04:05"],
    ),
    Case(
        "dice",
        "23/256",
        ["\\frac{23}{256}", "\\frac{ 23 }{ 256 }", "46/512 = 23/256", "(23)/(256)", "23 \u00f7 256"],
        ["46/512", "23/256 \u2248 0.0898", "23/256 or 1", "23/255 = 23/256", "256/23"],
    ),
    Case("fraction_simplification", "$\\dfrac{3}{4}$", ["3/4", "\\frac34", "$3/4$"], ["6/8", "4/3"]),
    Case(
        "list_functions",
        "[1, 23]",
        ["1, 23", "[1 23]", "(1, 23)", '["1", "23"]', "[1.0, 23]"],
        ["[23, 1]", "[1]", "[1 2, 3]"],
    ),
    Case(
        "ransom_note",
        "True",
        ["'TRUE'", "\u201cTrue\u201d."],
        ["not true", "True or False", "True?", "un-True", "T"],
    ),
    Case("bf", "hello", ['"hello"', "`hello`"], ["HELLO", "hello!"]),
    Case("figlet_font", "WORD", ["word", "W O R D"], ["WORDS"]),
    Case(
        "sudoku",
        "1 2\n3 4",
        [
            "1, 2\n3, 4",
            "12\n34",
            "1 2\n\n3 4",
            "[[1, 2], [3, 4]]",
            "((1, 2), (3, 4))",
            "| 1 | 2 |\n|---|---|\n| 3 | 4 |",
            "[[1 2]\n [3 4]]",
            "[1 2; 3 4]",
            '["1 2", "3 4"]',
            "1 & 2 \\\\ 3 & 4",
            "\\begin{bmatrix}\n1 & 2 \\\\\n3 & 4\n\\end{bmatrix}",
            "+---+---+\n| 1 | 2 |\n+---+---+\n| 3 | 4 |\n+---+---+",
            "\\left[\\begin{array}{cc} 1 & 2 \\\\ \\hline 3 & 4 \\end{array}\\right]",
        ],
        [
            "1 2 3 4",
            "1 2\n3",
            "1 x\n3 4",
            "12 1\n3 4",
            "one 1 2\n3 4",
            "1 2\n3 4 or 5",
            "3 4\n1 2",
            "-[[1, 2], [3, 4]]",
            "\\begin{vmatrix} 1 & 2 \\\\ 3 & 4 \\end{vmatrix}",
            "\\left| 1 & 2 \\\\ 3 & 4 \\right|",
            "|\n1 2\n3 4\n|",
            "|1 2\n3 4|",
            "[[1, 2], [3, 4]].T",
            "[1 2; 3 4]'",
            "[[1, 2], [3, 4]]\u2032",
            "\\begin{bmatrix} 1 & 2 \\\\ 3 & 4 \\end{bmatrix}^{\\prime}",
            "1 2\n3 4\n'",
            "[1 2; 3 4]''",
            '[[1, 2], [3, 4]]"',
            "[[1, 2], [3, 4]]*2",
            "1 < 2\n3 4",
            ", 1 2\n3 4",
            "\x001 2\n3 4",
        ],
    ),
    Case(
        "string_splitting",
        "0 0 5",
        ["| 0 | 0 | 5 |", "[0 0 5]", '["0", "0", "5"]'],
        ["|0 0 5|", "||0 0 5||", '["0", "5", "0"]'],
    ),
    Case(
        "string_splitting",
        "1 0 0 5 0 7",
        [
            "1 A, 0 B, 0 C, 5 X, 0 Y, and 7 Z",
            "A: 1, B: 0, C: 0, X: 5, Y: 0, Z: 7",
            "A = 1\nB = 0\nC = 0\nX = 5\nY = 0\nZ = 7",
            '{"A": 1, "B": 0, "C": 0, "X": 5, "Y": 0, "Z": 7}',
            "1 A 0 B 0 C 5 X 0 Y 7 Z",
        ],
        [
            "Part A: 1, B: 0, C: 0, X: 5, Y: 0, Z: 7",
            "0 A 1, B 0, C 0, X 5, Y 0, Z 7",
            "A: 1, B: 0, C: 0, X: 5, Y: 0",
            "A: 1, B: 0, C: 0, X: 7, Y: 0, Z: 5",
            "A: 1, B: 0, C: 0, X: 5, Y: 0, Z: 7, W: 0",
            "A: 1, B: 0, C: 0, X: 5, Y: 0, Z: -7",
            "not A: 1, B: 0, C: 0, X: 5, Y: 0, Z: 7",
        ],
    ),
    Case(
        "string_synthesis",
        "1 0 5 0 0 0 0 0 0",
        [
            "1 [A] 0 [B] 5 [C] 0 {A} 0 {B} 0 {C} 0 (A) 0 (B) 0 (C)",
            "[A]: 1, [B]: 0, [C]: 5, {A}: 0, {B}: 0, {C}: 0, (A): 0, (B): 0, (C): 0",
        ],
        ["1 [A] 0 [B] 5 [C]", "1 [A] 0 [B] 5 [A] 0 {A} 0 {B} 0 {C} 0 (A) 0 (B) 0 (C)"],
    ),
    Case(
        "spell_backward",
        "nus",
        ["sun -> nus", "Nus", "sun \\rightarrow nus", "n-u-s", "N, U, S", "n u s"],
        ["nus -> sun", "son -> nus", "sun -> sun", "not sun -> nus", "sun -> nus -> sun", "n-us", "n-u s", "s-u-n"],
        {"word": "sun"},
    ),
    Case("circuit_logic", "1", ["Final output: 1", "The output is 1"], ["A = 1", "OUT != 1", "A = OUT = 1"]),
    Case("kakurasu", "0 1\n1 0", ["01\n10", "[[0, 1], [1, 0]]"], ["-0 1\n1 0", "0 1\n1 -0"]),
    Case(
        "jugs",
        '["fill A", "pour A->B"]',
        [
            '["fill A", "pour A -> B"]',
            '["fill A", "pour A\u2192B"]',
            "['fill A', 'pour A \u2192 B']",
            '[["fill", "A"], ["pour", "A->B"]]',
            '[["fill A"], ["pour A->B"]]',
            "fill A\npour A->B",
        ],
        ['["fill A", "pour B->A"]', '["fill A", "pour A<-B"]', '["fill A", "pour A->B->A"]', "fill A", "fill A\nor B"],
    ),
    Case(
        "futoshiki",
        "1 < 2\n\u2228\n2   1",
        ["1<2\nv\n2 1", "1 2\n2 1", '[["1", "<", "2"], ["v", "", ""], ["2", "", "1"]]', "1&<&2\\\\v&&\\\\2&&1"],
        ["1v2\n2 1", "1 > 2\n2 1", "1 < 2\n\u2227\n2 1", "1 < 2\n2 1\n\u2228"],
    ),
    Case("rearc", "5", ["[[5]]", "\\begin{bmatrix} 5 \\end{bmatrix}"], ["55", "[[5, 5]]", "-[[5]]"]),
    Case(
        "pool_matrix", "1.5 2.0", ["1.50 2", "[1.5, 2.00]"], ["1.51 2", "1.504 2"], metadata={"solution": [[1.5, 2.0]]}
    ),
    Case("codeio", "17", ["```json\n17\n```", "`17`", "**17**"], ['"17"', "[17]", '{"answer": 17}']),
    Case("codeio", '{"a": true}', ["{'a': True}", '{"a":true}'], ['{"a": 1}', '[{"a": true}]']),
    Case("group_anagrams", '[["a"]]', ["[['a']]", '[[ "a" ]]'], ["a", '[["b"]]']),
    Case(
        "knight_swap",
        '["w,A1,B3"]',
        ['["w, A1, B3"]', "['w,A1,B3']", '[["w", "A1", "B3"]]', 'Yes, ["w,A1,B3"]', "w,A1,B3"],
        ['["w,A1"]', '["w A1 B3"]', '["B,A1,B3"]', 'No, ["w,A1,B3"]', "Yes"],
    ),
    Case("jugs", '["fill A"]', ["['fill A']", "fill A"], ['["fill A", 1]', "not fill A"]),
    Case("countdown", "(3-1)*4", ["(3 - 1) \u00d7 4", "[3 - 1] * 4", "(3-1) x 4"], ["max(3, 1)", "3 or 4"]),
    Case(
        "simple_integration",
        "x**2+C",
        ["x**2+C", "X^2 + C", "Answer: $x^2 + C$"],
        ["never + C", "x*X + C", "x^2 + C\nx^3 + C"],
        metadata={"variable": "x"},
    ),
    Case(
        "intermediate_integration", "sin(x)**2", ["sin**2(x)", "sin**2(X)"], ["sin(x**2)"], metadata={"variable": "x"}
    ),
    Case(
        "propositional_logic",
        "\u00acP",
        ["\\neg P", "$\\lnot P$"],
        ["P or Q", "Z"],
        metadata={"variables": ["P"]},
    ),
    Case(
        "cryptarithm",
        "A=1,B=2",
        [
            "A = 1, B = 2",
            "A: 1\nB: 2",
            '{"A": 1, "B": 2}',
            "A=1 B=2",
            "A=1 and B=2",
        ],
        ["A=1", "A=1,A=1,B=2", "A=12", ",A=1,B=2", "A=1 or B=2"],
    ),
    Case(
        "knights_knaves",
        "Ann is an angel, and Bob is a devil.",
        [
            "Ann: angel, Bob: devil",
            "Ann = an angel\nBob = a devil",
            '{"Ann": "angel", "Bob": "devil"}',
            "Bob is the devil; Ann is the angel",
            "Ann (angel), Bob (devil)",
            "Ann is an angel. Bob is a devil.",
        ],
        [
            "Ann is an angel",
            "Ann is an angel, Bob is an angel",
            "Ann is not an angel, Bob is a devil",
            "Ann is an angel, Ann is a devil, Bob is a devil",
        ],
        metadata=ROLES,
    ),
    Case(
        "ab",
        "#A B#",
        ["#A, B#", '["#A", "B#"]', "`#A` `B#`", "\\#A\\ B\\#", "#AB#"],
        ["#A", "#A or B#", ", #A B#", "A B", "#AB", "#AB#A"],
    ),
    Case(
        "shortest_path",
        "up left",
        ["Up, Left", "up -> left", "['up', 'left']", "up\nleft"],
        ["up", "up or left", "not up left"],
    ),
    Case("shortest_path", "infeasible", ["Infeasible."], ["not infeasible"]),
    Case("quantum_lock", "A \u2192 B", ["A -> B", "AB", "a, then b", '["A", "B"]'], ["A", "A not B", "xA xB"]),
    Case("rubiks_cube", "R' U", ["R\u2019, U", '["R\'", "U"]'], ["R' or U", "moves R' U"]),
    Case("rush_hour", "A+1 B-2", ["AA+1, BB-2"], ["A+1 B-2 more", "Z A+1 B-2"]),
    Case("sokoban", "UDL", ["U D L", "U, D, L", "udl"], ["not UDL", "UDLx", "up"]),
    Case(
        "tower_of_hanoi",
        "Move disk 1 from Peg 2 to Peg 3\nMove disk 2 from Peg 2 to Peg 1",
        [
            "move disk 1 from peg 2 to peg 3\nMove disk 2 from Peg 2 to Peg 1.",
            "Move disk 1 from Peg 2 to Peg 3,\nMove disk 2 from Peg 2 to Peg 1",
            "Move disk1 from Peg2 to Peg3\nMove disk2 from Peg2 to Peg1",
        ],
        ["Move disk 1 from Peg 2 to Peg 3", "Move disk 1\nMove disk 2"],
    ),
    Case(
        "word_ladder",
        "COLD,CORD",
        ["cold, cord", "COLD \u2192 CORD", '["COLD", "CORD"]'],
        ["COLD CORD", "COLD or CORD"],
    ),
    Case("word_sorting", "a, B", ["a,B", "a\nB", "a and B"], ["a, b", "a B"]),
    Case("word_sequence_reversal", "To, to", ["to, To", "['To', 'to']"], ["To", "To to"]),
]


def notations(case: Case, said: str) -> list[str | None]:
    """Return the notations of all values that an answer has, with and without its formatting."""
    entry = pickle.dumps({"question": "", "answer": case.right, "metadata": case.metadata})
    dataset: Any = None
    scorer = Scorer(find_task(case.task).answer, dataset, entry, strict=True, with_tags=False, accepts_forms=True)
    return [reading.notation for reading in scorer.candidates(said)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.task} {case.right[:8]!r}")
def test_each_answer_type_accepts_other_notations_of_the_right_answer(case: Case) -> None:
    assert [said for said in (case.right, *case.same) if case.right not in notations(case, said)] == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.task} {case.right[:8]!r}")
def test_no_answer_type_reads_a_wrong_answer_as_right(case: Case) -> None:
    assert [said for said in case.other if case.right in notations(case, said)] == []
