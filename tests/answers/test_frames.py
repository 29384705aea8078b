"""Each frame comes off, and text that only looks like a frame stays."""

from __future__ import annotations

import pytest

from reasoning_env.answers.frames import FRAME_NAMES, NOT_RUN, PLAIN_SIGNS, steps
from reasoning_env.answers.plain import plain

EXAMPLES = [
    ("fence", "```python\n1 2\n3 4\n```", "1 2\n3 4"),
    ("code", "``16``", "16"),
    ("mathematics", r"\[ 16 \]", "16"),
    ("mathematics", r"$\boxed{$16$}$", "16"),
    ("latex_command", r"\boxed{{1, 2}}", "{1, 2}"),
    ("latex_command", r"{\bf 16}", "16"),
    ("latex_command", r"\textcolor{red}{16}", "16"),
    ("emphasis", "**16**", "16"),
    ("emphasis", "_16_", "16"),
    ("quotes", '"16"', "16"),
    ("quotes", r'"a \"b\""', 'a "b"'),
    ("quotes", '"["a"]"', '["a"]'),
    ("quotes", "\u201c16\u201d", "16"),
    ("parentheses", "(16)", "16"),
    ("HTML", '<div class="answer">16</div>', "16"),
    ("label", "**Answer:** 16", "16"),
    ("label", "The final answer is: 16", "16"),
    ("label", "### Answer\n16", "16"),
    ("label", "Respuesta: 16", "16"),
    ("label", "The answer is 16", "16"),
    ("label", "**Shortest path_length:** 16", "16"),
    ("label", "Therefore: 16", "16"),
    ("label", "x = [1, 2]", "[1, 2]"),
    ("label", "new_lst = [[1]]", "[[1]]"),
    ("label", "Decrypted message: STOP", "STOP"),
    ("label", "The resulting matrix is:\n1 2", "1 2"),
    ("label", "Value = 16", "16"),
    ("object", '{"answer": 16}', "16"),
    ("object", '{"final_path": "up"}', '"up"'),
    ("lead", "## 16", "16"),
    ("lead", "- True", "True"),
    ("lead", "\u2192 16", "16"),
    ("lead", "return 16", "16"),
    ("tail", "16 \u2705", "16"),
    ("tail", "16\n---", "16"),
    ("call", "np.array([1, 2])", "[1, 2]"),
    ("call", "int(16)", "16"),
    ("call", "Fraction(3, 4)", "3/4"),
    ("full_stop", "16.", "16"),
    ("list_marks", "1. up\n2. down", "up\ndown"),
    ("list_marks", "- up\n- down", "up\ndown"),
    ("brackets", "[16]", "16"),
]


@pytest.mark.parametrize(("name", "framed", "held"), EXAMPLES)
def test_frame_comes_off(name: str, framed: str, held: str) -> None:
    found = {step.text: step.frames for step in steps(framed, ends_in_full_stop=False)}
    assert name in found[held]


def test_every_frame_has_example() -> None:
    assert {name for name, _, _ in EXAMPLES} | {PLAIN_SIGNS, NOT_RUN} == FRAME_NAMES


@pytest.mark.parametrize(
    "said",
    [
        "not the answer: 16",
        "out != 16",
        "input: 16",
        "The error is 16",
        "16 or 17",
        '"16" or "17"',
        "(16) or (17)",
        "**16** or **17**",
        "not 16",
        "int(16.5)",
        "mistake = 16",
        "max = 16",
        '{"answer": 16, "other": 17}',
        "np.array([16.5], dtype=int)",
        "(3,355)",
        "2**16",
        "\u274c 16",
        "-16",
        "> 16",
    ],
)
def test_text_that_says_something(said: str) -> None:
    assert [step.text for step in steps(said, ends_in_full_stop=False) if PLAIN_SIGNS not in step.frames] == [said]


ASKING = (
    "The light shines.\n\nNow: (2.0 - 8.0i) + 1 =\nWhat is the detector light status? On which day of the month was it?"
    " Find the color of the top side. Return only the shape, weight or age."
)


@pytest.mark.parametrize(
    "called",
    [
        "Light:",
        "Detector light status:",
        "**The light is**",
        "(2.0-8.0i)+1 =",
        "lights:",
        "Day of the month:",
        "Top side =",
    ],
)
def test_name_of_question(called: str) -> None:
    assert "on" in [step.text for step in steps(f"{called} on", ends_in_full_stop=False, question=ASKING)]


@pytest.mark.parametrize(
    "called",
    [
        "Lamp:",
        "The shape is",
        "No light:",
        "1 =",
        "light or status:",
        "shines:",
        "Month:",
        "False:",
        "A =",
        "the:",
        "Side, top:",
        "Answer 2:",
    ],
)
def test_name_of_something_else(called: str) -> None:
    assert "on" not in [step.text for step in steps(f"{called} on", ends_in_full_stop=False, question=ASKING)]


def test_frames_come_off_from_outside() -> None:
    last = list(steps('**Answer:** "$\\boxed{16}$".', ends_in_full_stop=False))[-1]
    assert last.text == "16"
    assert last.frames == ("label", "full_stop", "quotes", "mathematics", "latex_command")


def test_number_of_frames() -> None:
    said = "(" * 9 + "16" + ")" * 9
    assert "16" not in [step.text for step in steps(said, ends_in_full_stop=False)]


def test_full_stop_of_the_answer() -> None:
    assert [step.text for step in steps("It is late.", ends_in_full_stop=True)] == ["It is late."]
    assert "It is late" in [step.text for step in steps('"It is late".', ends_in_full_stop=True)]


@pytest.mark.parametrize(
    ("said", "written"),
    [
        (r"3 \times 10^5", "3 \u00d7 10^5"),
        (r"\frac{3}{4}", "3/4"),
        (r"1 + \dfrac{8}{3 - 1}", "1 + ((8)/(3 - 1))"),
        (r"\text{up} \rightarrow \text{down}", "up \u2192 down"),
        (r"R \neg P", "R \u00acP"),
        (r"90^\circ", "90\u00b0"),
        ("\u2212" + "5", "-5"),
        ("R\u2019\u00a0U", "R' U"),
        ("\uff11\uff16", "16"),
        ("1.6 &times; 10<sup>3</sup>", "1.6 \u00d7 10^3"),
        ("**Ann** is `one`", "Ann is one"),
        ("2**3 * 4**2", "2**3 * 4**2"),
        (r"x = \\boxed{16}", "x = 16"),
    ],
)
def test_plain_characters(said: str, written: str) -> None:
    assert plain(said) == written
