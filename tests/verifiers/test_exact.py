"""Whether an answer is exactly right: rounded as the question asks, and with nothing beside it."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from time import process_time
from typing import Any

import pytest
import reasoning_gym

from reasoning_env.verifiers.exact import has_right_digits, is_exactly_right, is_rounded, says_otherwise
from reasoning_env.verifiers.scoring import verify

SEED = 70_000
ROOT = {"polynomial_expr": "2*x**2 - 4*x + 1", "real_solutions": [0.2929, 1.7071]}
THREE_EIGHTHS = {"rational": {"numerator": 3, "denominator": 8}}
TERMS = {"knight": "saint", "knave": "sinner"}
PEOPLE = {"knight_knave_terms": TERMS, "names": ["Ann", "Bo"]}
CANDIDATES = {
    "candidates": [721175278.3689999, 721175279.0],
    "solution": 721175278.3689999,
    "formatted_candidates": ["7.211752783689999e+08", "721,175,279.0"],
}
SHOWN_TWICE = {
    "candidates": [791044.978, 791044.979, 791044.979],
    "solution": 791044.979,
    "formatted_candidates": ["791044.978000", "791,044.979", "7.910449790000001e+05"],
}
SUMS = {"puzzle": [[0, 0, 5], [0, 0, 5], [4, 6, 10]], "candidate_numbers": [1, 2, 3, 4]}
ENTRIES: Mapping[str, Mapping[str, Any]] = {
    "an angle": {"answer": "12.995\u00b0", "metadata": {"task_type": "angle_measure", "angle_ABC_degrees": 12.9949}},
    "a point": {"answer": "(0.571, -2.000)", "metadata": {"task_type": "orthocenter", "ortho": ("4/7", "-2")}},
    "a radius": {
        "answer": "1.186",
        "metadata": {"task_type": "incircle_radius", "incircle_radius_approx": 1.186461853204762},
    },
    "a probability": {"answer": "0.375", "metadata": THREE_EIGHTHS},
    "a power": {"answer": "8.05544726166417e-06", "metadata": {}},
    "roots": {"answer": "0.2929, 1.7071", "metadata": ROOT},
    "a pool": {"answer": "0.3333 2.0\n4.5 1.0", "metadata": {"solution": [[1 / 3, 2.0], [4.5, 1.0]]}},
    "days": {"answer": "90 days", "metadata": {}},
    "a clock": {"answer": "03:30:57", "metadata": {}},
    "days and a clock": {"answer": "9 days, 22:56", "metadata": {}},
    "roles": {"answer": "Ann is a saint, and Bo is a sinner.", "metadata": PEOPLE},
    "buttons": {"answer": "A \u2192 B", "metadata": {}},
    "a candidate": {"answer": "721175278.3689999", "metadata": CANDIDATES},
    "a candidate shown twice": {"answer": "791044.979", "metadata": SHOWN_TWICE},
    "a complex number": {"answer": "4.0 - 7.0i", "metadata": {"result": (4, -7)}},
    "JSON": {"answer": '{"a": 0.1, "b": [1, true]}', "metadata": {}},
    "colours": {"answer": None, "metadata": {"puzzle": {"vertices": [0, 1]}}},
    "letters": {"answer": "A=1,B=2", "metadata": {}},
    "hanoi": {"answer": "Move disk 1 from Peg 1 to Peg 2", "metadata": {}},
    "a plan": {"answer": None, "metadata": {}},
    "marks": {"answer": "0 1\n1 0", "metadata": {}},
    "sums": {"answer": "1 4 5\n3 2 5\n4 6 10", "metadata": SUMS},
    "an integral": {"answer": "x**2 + C", "metadata": {"variable": "x"}},
    "one answer": {"question": "How many legs?", "answer": "31", "metadata": {}},
}
"""Parts of entries, by the kind of their answers."""
KINDS: Mapping[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "an angle": (
        "advanced_geometry",
        ("12.995\u00b0", "12.995", "12.99\u00b0", "12.9949", " 12.995 degrees "),
        ("13.00", "12.993\u00b0", "12.990\u00b0", "13", "nan", "about 13\u00b0", "12.995\u00b0 or 13\u00b0"),
    ),
    "a point": (
        "advanced_geometry",
        ("(0.571, -2.000)", "(0.571, -2)", "0.5714, -2.0"),
        ("(0.572, -2.000)", "(0.571, -2.000", "0.571, -2.000)", "(0.571, -2.000), 1.4", "(0.57, -2.0)", "(0.571)"),
    ),
    "a radius": ("advanced_geometry", ("1.186", "1.1865", "1.18646"), ("1.187", "1.19", "1.1862", "1.186 or 1.2")),
    "a probability": (
        "coin_flip",
        ("0.375", ".3750", "3/8", "6/16", "3.75e-1"),
        ("0.37", "0.374", "0.3751", "3/9", "0/0", "0.375 or 0.5", "37.5"),
    ),
    "a power": (
        "power_function",
        ("8.06e-06", "8.055e-6", "0.00000806"),
        ("8.05e-06", "8.1e-06", "8.064e-06", "-8.06e-06"),
    ),
    "roots": (
        "polynomial_equations",
        ("0.2929, 1.7071", "1.7071, 0.2929", "0.2928, 1.7071", "0.29289, 1.70711"),
        ("0.2930, 1.7071", "0.2929", "0.2929, 1.7071, 3", "0.2929, 1.7072", "0.29, 1.7071", "x, 0.2929, 1.7071"),
    ),
    "a pool": (
        "pool_matrix",
        ("0.33 2\n4.50 1.0", "0.3333 2.0\n4.5 1.0"),
        ("0.34 2\n4.5 1", "0.3 2\n4.5 1", "0.33 2 4.5 1", "0.33 2\n4.5 1\n0 0", "0.33 2.01\n4.5 1"),
    ),
    "days": ("time_intervals", ("90 days", "90", "90 days, 00:00"), ("90 days, 17:56:01", "91 days", "-90 days")),
    "a clock": ("time_intervals", ("03:30:57", "3:30:57", "03:30:57.000"), ("03:30:58", "03:30", "03:30:57 or so")),
    "days and a clock": ("time_intervals", ("9 days, 22:56", "9 Days, 22:56:00"), ("9 days, 22:57", "9 days")),
    "roles": (
        "knights_knaves",
        ("Ann is a saint, and Bo is a sinner.", "bo is a sinner\nann is a saint", "Ann (saint), Bo (sinner)"),
        (
            "not Ann is a saint, and Bo is a sinner.",
            "Ann is a saint, and Bo is a sinner, and Bo is a saint",
            "is Ann a saint, Bo is a sinner",
            "Ann Ann is a saint, Bo is a sinner",
            "Ann is a saint), and Bo is a sinner.",
            "Ann (is a saint, Bo is a sinner)",
            "Ann (saint, Bo (sinner))",
        ),
    ),
    "buttons": (
        "quantum_lock",
        ("A \u2192 B", "AB", "a, b", "A -> B", "A, then B"),
        ("not A \u2192 B", "A or B", "A \u2192 B!", "A -> -> B", "-A, B"),
    ),
    "a candidate": (
        "number_format",
        ("721175278.3689999", "721,175,278.3689999", "7.211752783689999e+08", "721175278.369"),
        ("721175278.3689998", "721175278.36", "721175278.3689999,5", "721175278.369,000", "721175278.37"),
    ),
    "sums": (
        "survo",
        ("1 4 5\n3 2 5\n4 6 10", "3 2 5\n1 4 5\n4 6 10"),
        (
            "2 3 5\n2 3 5\n4 6 10",
            "1 4 5\n3 2 5\n4 6 10\n4 6 10",
            "4 1 5\n3 2 5\n4 6 10",
            "1 4 5\n3 2 5",
            "1 4 5\n3 2 x\n4 6 10",
        ),
    ),
    "a candidate shown twice": (
        "number_format",
        ("791044.979", "791,044.979", "7.910449790000001e+05", "791,044.9790000001"),
        ("791044.9790000002", "791044.978"),
    ),
    "a complex number": ("complex_arithmetic", ("4 - 7i", "(4.0-7.0j)"), ("4 - 7.5i", "4 - 7i or 5")),
    "JSON": (
        "codeio",
        ('{"b": [1, true], "a": 0.10}',),
        ('{"a": 0.1, "b": [1, 1]}', '{"a": 0.1, "b": [1, true], "b": [1, true]}', '{"a": 0.1, "b": [1, true]}!'),
    ),
    "colours": (
        "graph_color",
        ('{"0": 1, "1": 2}',),
        ('{"0": true, "1": 2}', '{"0": 1, "1": 2, "2": 1}', '{"0": 3, "0": 1, "1": 2}'),
    ),
    "letters": ("cryptarithm", ("A=1,B=2", "B = 2, A = 1"), ("A=1,B=3,B=2", "A=1,B=2)", "not A=1,B=2")),
    "hanoi": ("tower_of_hanoi", ("Move disk 1 from Peg 1 to Peg 2",), ("not Move disk 1 from Peg 1 to Peg 2 or 3",)),
    "a plan": (
        "boxnet",
        ('[{"Agent[0.5, 0.5]": "move(box_red, square[0.5, 1.5])"}, {"Agent[0.5, 1.5]": "move(box_red, target_red)"}]',),
        (
            '[{"Agent[0.5, 0.5]": "move(box_red, square[0.5, |1.5])"}]',
            '[{"Agent[0.5, 0.5]": "move(box_red, !target_red)"}]',
            '[{"Agent[0.5, 0.5]": "move(box_red, target_red) or not"}]',
            "1e9999999999999999999",
        ),
    ),
    "marks": ("kakurasu", ("0 1\n1 0",), ("0 1\n1 07", "not 0 1\n1 0", "0 1\n1 0\n0 0")),
    "an integral": ("simple_integration", ("x**2 + C", "sin(x) - K1", "x**2"), ("never - x**2", "x**2 + X")),
    "one answer": ("leg_counting", ("31", " 31\n", "31.0", "31 legs"), ("31 or 32", "231", "31 a", "not 31", "31!")),
}
"""For each kind the task, right answers, and wrong ones that a verifier may take for right."""
CASES = [
    (kind, answer, right)
    for kind, (_, *answers) in KINDS.items()
    for texts, right in zip(answers, (True, False), strict=True)
    for answer in texts
]


@pytest.mark.parametrize(("kind", "answer", "right"), CASES)
def test_exactly_right(kind: str, answer: str, right: bool) -> None:
    """The verifier of the task is taken to pay all of these answers in full."""
    entry = {"question": "How many?", **ENTRIES[kind]}
    dataset: Any = None
    assert is_exactly_right(KINDS[kind][0], answer, entry, dataset, 1.0) is right


@pytest.mark.parametrize(
    ("said", "right"),
    [
        ("2.67", True),
        ("2.675", True),
        ("2.6749", True),
        ("2.674", False),
        ("2.7", False),
        ("two", False),
        ("2.68", False),
    ],
)
def test_rounding(said: str, right: bool) -> None:
    assert is_rounded(said, Fraction("2.6749"), places=2) is right


@pytest.mark.parametrize(
    ("said", "right"), [("1.00e-05", True), ("9.996e-06", True), ("1e-5", True), ("9.99e-06", False), ("0", False)]
)
def test_significant_digits(said: str, right: bool) -> None:
    assert has_right_digits(said, Fraction("9.9961e-06"), digits=3) is right


@pytest.mark.parametrize("answer", ["31 or 32", "231", "31/2", "not 31", "31?", "-31", "31 isn't right", "either 31"])
def test_another_answer_beside(answer: str) -> None:
    assert says_otherwise(answer, "31")


@pytest.mark.parametrize("answer", ["It is 31", "31.", "x = 31", "31.0", "A -> 31"])
def test_words_beside(answer: str) -> None:
    assert not says_otherwise(answer, "31")


@pytest.mark.parametrize("answer", ["{0}/2", "not {0}", "{0} or 1", ">{0}", "{0}!", "{0},5", "-{0}"])
def test_one_number_is_read(answer: str) -> None:
    dataset = reasoning_gym.create_dataset("gsm_symbolic", seed=SEED, size=5)
    for entry in dataset:
        said = answer.format(entry["answer"])
        assert dataset.score_answer(said, entry) == 1.0
        assert verify("gsm_symbolic", dataset, said, entry, strict=True) == 0.0


@pytest.mark.parametrize("score", [0.0, 1.0])
def test_long_name_in_linear_time(score: float) -> None:
    """Quadratic work on a name of 20,000 letters before a parenthesis took over five seconds."""
    entry = {"question": "Integrate", "answer": "x + C", "metadata": {"variable": "x"}}
    dataset: Any = None
    begun = process_time()
    assert not is_exactly_right("simple_integration", 15_000 * "a" + "()" + 5_000 * "a", entry, dataset, score)
    assert process_time() - begun < 1.0
