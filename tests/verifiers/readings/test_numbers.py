"""Numbers, durations and their units become the expected answer in other notations of the same value."""

from __future__ import annotations

import pytest

from reasoning_env.verifiers.readings import readings

from .entries import entry, is_read


@pytest.mark.parametrize(
    "said",
    [
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
        "= 16",
        "1.6 \\times 10^{1}",
        "1.6 \u00d7 10\u00b9",
        "0.16*10**2",
        "16 \\text{ legs}",
        "total = 16",
    ],
)
def test_same_number(said: str) -> None:
    assert is_read(said, "leg_counting", "16")


@pytest.mark.parametrize(
    "said",
    [
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
        "12 + 4 = 16",
        "3 = 16",
        "3 cows = 16",
        "[16, 16]",
        "[[16]]",
        "16; 16",
        "$16 $17",
        "x = 15 = 16",
        "16 = x",
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


SHARES = "Maria bought shares for $20 each. What is the final value of all Maria's shares?"
ANGLE = "In a convex polygon with 4 sides three angles measure 90 degrees. What is the measure of the remaining angle?"


@pytest.mark.parametrize(
    ("said", "question", "same"),
    [
        ("$434", SHARES, True),
        ("434 dollars", SHARES, True),
        ("434 shares", SHARES, False),
        ("\u20ac434", SHARES, False),
        ("434 degrees", ANGLE, True),
        ("434 sides", ANGLE, False),
        ("434 polygon", ANGLE, False),
        ("$434", ANGLE, False),
        ("434 weekends", "Count the weekdays (excluding weekends) from Monday to Friday.", False),
    ],
)
def test_unit_without_how_many(said: str, question: str, same: bool) -> None:
    assert is_read(said, "gsm_symbolic", "434", question) == same


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
        ("h = 50", True),
        ("$h = 50$", True),
        ("x = 50", True),
        ("q = 50", False),
        ("**q = 50**", False),
        ("f(h) = 50", False),
        ("h_2 = 50", False),
    ],
)
def test_variable_that_is_asked_for(said: str, same: bool) -> None:
    assert is_read(said, "simple_equations", "50", "Determine the value of h that satisfies: 3*h + 5 = 155") == same


@pytest.mark.parametrize("said", ["46/512 = 23/256", "23/256", "Probability: 23/256", "23/256 = 0.08984375"])
def test_equal_fractions(said: str) -> None:
    assert is_read(said, "coin_flip", "0.08984375")


@pytest.mark.parametrize(
    ("said", "same"),
    [
        ("6/8 = 3/4", True),
        ("\\frac{6}{8} = \\frac{3}{4}", True),
        ("12/16 = 3/4", True),
        ("6/8 = 3/4 \u2248 0.75", True),
        ("3/4 \u2248 0.8", True),
        ("3/4 \u2248 0.9", False),
        ("3/5 \u2248 0.75", False),
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
    [
        ("\u2220ABC = 40.5\u00b0", True),
        ("$\\angle ABC = 40.5^\\circ$", True),
        ("\u2220B = 40.5\u00b0", True),
        ("Angle CBA \u2248 40.5\u00b0", True),
        ("40.5 deg", True),
        ("40.5\u00ba", True),
        ("\u2220ACB = 40.5\u00b0", False),
        ("\u2220A = 40.5\u00b0", False),
        ("\u2220B = 41.5\u00b0", False),
    ],
)
def test_name_of_an_angle(said: str, same: bool) -> None:
    assert (
        is_read(said, "advanced_geometry", "40.5\u00b0", "In triangle ACB, find the measure (in degrees) of angle ABC.")
        == same
    )


def test_sign_of_rounding_elsewhere() -> None:
    assert not is_read("\u2248 31", "lcm", "31")


@pytest.mark.parametrize(
    ("said", "same"),
    [
        ("3 / 4", True),
        ("\\frac{3}{4}", True),
        ("\\dfrac{ 3 }{ 4 }", True),
        ("3\u20444", True),
        ("3 \u00f7 4", True),
        ("$\\boxed{$\\frac{3}{4}$}$", True),
        ("6/8", False),
        ("0.75", False),
        ("3/4/1", False),
        ("3/4 or 1/4", False),
        ("4/3", False),
        ("1 - 3/4", False),
        ("-3/4", False),
        ("\\frac{3}{4} \\frac{1}{2}", False),
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
        ("651_7", True),
        ("651_{7}", True),
        ("(651)_7", True),
        ("651\u2087", True),
        ("\\text{651}_{7}", True),
        ("651 (base 7)", True),
        ("651 in base 7", True),
        ("651_6", False),
        ("651\u2086", False),
        ("0x651", False),
        ("651_", False),
        ("651 7", False),
        ("6517", False),
        ("651 base 8", False),
        ("651_7 or 650_7", False),
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
        ("(-4.1,2)", True),
        ("\\left(-4.1, 2\\right)", True),
        ("-4.1, 2", True),
        ("H = (-4.1, 2)", True),
        ("H(-4.1, 2)", True),
        ("[-4.1, 2]", True),
        ("(-4.1, 2), 1", False),
        ("(2, -4.1)", False),
    ],
)
def test_point(said: str, same: bool) -> None:
    assert is_read(said, "advanced_geometry", "(-4.1, 2)") == same


@pytest.mark.parametrize("said", ["[[5]]", "\\begin{bmatrix} 5 \\end{bmatrix}", "np.array([[5]])"])
def test_matrix_of_one_cell(said: str) -> None:
    assert is_read(said, "pool_matrix", "5")
    assert not is_read(said, "gcd", "5")
    assert not is_read(f"-{said}", "pool_matrix", "5")


def test_duration() -> None:
    assert is_read("1 day, 04:05", "time_intervals", "1 days, 04:05")
    for said in ("3 Days 04:05", "3 days and 04:05", "**3 days, 04:05**"):
        assert is_read(said, "time_intervals", "3 days, 04:05")


@pytest.mark.parametrize("said", ["1 is false", "1 false", "1 is true", "1 statement is false"])
def test_claim_about_number(said: str) -> None:
    assert not is_read(said, "self_reference", "1", "At least 1 statement is false. How many statements can be true?")


@pytest.mark.parametrize("said", ["1_234_567", "1_234_567.0"])
def test_blocks_of_three(said: str) -> None:
    assert is_read(said, "chain_sum", "1234567")


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


@pytest.mark.parametrize("said", ["19 in binary", "19 more", "19 less", "19 or more", "19 again"])
def test_other_number_than_asked(said: str) -> None:
    assert not is_read(said, "count_bits", "19", "How many 1 bits are there in binary? More or less? Say again.")
