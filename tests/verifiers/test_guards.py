"""Each guard against texts that would break, burden or bribe the library's own verifier, and the bounds it sets.

That honest and wrong answers get the library's score is what `benchmarks/guard_fuzz.py` shows.
"""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from traceback import walk_tb
from types import TracebackType
from typing import Any

import pytest
import reasoning_gym

from reasoning_env.verifiers import GUARDS, verify

SEED = 4242


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("elsewhere")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of the library's generators touch files."""
    monkeypatch.chdir(elsewhere)


@cache
def _problem(task: str) -> tuple[Any, bytes]:
    """A dataset, and its first entry as bytes, since verifiers may write into it."""
    params = {"max_moves": 8} if task == "rush_hour" else {}
    dataset = reasoning_gym.create_dataset(task, seed=SEED, size=1, **params)
    return dataset, pickle.dumps(dataset[0])


def score(task: str, said: str, *, strict: bool = False, **changes: Any) -> float:
    dataset, entry = _problem(task)
    return verify(task, dataset, said, {**pickle.loads(entry), **changes}, strict=strict)


def library_score(task: str, said: str, **changes: Any) -> float:
    dataset, entry = _problem(task)
    return float(dataset.score_answer(said, {**pickle.loads(entry), **changes}))


@contextlib.contextmanager
def only_what_the_library_raises() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if isinstance(error, MemoryError) or not _is_from_library(error.__traceback__):
            raise


def _is_from_library(traceback: TracebackType | None) -> bool:
    return any(frame.f_globals.get("__name__", "").startswith("reasoning_gym.") for frame, _ in walk_tb(traceback))


# ------------------------------------------------------------------ what would burden the library's verifier

LITERALS = ["[" * 9000, "1" + "+1" * 9000, "1" + "(1)" * 6000, "1" + "[1]" * 6000, "['Q'] * 10**9", "range(10**9)"]
SUMS = ["9**9**9**9", "1e999999999", "(" * 9000, "1+" * 9000 + "1", "9" * 5000, "2**4096**2", "-" * 9000, "99999!"]
INTEGRALS = ["x**x**x**x**x", "x**99999", "9**9**9**9", "exp(99999999999*log(2))", "cos(exp(1e30))"]
BURDENS = {
    "binary_matrix": [*LITERALS, "[[" + "1," * 9000 + "]]"],
    "bitwise_arithmetic": ["0x" + "f" * 19_000, "9" * 19_000, "0b" + "1" * 19_000, "1_" * 9000 + "1"],
    "boxnet": [
        "[" * 9000 + "]" * 9000,
        '[{"' + "9" * 9000 + '": "move(box_red, square[1, 1])"}]',
        "[" + ",".join(['{"Agent[0.5, 0.5]":"move(box_red, square[0.5, 1.5])"}'] * 300) + "]",
        "[{" + ",".join(f'"{n}.5 0.5":"move(, )"' for n in range(800)) + "}]",
        "[" + "9" * 5000 + "]",
    ],
    "codeio": [
        '{"a":' * 5000 + "1" + "}" * 5000,
        '{"a":1,"b":' * 200 + "1" + "}" * 200,
        '{"a":[' + ",".join(["[1]"] * 1000) + "]}",
        '{"a":[' + "1," * 9000 + "1]}",
        '{"a":"' + "b" * 19_000 + '"}',
        "{" * 19_000 + "}",
        '{"a":' + "9" * 5000 + "}",
        '{"a":"' + "1" * 9000 + '","b":"' + "1" * 9000 + '"}',
    ],
    "coin_flip": [
        *("1e99999999", "1e-99999999", "1E+99999999/1", "1e9_9_9_9_9_9_9", "1e9,9,9,9,9,9,9", "1e,9999999"),
        *("1e-,9999999", "1,e9,999,999", "0.5e0000000", "9" * 5000, "1/" + "9" * 5000),
    ],
    "complex_arithmetic": ["(" * 9000, "9" * 9000 + "i", "1e" + "9" * 80, "1+" * 50],
    "countdown": SUMS,
    "intermediate_integration": INTEGRALS,
    "n_queens": [*LITERALS, "[" + "'Q'," * 5000 + "]"],
    "number_sorting": ["[" * 9000, "[" + "1," * 9000 + "1]", "[" + "9" * 5000 + "]", "[1e999]", "[NaN]"],
    "polynomial_multiplication": INTEGRALS,
    "propositional_logic": [
        "\u2228".join(map(chr, range(97, 123))),
        "\u2227".join("P" + " P" * n for n in range(1, 19)),
        "\u2228".join("(P)" * n for n in range(2, 20)),
        "\u00ac" * 599 + "P",
        "P\u2227" * 299 + "P",
        "\u2227" * 600,
        "(" * 299 + "P" + ")" * 299,
        "(P\u2228" * 149 + "P" + ")" * 149,
        "P\u2228Q" * 5000,
    ],
    "puzzle24": SUMS,
    "rubiks_cube": ["R999999999", "R" + "9" * 5000, "999999999", "R4 " * 6000, "R3 " * 2000, "R" + "\u0669" * 9],
    "rush_hour": ["A+999999999", "B-" + "9" * 5000, "A+9 A-9 " * 2000, "A+\u0669" * 2000],
    "simple_integration": INTEGRALS,
    "spiral_matrix": LITERALS,
    "string_insertion": [*LITERALS, "'" + "A" * 19_000 + "'", "'A' * 10**9"],
}


@pytest.mark.parametrize("strict", [False, True], ids=["plain", "strict"])
@pytest.mark.parametrize("task", sorted(GUARDS))
def test_no_text_keeps_a_guard_or_breaks_it(task: str, strict: bool) -> None:
    """The library's verifier would hang, or exhaust the memory or the stack."""
    for text in BURDENS[task]:
        with only_what_the_library_raises():
            assert 0.0 <= score(task, text, strict=strict) <= 1.0


SNIPPETS = [
    *("__import__('os').mkdir('made')", "open('made', 'w')", "exec(\"open('made', 'w')\")", "print(open('made', 'w'))"),
    *("[open('made', 'w') for _ in [1]]", "(lambda: open('made', 'w'))()", "().__class__.__base__.__subclasses__()"),
    *("f\"{open('made', 'w')}\"", "x if open('made', 'w') else x"),
]


@pytest.mark.parametrize("task", sorted(GUARDS))
def test_no_text_is_run(task: str, elsewhere: Path) -> None:
    oracle = pickle.loads(_problem(task)[1])["answer"] or "x"
    for snippet in SNIPPETS:
        for form in ("{1}", "{0} + {1}", "[{1}]", "{1} or {0}", "{0}\n{1}"):
            for strict in (False, True):
                with only_what_the_library_raises():
                    score(task, form.format(oracle, snippet), strict=strict)
    assert not (elsewhere / "made").exists()


# ------------------------------------------------------------------ bounds that change no score


@pytest.mark.parametrize(
    ("task", "answers"),
    [
        ("rubiks_cube", [f"{move}{n} D {move}{n}" for move in ("R", "U'", "L'") for n in (*range(10), 40, 41)]),
        ("coin_flip", ["0.5", "1/2", "5E-01", "1,000/2,000", " 0.25 ", "1.000e+00", "3/8", "0.", ".5", "-1"]),
        ("propositional_logic", ["P\u2227", "(P \u2227", "\u2228Q", "\u00ac", "()", "\u2227", "P)", "(P"]),
        ("boxnet", ["[]", "[{}]", "{}", '""']),
    ],
)  # fmt: skip
def test_answer_within_the_bounds_gets_the_librarys_score(task: str, answers: list[str]) -> None:
    assert [score(task, answer) for answer in answers] == [library_score(task, answer) for answer in answers]


@pytest.mark.parametrize("answer", ["[1]", "null", "1", '{"a": 1}', "[[]]", '[{"a": 1}]', "nonsense", ""])
def test_plan_of_another_shape_gets_nothing(answer: str) -> None:
    assert score("boxnet", answer) == 0.0


LONG_LIST = "[" + "1, " * 2500 + "1]"
LONG_OBJECT = '{"a": [' + "1, " * 2500 + "1]}"


@pytest.mark.parametrize("oracle", [LONG_LIST, LONG_OBJECT], ids=["list", "object"])
def test_long_output_is_right_when_it_is_right(oracle: str) -> None:
    for form in ("{}", " {}\n"):
        assert score("codeio", form.format(oracle), answer=oracle) == 1.0


@pytest.mark.parametrize(
    ("oracle", "answers"),
    [
        (LONG_LIST, [LONG_LIST * 2, f"The output is {LONG_LIST}", f"{LONG_LIST}."]),
        ('{"a": 1}', ["so it goes " * n + said for n in (1, 500) for said in ('{"a": 1}', '{"a": [2]}')]),
    ],
    ids=["long oracle", "many words"],
)  # fmt: skip
def test_text_around_an_output_gets_the_librarys_score(oracle: str, answers: list[str]) -> None:
    for answer in answers:
        assert score("codeio", answer, answer=oracle) == library_score("codeio", answer, answer=oracle)


def test_formula_over_many_other_variables_gets_the_floor() -> None:
    assert score("propositional_logic", " \u2228 ".join("abcdefghijkl")) == 0.05
    assert score("propositional_logic", "Z \u2228 \u00acZ") == 0.0
