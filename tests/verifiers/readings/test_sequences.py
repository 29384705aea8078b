"""Lists, words and claims become the expected answer in other separators of the same content."""

from __future__ import annotations

import pytest

from reasoning_env.verifiers.readings import readings

from .entries import entry, is_read


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
def test_list_of_the_same_elements(said: str, same: bool) -> None:
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


@pytest.mark.parametrize(
    "said",
    [
        "b,a",
        "b , a",
        "b,\na",
        '["b", "a"]',
        "['b', 'a']",
        "[b, a]",
        "(b, a)",
        "b; a",
        "b\na",
        "b, a,",
        "'b', 'a'",
        '"b", "a"',
        "`b`, `a`",
        "**b**, **a**",
        "- b\n- a",
        "1. b\n2. a",
        "\u201cb\u201d, \u201ca\u201d",
        "b \u2192 a",
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
