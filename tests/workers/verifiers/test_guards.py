"""Each guard beside the library's own verifier, and against texts that would break, burden or bribe that one."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from benchmarks.guard_fuzz import MOST_COSTLY, Bench, compare, is_from_library, load
from reasoning_env.verifiers import GUARDS, verify

ROOT = Path(__file__).resolve().parents[3]
SEED = 4242
ANSWERS, ITEMS = 40, 12
COSTLY_ANSWERS, COSTLY_ITEMS = 8, 4


@pytest.fixture(scope="session")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("elsewhere")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of the library's generators touch files."""
    monkeypatch.chdir(elsewhere)


@cache
def bench(task: str) -> Bench:
    return load(task, COSTLY_ITEMS if task in MOST_COSTLY else ITEMS, SEED)


def score(task: str, answer: str, *, strict: bool = False, item: int = 0) -> float:
    own = bench(task)
    return verify(task, own.dataset, answer, pickle.loads(own.exercises[item].entry), strict=strict)


def library_score(task: str, answer: str, *, item: int = 0) -> float:
    own = bench(task)
    return float(own.dataset.score_answer(answer, pickle.loads(own.exercises[item].entry)))


@pytest.mark.parametrize("task", sorted(GUARDS))
def test_honest_and_wrong_answers_get_the_librarys_score(task: str) -> None:
    answers = COSTLY_ANSWERS if task in MOST_COSTLY else ANSWERS
    assert compare(bench(task), answers, SEED) == []


@pytest.mark.parametrize("task", sorted(GUARDS))
def test_the_right_answer_earns_everything(task: str) -> None:
    assert [score(task, exercise.oracle, item=item) for item, exercise in enumerate(bench(task).exercises)] == [
        1.0 for _ in bench(task).exercises
    ]


@pytest.mark.parametrize("task", sorted(GUARDS))
def test_no_answer_changes_its_entry(task: str) -> None:
    own = bench(task)
    entry = pickle.loads(own.exercises[0].entry)
    verify(task, own.dataset, own.exercises[0].oracle, entry, strict=False)
    assert pickle.dumps(entry) == pickle.dumps(pickle.loads(own.exercises[0].entry))


# What would burden the library's verifier

BURDENS = {
    "coin_flip": [
        "1e99999999",
        "1e-99999999",
        "1E+99999999/1",
        "1e9_9_9_9_9_9_9",
        "1e9,9,9,9,9,9,9",
        "1e,9999999",
        "1e-,9999999",
        "1,e9,999,999",
        "0.5e0000000",
        "9" * 5000,
        "1/" + "9" * 5000,
    ],
    "rubiks_cube": ["R999999999", "R" + "9" * 5000, "999999999", "R4 " * 6000, "R3 " * 2000, "R" + "\u0669" * 9],
    "rush_hour": ["A+999999999", "B-" + "9" * 5000, "A+9 A-9 " * 2000, "A+\u0669" * 2000],
    "propositional_logic": [
        "\u2228".join(map(chr, range(97, 123))),
        "\u2227".join("P" + " P" * n for n in range(1, 19)),
        "\u2228".join("P" + " " * n + "P" for n in range(1, 19)),
        "\u2228".join("(P)" * n for n in range(2, 20)),
        "\u00ac" * 599 + "P",
        "P\u2227" * 299 + "P",
        "\u2227" * 600,
        "P\u2194" * 299 + "P",
        "(" * 299 + "P" + ")" * 299,
        "(P\u2228" * 149 + "P" + ")" * 149,
        "P\u2228Q" * 5000,
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
    "boxnet": [
        "[" * 9000 + "]" * 9000,
        '[{"' + "9" * 9000 + '": "move(box_red, square[1, 1])"}]',
        "[" + ",".join(['{"Agent[0.5, 0.5]":"move(box_red, square[0.5, 1.5])"}'] * 300) + "]",
        "[{" + ",".join(f'"{n}.5 0.5":"move(, )"' for n in range(800)) + "}]",
        "[" + "9" * 5000 + "]",
    ],
    "complex_arithmetic": ["(" * 9000, "9" * 9000 + "i", "1e" + "9" * 80, "1+" * 50],
    "bitwise_arithmetic": ["0x" + "f" * 19_000, "9" * 19_000, "0b" + "1" * 19_000, "1_" * 9000 + "1"],
    "countdown": ["9**9**9**9", "1e999999999", "(" * 9000, "1+" * 9000 + "1", "9" * 5000, "2**4096**2", "-" * 9000],
    "puzzle24": ["9**9**9**9", "24e0", "(" * 9000, "1+" * 9000 + "1", "factorial(99999)", "99999!"],
    "n_queens": ["[" * 9000, "1" + "+1" * 9000, "1" + "(1)" * 6000, "[" + "'Q'," * 5000 + "]", "['Q'] * 10**9"],
    "binary_matrix": ["[" * 9000, "1" + "+1" * 9000, "1" + "[1]" * 6000, "[[" + "1," * 9000 + "]]", "[[0] * 10**9]"],
    "spiral_matrix": ["[" * 9000, "1" + "+1" * 9000, "1" + "[1]" * 6000, "[" + "1," * 9000 + "]", "range(10**9)"],
    "string_insertion": ["[" * 9000, "1" + "+1" * 9000, "1" + "(1)" * 6000, "'" + "A" * 19_000 + "'", "'A' * 10**9"],
    "number_sorting": ["[" * 9000, "[" + "1," * 9000 + "1]", "[" + "9" * 5000 + "]", "[1e999]", "[NaN]"],
    "polynomial_multiplication": ["exp(99999999999*log(2))", "cos(exp(1e30))", "x**99999", "9**9**9"],
    "simple_integration": ["x**x**x**x**x", "x**99999", "9**9**9**9", "exp(99999999999*log(2))"],
    "intermediate_integration": ["x**x**x**x**x", "x**99999", "9**9**9**9", "exp(99999999999*log(2))"],
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("task", "text"), [(task, text) for task, texts in BURDENS.items() for text in texts], ids=lambda text: text[:30]
)
@pytest.mark.parametrize("strict", [False, True], ids=["plain", "strict"])
def test_no_text_takes_a_second_or_breaks_a_guard(task: str, text: str, strict: bool) -> None:
    bench(task)
    started = time.process_time()
    with only_what_the_library_raises():
        assert 0.0 <= score(task, text, strict=strict) <= 1.0
    assert time.process_time() - started < 1.0


@contextmanager
def only_what_the_library_raises() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if isinstance(error, MemoryError) or not is_from_library(error.__traceback__):
            raise


def test_every_guard_is_burdened() -> None:
    assert BURDENS.keys() == GUARDS.keys()


# What would run

SNIPPETS = [
    "__import__('os').mkdir('made')",
    "open('made', 'w')",
    "exec(\"open('made', 'w')\")",
    "[open('made', 'w') for _ in [1]]",
    "(lambda: open('made', 'w'))()",
    "().__class__.__base__.__subclasses__()",
    "f\"{open('made', 'w')}\"",
    "x if open('made', 'w') else x",
    "[1][0].__class__",
    "print(open('made', 'w'))",
]


@pytest.mark.parametrize("task", sorted(GUARDS))
@pytest.mark.parametrize("snippet", SNIPPETS)
def test_no_text_is_run(task: str, snippet: str, elsewhere: Path) -> None:
    oracle = bench(task).exercises[0].oracle
    for text in (snippet, f"{oracle} + {snippet}", f"[{snippet}]", f"{snippet} or {oracle}", f"{oracle}\n{snippet}"):
        for strict in (False, True):
            with only_what_the_library_raises():
                score(task, text, strict=strict)
    assert not (elsewhere / "made").exists()


# Bounds that change no value


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 40, 41])
def test_turns_of_a_cube_count_by_four(count: int) -> None:
    for move in ("R", "U'", "F", "L'"):
        answer = f"{move}{count} D {move}{count}"
        assert score("rubiks_cube", answer) == library_score("rubiks_cube", answer)


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4, 5, 6, 7, 10, 100, 1000])
def test_cars_go_as_far_as_the_library_lets_them(steps: int) -> None:
    for item, exercise in enumerate(bench("rush_hour").exercises):
        answer = f"B+{steps} A-{steps} C-{steps} {exercise.oracle.replace('A+1', f'A+{steps}')}"
        assert score("rush_hour", answer, item=item) == library_score("rush_hour", answer, item=item)


@pytest.mark.parametrize(
    "answer", ["0.5", "1/2", "5E-01", "1,000/2,000", " 0.25 ", "1.000e+00", "3/8", "0.", ".5", "-1"]
)
def test_probabilities_in_any_form_get_the_librarys_score(answer: str) -> None:
    assert score("coin_flip", answer) == library_score("coin_flip", answer)


OTHER_SHAPES = ["[]", "[{}]", "{}", '""', "[1]", "null", "1", '{"a": 1}', "[[]]", '[{"a": 1}]', "nonsense", ""]


@pytest.mark.parametrize("answer", OTHER_SHAPES)
def test_plans_of_other_shapes_get_the_librarys_score_or_nothing(answer: str) -> None:
    try:
        expected = library_score("boxnet", answer)
    except Exception:
        expected = 0.0
    assert score("boxnet", answer) == expected


LONG_LIST = "[" + "1, " * 2500 + "1]"
LONG_OBJECT = '{"a": [' + "1, " * 2500 + "1]}"


@pytest.mark.parametrize("oracle", [LONG_LIST, LONG_OBJECT], ids=["list", "object"])
@pytest.mark.parametrize("form", ["{}", " {}\n"])
def test_long_outputs_are_right_when_they_are_right(oracle: str, form: str) -> None:
    entry = {"answer": oracle, "metadata": {}}
    assert verify("codeio", bench("codeio").dataset, form.format(oracle), entry, strict=False) == 1.0


@pytest.mark.parametrize("form", ["{0}{0}", "The output is {}", "{}."])
def test_long_outputs_get_the_librarys_score_where_that_is_not_for_json(form: str) -> None:
    own = bench("codeio")
    entry = {"answer": LONG_LIST, "metadata": {}}
    answer = form.format(LONG_LIST)
    assert verify("codeio", own.dataset, answer, entry, strict=False) == own.dataset.score_answer(answer, entry)


@pytest.mark.parametrize("words", [1, 50, 500])
@pytest.mark.parametrize("said", ['{"a": 1}', '{"a": 2}', '{"a": [1, 2]}', '{"b": "x"}'])
def test_json_after_many_words_gets_the_librarys_score(said: str, words: int) -> None:
    own = bench("codeio")
    entry = {"answer": '{"a": 1}', "metadata": {}}
    answer = "so it goes " * words + said
    assert verify("codeio", own.dataset, answer, entry, strict=False) == own.dataset.score_answer(answer, entry)


MALFORMED = ["", " ", "P\u2227", "(P \u2227", "\u2228Q", "\u00ac", "()", "\u2227", "P)", "(P", "P \u2227 \u2227 Q"]


@pytest.mark.parametrize("answer", MALFORMED)
def test_malformed_formulas_get_the_librarys_score(answer: str) -> None:
    task = "propositional_logic"
    scores = [(score(task, answer, item=item), library_score(task, answer, item=item)) for item in range(ITEMS)]
    assert all(ours == librarys for ours, librarys in scores)


def test_formulas_over_many_other_variables_get_the_floor() -> None:
    assert score("propositional_logic", " \u2228 ".join("abcdefghijkl")) == 0.05
    assert score("propositional_logic", "Z \u2228 \u00acZ") == 0.0


# All at once


@pytest.mark.slow
def test_two_thousand_inputs_find_nothing() -> None:
    command = [sys.executable, "-m", "benchmarks.guard_fuzz", "--inputs", "2000", "--answers", "0", "--seed", "5"]
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=110)
    assert ended.stdout, ended.stderr
    found = json.loads(ended.stdout)
    assert {name: found[name] for name in ("escapes", "tripped", "slow", "out_of_range")} == {
        "escapes": {},
        "tripped": {},
        "slow": {},
        "out_of_range": {},
    }
    assert found["inputs"] == 2000
    assert ended.returncode == 0
