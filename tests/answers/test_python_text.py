"""Score answers that the library would execute as code. They are not executed, and the scores stay equal."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reasoning_env.answers.frames import NOT_RUN
from reasoning_env.answers.grammars import python_text
from reasoning_env.records import ProblemRequest
from reasoning_env.workers.library import Library

FORMULAS = (
    *("RIGHT or WRONG", "WRONG and RIGHT", "not RIGHT", "[RIGHT][0]", "[RIGHT]", "(RIGHT,)", "RIGHT if 1 else WRONG"),
    *(
        "RIGHT # WRONG",
        "simplify(RIGHT)",
        "expand(RIGHT)",
        "max(RIGHT, RIGHT)",
        "abs(RIGHT)",
        "N(RIGHT)",
        "RIGHT == RIGHT",
    ),
    *(
        "'RIGHT'",
        "simplify('RIGHT')",
        "'5'",
        "'5' + '6'",
        "RIGHT; WRONG",
        "RIGHT RIGHT",
        "the answer",
        "RIGHT.",
        "RIGHT,",
    ),
    *(
        "5!",
        "0.2[3]",
        "f(x)",
        "Symbol('x')",
        "Symbol('x y')",
        "Rational(1, 2)",
        "S(1)/2",
        "1 < 2 < 3",
        "x < 2",
        "1e400",
    ),
    *(
        "0x10",
        "5 % 3",
        "5 // 3",
        "~5",
        "5 << 2",
        "{1}",
        "True",
        "None",
        "nan",
        "oo",
        "1 / 0",
        "24",
        "'24'",
        "",
        "RIGHT^2",
    ),
)
LISTS = (
    *("ROWS", "ROWS or 1", "ROWS # x", "list(ROWS)", "[ROWS][0]", "ROWS + []", "tuple(ROWS)", "ROWS * 1", "ROWS * 2"),
    *(
        "sorted(ROWS)",
        "reversed(ROWS)",
        "[1] * 3",
        "'RIGHT'",
        "str(5)",
        "len(ROWS)",
        "RIGHT",
        "no list",
        "",
        "()",
        "1 / 0",
    ),
)
COPIES = {
    "simple_integration": ["Integral(INTEGRAND, VARIABLE)", "integrate(INTEGRAND, VARIABLE)"],
    "intermediate_integration": ["Integral(INTEGRAND, VARIABLE)"],
    "polynomial_multiplication": ["expand(PRODUCT)"],
}
"""Answers that copy the question, and that get full score from the library."""
TASKS = {
    **dict.fromkeys(("polynomial_multiplication", "countdown", "puzzle24"), FORMULAS),
    **dict.fromkeys(("n_queens", "binary_matrix", "spiral_matrix", "string_insertion"), LISTS),
    # The library's comparison of integrals takes up to several seconds.
    "simple_integration": ("RIGHT", "WRONG and RIGHT", "[RIGHT][0]", "'RIGHT'", "simplify('RIGHT')", "the answer"),
    "intermediate_integration": ("RIGHT", "WRONG or RIGHT", "RIGHT or WRONG", "simplify(RIGHT)", "RIGHT # WRONG"),
}
ATTACKS = (
    *("open('canary', 'w')", "__import__('os').system('touch canary')", '\'open("canary", "w")\'', "().__class__"),
    *('Integral(\'open("canary", "w")\', x)', 'simplify(\'open("canary", "w")\')', 'Symbol(\'open("canary", "w")\')'),
    *("Function('open')('canary', 'w')", "(lambda: open('canary', 'w'))()", "[open('canary', 'w') for _ in [1]]"),
    *('lambdify(x, x)(\'open("canary", "w")\')', 'sympify(\'open("canary", "w")\')', 'S(\'open("canary", "w")\')'),
    *("'a' 'b' + 'open(\"canary\", \"w\")'", 'Float(\'open("canary", "w")\')', 'eval(\'open("canary", "w")\')'),
    *('f\'{open("canary", "w")}\'', "print(open('canary', 'w'))", 'max(\'open("canary", "w")\', x)'),
    *('Poly(\'open("canary", "w")\', x)', 'Lambda(x, \'open("canary", "w")\')', 'Eq(\'open("canary", "w")\', x)'),
)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns about `5(...)` in code
        yield


@pytest.fixture(scope="module")
def library() -> Library:
    library = Library(None)
    library.rewards = "library"
    return library


class Asked:
    """A problem of the library, and the values that replace the placeholders (RIGHT, WRONG, ...) in test answers."""

    def __init__(self, library: Library, task: str) -> None:
        self.problem = library.generate(ProblemRequest(task, 7, {}, None))
        self.scorer = library.scorer(task, self.problem.params, self.problem.entry)
        self.dataset: Any = self.scorer.dataset
        entry: Any = self.dataset[0]
        self.entry = entry
        right = str(entry["answer"])
        metadata = entry["metadata"]
        self.words = {
            "RIGHT": right,
            "WRONG": f"({right}) + 1",
            "ROWS": repr([line.split() for line in right.split("\n")] if "\n" in right else right.split()),
            "INTEGRAND": str(metadata.get("integrand")),
            "VARIABLE": str(metadata.get("variable")),
            "PRODUCT": str(metadata.get("polynomial_expr")),
        }

    def write(self, form: str) -> str:
        for word, text in self.words.items():
            form = form.replace(word, text)
        return form


def score_directly(asked: Asked, answer: str) -> float | None:
    try:
        return float(asked.dataset.score_answer(answer, asked.entry))
    except Exception:
        return None


@pytest.mark.parametrize("task", sorted(TASKS))
def test_code_answers_get_the_library_score_without_being_executed(library: Library, task: str) -> None:
    asked = Asked(library, task)
    answers = [asked.write(form) for form in (*TASKS[task], *COPIES.get(task, []))]
    expected = [score_directly(asked, answer) for answer in answers]
    found = [
        asked.scorer.score(answer) if paid is not None else None for answer, paid in zip(answers, expected, strict=True)
    ]
    assert dict(zip(answers, found, strict=True)) == dict(zip(answers, expected, strict=True))


@pytest.mark.parametrize("task", sorted(COPIES))
def test_formula_copied_from_the_question_gets_full_score(library: Library, task: str) -> None:
    asked = Asked(library, task)
    assert [asked.scorer.score(asked.write(form)) for form in COPIES[task]] == [1.0] * len(COPIES[task])


@pytest.mark.parametrize("task", ["simple_integration", "countdown", "n_queens"])
def test_code_inside_answers_is_not_executed(
    library: Library, task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = Asked(library, task)
    for attack in ATTACKS:
        assert asked.scorer.score(attack) < 0.1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("with_tags", [False, True])
def test_scorer_reports_that_code_in_an_answer_was_not_executed(library: Library, with_tags: bool) -> None:
    """Plain rewards also score the answer together with its tags."""
    asked = Asked(library, "simple_integration")
    scorer = replace(asked.scorer, with_tags=with_tags)
    scorer.score(asked.write("(RIGHT).doit()"))
    assert NOT_RUN in scorer.frames
    scorer.score("no formula")
    assert NOT_RUN not in scorer.frames


def test_library_module_is_restored_after_it_was_patched_for_a_verifier(library: Library) -> None:
    dataset = Asked(library, "n_queens").dataset
    module = sys.modules[type(dataset).__module__]
    before = dict(vars(module))
    with python_text.read_safely(module):
        assert vars(module) != before
    assert vars(module) == before


def test_deeply_nested_calculation_raises() -> None:
    with pytest.raises(python_text.ExpressionError):
        python_text.calculate("-" * 300 + "1")
