"""Remove formatting around an answer, but nothing that changes the meaning of the answer."""

from __future__ import annotations

import inspect
import pickle
import pkgutil
from importlib import import_module
from typing import Any

import pytest

from reasoning_env import answers
from reasoning_env.answers.frames import FRAME_NAMES, MATHEMATICAL_NOTATION, NOT_RUN, REPLACED_SIGNS
from reasoning_env.answers.markup import nesting_depth, without_markup
from reasoning_env.answers.rules import AnswerRules
from reasoning_env.answers.scoring import Scorer


def texts(said: str, right: str = "", **rules: Any) -> dict[str, tuple[str, ...]]:
    """Return the possible readings of an answer, each with the kinds of formatting that were removed."""
    dataset: Any = None
    entry = pickle.dumps({"question": "", "answer": right, "metadata": {"numbers": [54, 63], "variable": "h"}})
    scorer = Scorer(AnswerRules(**rules), dataset, entry, strict=True, with_tags=False, accepts_forms=True)
    return {reading.text: reading.frames for reading in scorer.candidates(said)}


EXAMPLES = [
    ("fence", "```python\n1 2\n3 4\n```", "1 2\n3 4"),
    ("code", "``16``", "16"),
    ("mathematics", r"\[ 16 \]", "16"),
    ("mathematics", r"$\boxed{$16$}$", "16"),
    ("signs", r"\boxed{\{1, 2\}}", "{1, 2}"),
    ("signs", r"\boxed{\text{yes}}", "yes"),
    ("signs", r"\boxed{\frac{3}{4}}", "((3)/(4))"),
    ("emphasis", "**16**", "16"),
    ("emphasis", "_16_", "16"),
    ("quotes", '"16"', "16"),
    ("quotes", r'"a \"b\""', 'a "b"'),
    ("quotes", '"["a"]"', '["a"]'),
    ("quotes", "\u201c16\u201d", "16"),
    ("parentheses", "(16)", "16"),
    ("label", "**Answer:** 16", "16"),
    ("label", "### Answer\n16", "16"),
    ("label", "**Final Answer:**\n1 2\n3 4", "1 2\n3 4"),
    ("label", "So the final answer is: 16", "16"),
    ("label", "Result = 16", "16"),
    ("label", "Respuesta: 16", "16"),
    ("label", "La r\u00e9ponse est 16", "16"),
    ("label", "Die Antwort ist 16.", "16"),
    ("label", "A resposta \u00e9 16", "16"),
    ("label", "La risposta \u00e8: 16", "16"),
    ("label", "\u041e\u0442\u0432\u0435\u0442: 16", "16"),
    ("label", "\u7b54\u6848\u662f16", "16"),
    ("label", "\u7b54\u3048\u306f16", "16"),
    ("label", "\uc815\ub2f5\uc740 16", "16"),
    ("name", "LCM: 16", "16"),
    ("name", "The LCM of 54 and 63 is 16", "16"),
    ("name", "lcm(63,54)=16", "16"),
    ("name", "**Least Common Multiple (LCM):** 16", "16"),
    ("name", "The LCM of these numbers is 16", "16"),
    ("name", "h = 16", "16"),
    ("tail", r"16 \\", "16"),
    ("tail", "16\\", "16"),
    ("full_stop", "16.", "16"),
]
NAMES = ("lcm", "least common multiple", "{variable}")


@pytest.mark.parametrize(("name", "framed", "held"), EXAMPLES)
def test_formatting_around_an_answer_is_removed(name: str, framed: str, held: str) -> None:
    assert name in texts(framed, result_names=NAMES)[held]


def test_every_kind_of_removable_formatting_has_a_test_example() -> None:
    assert {name for name, _, _ in EXAMPLES} | {REPLACED_SIGNS, NOT_RUN, MATHEMATICAL_NOTATION} == FRAME_NAMES


@pytest.mark.parametrize(
    "said",
    [
        "not the answer: 16",
        "out != 16",
        "Palindrome: 16",
        "My best anagram: 16",
        "input: 16",
        "The error is 16",
        "The result isn't 16",
        "16 or 17",
        '"16" or "17"',
        "(16) or (17)",
        "**16** or **17**",
        "not 16",
        "int(16)",
        "GCD: 16",
        "LCM of 54 and 64 is 16",
        "lcm(54) = 16",
        "LCM - 1 = 16",
        '{"answer": 16}',
        "(3,355)",
        "2**16",
        "\u274c 16",
        "-16",
        "> 16",
        '<span style="text-decoration:line-through">16</span>',
        "<b>16</b>",
        r"\textcolor{White}{16}",
        "~~16~~",
    ],
)
def test_words_that_change_the_meaning_of_an_answer_are_not_removed(said: str) -> None:
    found = texts(said, result_names=NAMES)
    assert [text for text, frames in found.items() if REPLACED_SIGNS not in frames] == [said]


def test_nested_formatting_is_removed_outermost_first() -> None:
    assert texts('**Answer:** "$\\boxed{16}$".')["16"] == ("label", "full_stop", "quotes", "mathematics", "signs")


def test_answer_in_9_pairs_of_brackets_keeps_its_brackets() -> None:
    assert "16" not in texts("(" * 9 + "16" + ")" * 9)


def test_full_stop_is_kept_if_right_answers_end_in_a_full_stop() -> None:
    assert list(texts("It is late.", ends_in_full_stop=True)) == ["It is late."]
    assert "It is late" in texts('"It is late".', ends_in_full_stop=True)


def test_converting_mathematical_notation_is_reported_as_removed_formatting() -> None:
    assert texts("10x^7", is_formula=True)["10x^7"] == (MATHEMATICAL_NOTATION,)


def test_answer_parsers_have_no_question_parameter() -> None:
    """A parser that knew the question could find the answer in it."""
    modules = [import_module(name) for _, name, _ in pkgutil.walk_packages(answers.__path__, f"{answers.__name__}.")]
    functions = {value for module in modules for value in vars(module).values() if inspect.isfunction(value)}
    assert len(functions) > 100
    assert {value for value in functions if "question" in inspect.signature(value).parameters} == set()


@pytest.mark.parametrize(
    ("said", "written"),
    [
        (r"3 \times 10^5", "3 \u00d7 10^5"),
        (r"\frac{3}{4}", "((3)/(4))"),
        (r"\frac34", "((3)/(4))"),
        (r"1 + \dfrac{8}{3 - 1}", "1 + ((8)/(3 - 1))"),
        (r"1 + \frac{5x^{2}}{2}", "1 + ((5x^{2})/(2))"),
        (r"\frac{\frac{3}{4}x}{5}", "((((3)/(4))x)/(5))"),
        (r"-\(\frac{1}{2}\)*x", "-(((1)/(2)))*x"),
        (r"\text{up} \rightarrow \text{down}", "up \u2192 down"),
        (r"R \neg P", "R \u00acP"),
        (r"90^\circ", "90\u00b0"),
        (r"x\cos(x)", "x cos(x)"),
        ("\u2212" + "5", "-5"),
        ("R\u2019\u00a0U", "R' U"),
        ("\uff11\uff16", "16"),
        ("**Ann** is `one`", "Ann is one"),
        ("2**3 * 4**2", "2**3 * 4**2"),
        (r"x = \\boxed{16}", "x = 16"),
        (r"2\*3 - x\*\*2", "2*3 - x**2"),
        ("1\u3001234", "1, 234"),
        ("\u206816\u2069", "16"),
        ("\u202b16\u202c", "16"),
        ("\u202e61", "\u202e61"),
        (r"\boxed{1}\boxed{6}", r"\boxed{1}\boxed{6}"),
        (r"\boxed{1}6", r"\boxed{1}6"),
    ],
)
def test_latex_and_unicode_signs_become_plain_text(said: str, written: str) -> None:
    assert without_markup(said) == written


@pytest.mark.parametrize(("text", "depth"), [("a", 0), ("[[]](1)", 2), ("[({", 3), ("))[[", 2), ("([)]", 2)])
def test_nesting_depth_is_the_highest_number_of_brackets_open_at_once(text: str, depth: int) -> None:
    assert nesting_depth(text) == depth
