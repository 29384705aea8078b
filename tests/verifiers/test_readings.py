"""An answer becomes the expected answer in other notations of the same content, and in no other case."""

from __future__ import annotations

from time import process_time
from typing import Any

import pytest

from reasoning_env.verifiers.readings import expected_forms, readings

LEGS = "How many legs do 3 cows and 2 hens have in total?"


def entry(answer: str | None, question: str = LEGS) -> dict[str, Any]:
    return {"question": question, "answer": answer, "metadata": {}}


def is_read(said: str, task: str, right: str, question: str = LEGS) -> bool:
    """Tell whether an answer has the right answer among its readings."""
    return right in readings(said, task, entry(right, question))


# ---- numbers


@pytest.mark.parametrize(
    "said",
    [
        *(
            "16",
            "16.0",
            "+16",
            "+ 16",
            "016",
            "x = 16",
            "16 legs",
            "16 Leg",
            "1.6e1",
            "16.",
            "(16)",
            "*16*",
            '"16"',
        ),
        *(
            "= 16",
            "1.6 \\times 10^{1}",
            "1.6 \u00d7 10\u00b9",
            "0.16*10**2",
            "16 \\text{ legs}",
            "total = 16",
        ),
    ],
)
def test_same_number(said: str) -> None:
    assert is_read(said, "leg_counting", "16")


@pytest.mark.parametrize(
    "said",
    [
        *(
            "17",
            "-16",
            "- 16",
            "160",
            "1,6",
            "16 or 17",
            "16 not legs",
            "16 wheels",
            "16 17",
            "16 + 0",
            "0x10",
            "1_6",
        ),
        *(
            "\u0661\u0666",
            "16!",
            "1600%",
            "16\nlegs",
            "Legs = 16",
            "16%",
            ">16",
            "\u2260 16",
            "not 16",
            "32/2",
            "16/1",
            "16^1",
            "4^2",
            "16 \u00b1 1",
            "16, 17",
        ),
        *(
            "16 and 16",
            "0,016",
            "1.6 \\times 10",
            "1.6 x 101",
            "16\u00b0",
            "16?",
            "~16",
            "-(16)",
            "16 legs or 17",
            "16_7",
        ),
        *("12 + 4 = 16", "3 = 16", "3 cows = 16", "[16, 16]", "[[16]]", "16; 16", "$16 $17", "x = 15 = 16", "16 = x"),
    ],
)
def test_other_number(said: str) -> None:
    assert not is_read(said, "leg_counting", "16")


@pytest.mark.parametrize(("said", "right"), [("- 5", "-5"), ("\u22125", "-5"), ("\u2212 5.0", "-5")])
def test_sign(said: str, right: str) -> None:
    assert is_read(said, "chain_sum", right)


@pytest.mark.parametrize(
    ("said", "same"),
    [
        ("1,234,567", True),
        ("1{,}234{,}567", True),
        ("1\\,234\\,567", True),
        ("1\u202f234\u202f567", True),
        ("1,2345,67", False),
        ("1,234567", False),
        ("1234,567", False),
        ("1,234{,}567", False),
    ],
)
def test_thousands(said: str, same: bool) -> None:
    assert is_read(said, "lcm", "1234567") == same


@pytest.mark.parametrize(("said", "same"), [("40%", True), ("40 %", True), ("40\\%", True), ("4%", False)])
def test_percent_asked_for(said: str, same: bool) -> None:
    assert is_read(said, "gsm_symbolic", "40", "What percentage of the puppies have spots?") == same


def test_percent_of_probability() -> None:
    assert is_read("21.875%", "coin_flip", "0.21875")
    assert "31.7e-2" in readings("31.7\\%", "coin_flip", entry("0.317382812"))


@pytest.mark.parametrize(
    ("said", "same"),
    [
        ("859 + 467 = 1326", True),
        ("$859 + 467 = 1326$", True),
        ("467 = 1326", False),
        ("59 + 467 = 1326", False),
        ("859 + 46 = 1326", False),
        ("859 + 467 = 1325 = 1326", False),
        ("859 + 467 != 1326", False),
    ],
)
def test_question_restated(said: str, same: bool) -> None:
    assert is_read(said, "chain_sum", "1326", "State the final answer to: 859 + 467 =") == same


def test_question_on_a_line_of_its_own() -> None:
    assert is_read("6.6+9.1 = 15.7", "decimal_arithmetic", "15.7", "Only reply with the final value.\n6.6+9.1 = ?")


@pytest.mark.parametrize(
    ("said", "same"),
    [
        ("GCD = 4", True),
        ("GCD: 4", True),
        ("gcd(156, 824) = 4", True),
        ("$\\gcd(156, 824) = 4$", True),
        ("\\text{GCD} = 4", True),
        ("LCM = 4", False),
        ("gcd(156, 82) = 4", False),
        ("GCD = 5, GCD = 4", False),
        ("GCD != 4", False),
    ],
)
def test_name_of_the_question(said: str, same: bool) -> None:
    assert is_read(said, "gcd", "4", "Find the Greatest Common Divisor (GCD) of these numbers: 156, 824.") == same


HOURS = "Jane reads a page every 10 minutes. How many hours will she need for 60 pages?"


@pytest.mark.parametrize(
    ("said", "same"), [("10 hours", True), ("10 minutes", False), ("10 pages", False), ("$10", False), ("10", True)]
)
def test_unit_is_the_one_asked_for(said: str, same: bool) -> None:
    assert is_read(said, "gsm_symbolic", "10", HOURS) == same


def test_currency() -> None:
    assert is_read("$10", "gsm_symbolic", "10", "How much, in dollars, does she pay?")


@pytest.mark.parametrize(("said", "same"), [("0o532_7", False), ("532_7", True), ("0x532_7", False)])
def test_prefix_of_another_base(said: str, same: bool) -> None:
    question = "Your task is to convert a number from base-10 to base-7"
    assert is_read(said, "base_conversion", "532", question) == same


@pytest.mark.parametrize(
    ("said", "same"), [("c: 8", True), ("d: 8", False), ("c: 8, c: 9", False), ("c: not 8", False)]
)
def test_variable_with_colon(said: str, same: bool) -> None:
    assert is_read(said, "simple_equations", "8", "Solve for c: 5*c = 40") == same


@pytest.mark.parametrize(
    ("said", "same"),
    [
        ("6/8 = 3/4", True),
        ("\\frac{6}{8} = \\frac{3}{4}", True),
        ("12/16 = 3/4", False),
        ("6/8 = 3/5", False),
        ("6/8 = 3/4 = 1/2", False),
    ],
)
def test_reduced_fraction(said: str, same: bool) -> None:
    assert is_read(said, "fraction_simplification", "3/4", "Simplify the fraction 6/8 to its lowest terms.") == same


@pytest.mark.parametrize(
    ("said", "same"),
    [
        ("1/32 = 0.03125", True),
        ("1/32 \u2248 0.03125", True),
        ("$\\frac{1}{32} \\approx 0.03125$", True),
        ("\u2248 0.03125", True),
        ("P \u2248 0.03125", True),
        ("1/31 = 0.03125", False),
        ("1/32 = 0.5", False),
        ("0.5 = 1/32", False),
    ],
)
def test_sides_of_an_equation(said: str, same: bool) -> None:
    assert is_read(said, "coin_flip", "0.03125") == same


@pytest.mark.parametrize(
    ("said", "same"),
    [("\u2220ABC = 40.5\u00b0", True), ("$\\angle ABC = 40.5^\\circ$", True), ("\u2220ACB = 40.5\u00b0", False)],
)
def test_name_of_an_angle(said: str, same: bool) -> None:
    assert (
        is_read(said, "advanced_geometry", "40.5\u00b0", "In triangle ACB, find the measure (in degrees) of angle ABC.")
        == same
    )


def test_sign_of_rounding_elsewhere() -> None:
    assert not is_read("\u2248 31", "lcm", "31")


@pytest.mark.parametrize(
    ("task", "right", "said"),
    [
        ("advanced_geometry", "1.204", "r \u2248 1.204"),
        ("advanced_geometry", "(10.0, -2.0)", "x = 10.0, y = -2.0"),
        ("caesar_cipher", "SEE THE MAP", "see the map"),
        ("codeio", '"a b"', "'a b'"),
        ("codeio", "false", "False"),
        ("complex_arithmetic", "-1068 - 1273i", "-1,068 - 1,273i"),
        ("countdown", "11 * 4 * (1 + 8)", "11 x 4 x (1 + 8)"),
        ("cryptarithm", "A=1,B=2,C=3", "A=1, B=2 and C=3"),
        ("knights_knaves", "Ann is a fool, Bob is a sage", "Ann - fool\nBob - the sage"),
        ("ab", "#A B#", "Final state: #A B#"),
        ("complex_arithmetic", "+4.0-7.0i", "-7.0i + 4.0"),
        ("cryptarithm", "A=1,B=2", "| Letter | Digit |\n|---|---|\n| A | 1 |\n| B | 2 |"),
        (
            "knights_knaves",
            "Ann is a fool, Bob is a sage",
            "| Name | Role |\n|:--|:--|\n| Ann | fool |\n| Bob | sage |",
        ),
        ("knights_knaves", "Ann is a fool, and Bob is a sage", "Ann is the fool, and Bob is the sage"),
        ("list_functions", "[5]", "5"),
        ("word_sorting", "a, b, c", "a, b, and c"),
        ("word_sorting", "a, b", "a and b"),
    ],
)
def test_forms_of_kinds(task: str, right: str, said: str) -> None:
    assert is_read(said, task, right)


@pytest.mark.parametrize(
    ("said", "same"),
    [
        *(
            ("3 / 4", True),
            ("\\frac{3}{4}", True),
            ("\\dfrac{ 3 }{ 4 }", True),
            ("3\u20444", True),
            ("3 \u00f7 4", True),
        ),
        *(
            ("$\\boxed{$\\frac{3}{4}$}$", True),
            ("6/8", False),
            ("0.75", False),
            ("3/4/1", False),
            ("3/4 or 1/4", False),
        ),
        *(("4/3", False), ("1 - 3/4", False), ("-3/4", False), ("\\frac{3}{4} \\frac{1}{2}", False)),
    ],
)
def test_fraction(said: str, same: bool) -> None:
    assert is_read(said, "dice", "3/4") == same


def test_fraction_with_separators() -> None:
    assert is_read("1,951/4,320", "dice", "1951/4320")
    assert not is_read("19,51/4,320", "dice", "1951/4320")


def test_fraction_of_decimal() -> None:
    assert is_read("\\frac{7}{32}", "coin_flip", "0.21875")
    assert not is_read("\\frac{14}{64}", "coin_flip", "0.21875")
    assert "7/33" in readings("\\frac{7}{33}", "coin_flip", entry("0.21875"))


BASE_7 = "Now, convert the base-6 number 2541 to base-7"


@pytest.mark.parametrize(
    ("said", "same"),
    [
        *(("651_7", True), ("651_{7}", True), ("(651)_7", True), ("651\u2087", True), ("\\text{651}_{7}", True)),
        *(("651 (base 7)", True), ("651 in base 7", True), ("651_6", False), ("651\u2086", False), ("0x651", False)),
        *(("651_", False), ("651 7", False), ("6517", False), ("651 base 8", False), ("651_7 or 650_7", False)),
    ],
)
def test_base(said: str, same: bool) -> None:
    assert is_read(said, "base_conversion", "651", BASE_7) == same


def test_prefix_of_base() -> None:
    assert is_read("0x3a0", "base_conversion", "3a0", "Now, convert the base-6 number 25 to hexadecimal")
    assert is_read("0xbb9b1_{16}", "bitwise_arithmetic", "0xbb9b1")


@pytest.mark.parametrize(
    "said", ["16.91", "16.91 degrees", "16.91^\\circ", "$16.91^{\\circ}$", "(16.91\u00b0)", "16.910\u00b0"]
)
def test_degrees(said: str) -> None:
    assert is_read(said, "advanced_geometry", "16.91\u00b0", "find the measure (in degrees) of angle ABC")


@pytest.mark.parametrize(
    ("said", "same"),
    [
        *(("(-4.1,2)", True), ("\\left(-4.1, 2\\right)", True), ("-4.1, 2", True), ("H = (-4.1, 2)", True)),
        *(("H(-4.1, 2)", True), ("[-4.1, 2]", True), ("(-4.1, 2), 1", False), ("(2, -4.1)", False)),
    ],
)
def test_point(said: str, same: bool) -> None:
    assert is_read(said, "advanced_geometry", "(-4.1, 2)") == same


def test_plus_minus() -> None:
    assert "1.0 -2.0i" in readings("1.0 + -2.0i", "complex_arithmetic", entry("1.0 - 2.0i"))


@pytest.mark.parametrize("said", ["-5.0 + 20.0*i", "z = -5.0 + 20.0 \\cdot i", "$-5.0 + 20.0i$"])
def test_complex(said: str) -> None:
    assert "-5.0 + 20.0i" in (
        reading.replace("0 i", "0i") for reading in readings(said, "complex_arithmetic", entry("-5.0 + 20.0i"))
    )


@pytest.mark.parametrize(
    ("said", "same"),
    [
        *(("x = -0.04, x = 0.0", True), ("x = -0.04 or x = 0.0", True), ("x_1 = -0.04, x_2 = 0.0", True)),
        *(("[-0.04, 0.0]", True), ("\\{-0.04, 0.0\\}", True), ("-0.04\n0.0", True), ('"-0.04, 0.0"', True)),
        *(
            ("-0.04; 0.0", True),
            ('["-0.04", "0.0"]', True),
            ("x = -0.04, 0.0", True),
            ("x \\in \\{-0.04, 0.0\\}", True),
            ("- 0.04, 0.0", True),
            ("x = - 0.04 or x = 0.0", True),
            ("-0.04, 0.0, none", False),
            ("-0.04, or 0.0", True),
            ("-0.04,\n0.0,", True),
            ("-0.04, 0.0 or", False),
            ("or -0.04, 0.0", False),
            ("-0.04 or or 0.0", False),
            ("-0.04,, 0.0", False),
        ),
        *(("-0.04, not 0.0", False), ("-0.04 0.0", False), ("-0.04, 0.1", False), ("-0.04, 0.0 and 1", False)),
    ],
)
def test_solutions(said: str, same: bool) -> None:
    assert is_read(said, "polynomial_equations", "-0.04, 0.0") == same


# ---- options and texts


@pytest.mark.parametrize(
    "said", ["'TRUE'", "true", "**True**", "\\boxed{\\textbf{True}}", "- True", "\u201cTrue\u201d."]
)
def test_option(said: str) -> None:
    assert is_read(said, "ransom_note", "True")


@pytest.mark.parametrize(
    "said", ["not true", "True or False", "True?", "un-True", "True, False", '"True" or "False"', "T"]
)
def test_other_option(said: str) -> None:
    assert not is_read(said, "ransom_note", "True")


def test_word_that_is_no_option() -> None:
    assert not is_read("HELLO", "bf", "hello")
    assert not is_read("HELLO", "emoji_mystery", "hello")


def test_exact_output() -> None:
    assert not is_read("042", "bf", "42")
    assert is_read('"042"', "bf", "042")


def test_quotation_that_is_right_as_written() -> None:
    right = '"It is late," he said.'
    assert is_read(right, "emoji_mystery", right)
    assert is_read("\u201cIt\u2019s late.\u201d", "emoji_mystery", "It\u2019s late.")


# ---- lists


@pytest.mark.parametrize(
    ("said", "same"),
    [
        ("[1,'2', 3.50]", True),
        ("[\n  1,\n  2,\n  3.5\n]", True),
        ("(1, 2, 3.5)", True),
        ("x = [1, 2, 3.5]", True),
        ("np.array([1, 2, 3.5])", True),
        ("\\left[1, 2, 3.5\\right]", True),
        ("[1,\\ 2,\\ 3.5]", True),
        ("1, 2, 3.5", True),
        ("[1, 2]", False),
        ("[2, 1, 3.5]", False),
        ("[[1, 2, 3.5]]", False),
        ("[1, 2, x]", False),
        ("[1, 2, 3.5", False),
        ("[NaN, 2, 3.5]", False),
        ("[1, 2, 1e400]", False),
        ("[True, 2, 3.5]", False),
        ("[1 2 3.5]", True),
        ("1\n2\n3.5", True),
        ("[1 2, 3.5]", False),
        ("[1 2 35]", False),
        ("1 2 -3.5", False),
        ("[1, 2, 3.5] [1]", False),
        ("not [1, 2, 3.5]", False),
        ("1", False),
    ],
)
def test_list(said: str, same: bool) -> None:
    assert is_read(said, "number_filtering", "['1', '2', '3.5']") == same


@pytest.mark.parametrize(
    ("said", "reading"),
    [
        ("['fill A', 'pour A->B']", '["fill A", "pour A->B"]'),
        ("```python\n{0: 1, 1: 2}\n```", '{"0": 1, "1": 2}'),
        ("{'a': None, 'b': True}", '{"a": null, "b": true}'),
    ],
)
def test_python_notation(said: str, reading: str) -> None:
    assert reading in readings(said, "jugs", entry(None))


def test_quoted_number_in_object() -> None:
    """In JSON a number in quotes is another value."""
    assert '{"s": 5}' not in readings("{'s': '5'}", "codeio", entry('{"s": 5}'))


# ---- sequences


@pytest.mark.parametrize(
    "said",
    [
        *("b,a", "b , a", "b,\na", '["b", "a"]', "['b', 'a']", "[b, a]", "(b, a)", "b; a", "b\na", "b, a,", "'b', 'a'"),
        *(
            '"b", "a"',
            "`b`, `a`",
            "**b**, **a**",
            "- b\n- a",
            "1. b\n2. a",
            "\u201cb\u201d, \u201ca\u201d",
            "b \u2192 a",
        ),
        "\\boxed{\\text{b},\\ \\text{a}}",
    ],
)
def test_words(said: str) -> None:
    assert is_read(said, "word_sequence_reversal", "b, a")


@pytest.mark.parametrize("said", ["a, b", "b, a, c", "b, not a", "b a", "ba", "b,, a", "b, a or a, b", "- a\n- b"])
def test_other_words(said: str) -> None:
    assert not is_read(said, "word_sequence_reversal", "b, a")


@pytest.mark.parametrize(
    ("task", "right", "said"),
    [
        ("word_ladder", "COLD,CORD", "COLD -> CORD"),
        ("shortest_path", "down left", "down, left"),
        ("shortest_path", "down left", '["down", "left"]'),
        ("shortest_path", "down left", "Down \\rightarrow Left"),
        ("shortest_path", "infeasible", "Infeasible"),
        ("ab", "#A B#", "`#A` `B#`"),
        ("ab", "#A B#", "#A, B#"),
        ("ab", "#A B#", "\\boxed{\\#A\\ B\\#}"),
        ("ab", "#A B#", "['#A', 'B#']"),
        ("path_star", "12 3 45", "12 \\to 3 \\to 45"),
        ("path_star", "12 3 45", "\\boxed{12\\ 3\\ 45}"),
        ("quantum_lock", "C \u2192 A", "\\text{C} \\rightarrow \\text{A}"),
        ("rubiks_cube", "R' U D'", "R\u2019, U, D\u2032"),
        ("rubiks_cube", "R' U D'", "$R^\\prime\\ U\\ D^{\\prime}$"),
        ("rush_hour", "F+1 K-12", "['F+1', 'K-12']"),
        ("tower_of_hanoi", "Move disk 1\nMove disk 2", "1. Move disk 1\n2. Move disk 2"),
        ("tower_of_hanoi", "Move disk 1\nMove disk 2", '["Move disk 1", "Move disk 2"]'),
        ("cryptarithm", "A=1,B=2", "A: 1, B: 2"),
        ("cryptarithm", "A=1,B=2", "{'A': 1, 'B': 2}"),
        ("cryptarithm", "A=1,B=2", "- **A** = 1\n- **B** = 2"),
    ],
)
def test_sequence(task: str, right: str, said: str) -> None:
    assert is_read(said, task, right)


@pytest.mark.parametrize(
    ("task", "right", "said"),
    [
        ("shortest_path", "down left", "not down left"),
        ("shortest_path", "down left", "down, left or down, down"),
        ("path_star", "12 3 45", "12 345"),
        ("path_star", "12 3 45", "12 3 45 6"),
        ("cryptarithm", "A=1,B=2", "A: 1, B: 2 or 3"),
        ("cryptarithm", "A=1,B=2", "A: 1, B: 2, A: 2"),
        ("cryptarithm", "A=1,B=2", "A'=1,B=2"),
        ("polynomial_equations", "1.5, 2.5", "1.5, 2.5'"),
        ("cryptarithm", "A=1,B=2", "A=1,B=2'"),
        ("cryptarithm", "A=1,B=2", "| Letter | Digit |\n|---|---|\n| A | 1 |\n| B | 2 or 3 |"),
        ("cryptarithm", "A=1,B=2", "| A | 1 |\n| B | 2 |\n| A | 3 |"),
        ("cryptarithm", "A=1,B=2", "| A | 2 |\n|---|---|\n| A | 1 |\n| B | 2 |"),
        (
            "knights_knaves",
            "Ann is a fool, Bob is a sage",
            "| Name | Is not |\n|---|---|\n| Ann | fool |\n| Bob | sage |",
        ),
        ("polynomial_equations", "1.5, 2.5", "x \u2208 [1.5, 2.5]"),
        ("polynomial_equations", "1.5, 2.5", "x = 1.5, y = 2.5"),
        ("coin_flip", "0.25", "not \u2248 0.25"),
        ("coin_flip", "0.25", "False \u2248 0.25"),
        ("word_sorting", "a, b", "a, and, b"),
        ("word_sorting", "a, and, b", "a, b"),
        ("word_sorting", "a, b", "a, and b or c"),
        ("ab", "#A B#", "#A B# or B#"),
    ],
)
def test_other_sequence(task: str, right: str, said: str) -> None:
    assert not is_read(said, task, right)


@pytest.mark.parametrize(
    "said",
    [
        "Ann is an angel; Bob is a devil",
        "Ann is an angel\nBob is a devil",
        "- **Ann** is an angel\n- **Bob** is a devil",
    ],
)
def test_claims(said: str) -> None:
    assert "Ann is an angel, Bob is a devil" in readings(said, "knights_knaves", entry(None))


@pytest.mark.parametrize(
    "said",
    [
        "Ann: angel, Bob: devil",
        "Ann = an angel\nBob = a devil",
        '{"Ann": "angel", "Bob": "devil"}',
        "Ann: angel and Bob: devil.",
    ],
)
def test_names_with_roles(said: str) -> None:
    assert "Ann is a angel, Bob is a devil" in readings(said, "knights_knaves", entry(None))


@pytest.mark.parametrize("said", ["[[5]]", "\\begin{bmatrix} 5 \\end{bmatrix}", "np.array([[5]])"])
def test_matrix_of_one_cell(said: str) -> None:
    assert is_read(said, "pool_matrix", "5")
    assert not is_read(said, "gcd", "5")
    assert not is_read(f"-{said}", "pool_matrix", "5")


def test_duration() -> None:
    assert is_read("1 day, 04:05", "time_intervals", "1 days, 04:05")
    for said in ("3 Days 04:05", "3 days and 04:05", "**3 days, 04:05**"):
        assert is_read(said, "time_intervals", "3 days, 04:05")


# ---- boards


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


@pytest.mark.parametrize("said", ["1 is false", "1 false", "1 is true", "1 statement is false"])
def test_claim_about_number(said: str) -> None:
    assert not is_read(said, "self_reference", "1", "At least 1 statement is false. How many statements can be true?")


@pytest.mark.parametrize("said", ["1_234_567", "1_234_567.0"])
def test_blocks_of_three(said: str) -> None:
    assert is_read(said, "chain_sum", "1234567")


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


@pytest.mark.parametrize(
    ("task", "right", "said"),
    [
        ("gcd", "0", "-0"),
        ("decimal_arithmetic", "0.0", "-0.0"),
        ("list_functions", "[0, 1]", "[-0, 1]"),
        ("sudoku", "0 1\n1 0", "-0 1\n1 0"),
        ("polynomial_equations", "0.0, 1.5", "x = -0.0 or x = 1.5"),
    ],
)
def test_negative_nought(task: str, right: str, said: str) -> None:
    assert is_read(said.replace("-0", "0"), task, right)
    assert right not in readings(said, task, entry(right))


@pytest.mark.parametrize("said", ["- 0", "- 0.0", "$- 0$"])
def test_negative_nought_with_blank(said: str) -> None:
    assert "0" not in readings(said, "circuit_logic", entry("0"))


@pytest.mark.parametrize(
    "said", ["1 275", "1{,}275", "+1275", "1\u2009275", "1,275", "1'275", "1~275", "**1 275**", "Answer: 1 275"]
)
@pytest.mark.parametrize("task", ["chain_sum", "base_conversion"])
def test_groups_of_three(said: str, task: str) -> None:
    assert is_read(said, task, "1275", "Convert the base-3 number 10 to base-8")


@pytest.mark.parametrize("said", ["12 75", "127 5", "1 2 7 5", "1,275,", "1 275 1", "1 275,1"])
def test_other_groups(said: str) -> None:
    assert not is_read(said, "chain_sum", "1275")


@pytest.mark.parametrize(
    "said", ["\\frac34", "(3)/(4)", "\\cfrac{3}{4}", "\\frac 3 4", "Fraction(3, 4)", "$\\displaystyle \\frac{3}{4}$"]
)
def test_fractions(said: str) -> None:
    assert is_read(said, "dice", "3/4")


@pytest.mark.parametrize("said", ["{3/4", "(3)/4)", "3/4\\}", "$3/4", "Fraction(4, 3)", "Fraction(6, 8)", "3/4/1"])
def test_other_fractions(said: str) -> None:
    assert not is_read(said, "dice", "3/4")


@pytest.mark.parametrize(
    ("task", "right", "said"),
    [
        ("cryptarithm", "A=1,B=2", ",A=1,B=2"),
        ("ab", "#A B#", ", #A B#"),
        ("polynomial_equations", "1.0, 2.0", ";1.0, 2.0"),
        ("sudoku", "1 2\n3 4", "&1 2\n3 4"),
    ],
)
def test_separator_before_answer(task: str, right: str, said: str) -> None:
    assert not is_read(said, task, right)


@pytest.mark.parametrize("said", ["19 in binary", "19 more", "19 less", "19 or more", "19 again"])
def test_other_number_than_asked(said: str) -> None:
    assert not is_read(said, "count_bits", "19", "How many 1 bits are there in binary? More or less? Say again.")


def test_board_with_signs() -> None:
    assert "2 < 1\n\u2228\n1   2" in readings("2 1\n1 2", "futoshiki", entry("1 < 2\n\u2228\n2   1"))


def test_row_with_blanks_of_latex() -> None:
    assert is_read("\\boxed{1\\ 2\\ 3}", "spiral_matrix", "1 2 3")
    assert not is_read("\\boxed{1\\ 23}", "spiral_matrix", "1 2 3")


# ---- expressions


@pytest.mark.parametrize(
    ("said", "reading"),
    [
        ("3 \u00d7 [4 \u00f7 2]", "3 * (4 / 2)"),
        ("\\frac{8}{3 - 1} \\times 2", "((8)/(3 - 1)) * 2"),
        ("2\\cdot3", "2*3"),
        ("\\left(2 + 3\\right) \\times 4", "(2 + 3) * 4"),
    ],
)
def test_expression(said: str, reading: str) -> None:
    assert reading in readings(said, "countdown", entry(None))


@pytest.mark.parametrize(
    ("said", "same"),
    [
        *(("2*3*7", True), ("2 x 3 x 7", True), ("2 \\times 3 \\times 7", True), ("2\u00b73\u00b77", True)),
        *(
            ("42 = 2 \u00d7 3 \u00d7 7", True),
            ("$42 = 2 \\cdot 3 \\cdot 7$", True),
            ("43 = 2 \u00d7 3 \u00d7 7", False),
        ),
        *(("2**3", False), ("2 * 3 * 7 * 1", False), ("42 = 2 * 21 = 2 * 3 * 7", False)),
    ],
)
def test_factors(said: str, same: bool) -> None:
    assert is_read(said, "prime_factorization", "2 \u00d7 3 \u00d7 7") == same


# ---- cost


def test_deep_list() -> None:
    deep = "[" * 900 + "]" * 900
    assert [*expected_forms(deep, "list_functions", entry("[1]"))] == []


CASES = (
    *(("leg_counting", right) for right in ("16", "[1, 2]", "1 2\n3 4", "1/2", "(1, 2)")),
    *(("advanced_geometry", "16\N{DEGREE SIGN}"), ("base_conversion", "12"), ("complex_arithmetic", "1 + i")),
    *(("countdown", "1 + 2"), ("cryptarithm", "A=1"), ("jugs", None), ("knights_knaves", "Ann is an angel")),
    *(("polynomial_equations", "1.0"), ("prime_factorization", "2"), ("shortest_path", "up"), ("word_sorting", "a, b")),
    *(("time_intervals", "3 days"), ("tower_of_hanoi", "Move disk 1")),
)
MOST_S = 1.0
"""Processor time for a text of 10,000 characters: linear work takes 0.02 s, quadratic work seconds."""
PIECES = (
    *(
        "1",
        "1 ",
        "[",
        "[[1],",
        "1,",
        "a = ",
        "\\frac{1}",
        "{",
        "1\n",
        "'",
        "\\\\",
        "| ",
        " ",
        "\n",
        "a,",
        ";",
        "1*",
        "=1",
    ),
    *("\\ ", "A: 1,", "x = 1 or ", "-", "->", "1,111", "1/", "days ", ". ", "\\begin{array}{", "*"),
)


@pytest.mark.parametrize("piece", PIECES)
def test_linear_time(piece: str) -> None:
    long = piece * (10_000 // len(piece))
    for said in (long, f"[{long}]"):
        for task, right in CASES:
            begun = process_time()
            for _ in readings(said, task, entry(right)):
                pass
            assert process_time() - begun < MOST_S, task
