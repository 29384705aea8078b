"""Guards replace library verifiers that hostile answers would crash, overload or deceive.

`benchmarks/guard_fuzz.py` shows that honest answers and ordinary wrong answers get the library's score.
"""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from traceback import walk_tb
from typing import Any

import pytest
import reasoning_gym

from reasoning_env.answers import guards
from reasoning_env.answers.scoring import Scorer
from reasoning_env.tasks import TASKS
from tests.workers.hostile import burdens

SEED = 4242
GUARDS = sorted(task.name for task in TASKS.values() if task.answer.guard is not None)


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in a temporary folder, because some of the library's generators write files."""
    monkeypatch.chdir(tmp_path)


@cache
def _problem(task: str) -> tuple[Any, bytes]:
    """Return a dataset and its first entry as bytes, because verifiers may modify the entry."""
    params = {"max_moves": 8} if task == "rush_hour" else {}
    dataset = reasoning_gym.create_dataset(task, seed=SEED, size=1, **params)
    return dataset, pickle.dumps(dataset[0])


def score(task: str, said: str, *, strict: bool = False, **changes: Any) -> float:
    dataset, entry = _problem(task)
    changed = pickle.dumps({**pickle.loads(entry), **changes})
    return Scorer(TASKS[task].answer, dataset, changed, strict=strict, accepts_forms=strict, with_tags=False).score(
        said
    )


def library_score(task: str, said: str, **changes: Any) -> float:
    dataset, entry = _problem(task)
    return float(dataset.score_answer(said, {**pickle.loads(entry), **changes}))


@contextlib.contextmanager
def library_errors_only() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        modules = [frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__)]
        if isinstance(error, MemoryError) or not any(name.startswith("reasoning_gym.") for name in modules):
            raise


# ------------------------------------------------------------------ overload and code


CALCULATED = [task for task in GUARDS if TASKS[task].answer.library_score is not None]
"""Tasks whose plain scores come from the library's own verifier, which needs a deadline."""


@pytest.mark.parametrize(
    ("task", "strict"),
    [
        *((task, task in CALCULATED) for task in GUARDS),
        *(pytest.param(task, True, marks=pytest.mark.slow) for task in GUARDS if task not in CALCULATED),
    ],
)
def test_verifiers_with_parsing_limits_never_hang_on_hostile_answers(task: str, strict: bool) -> None:
    """These answers would make the library's verifier hang, or exhaust its memory or stack."""
    entry = pickle.loads(_problem(task)[1])
    for text in burdens(task, entry["metadata"], str(entry["answer"])):
        with library_errors_only():
            assert 0.0 <= score(task, text, strict=strict) <= 1.0


SNIPPETS = [
    "__import__('os').mkdir('made')",
    "open('made', 'w')",
    "exec(\"open('made', 'w')\")",
    "print(open('made', 'w'))",
    "[open('made', 'w') for _ in [1]]",
    "(lambda: open('made', 'w'))()",
    "().__class__.__base__.__subclasses__()",
    "f\"{open('made', 'w')}\"",
    "x if open('made', 'w') else x",
]


@pytest.mark.parametrize("task", GUARDS)
def test_verifiers_with_parsing_limits_never_execute_code_in_answers(task: str, tmp_path: Path) -> None:
    oracle = pickle.loads(_problem(task)[1])["answer"] or "x"
    for snippet in SNIPPETS:
        for form in ("{1}", "{0} + {1}", "[{1}]", "{1} or {0}", "{0}\n{1}"):
            for strict in (False, True):
                with library_errors_only():
                    score(task, form.format(oracle, snippet), strict=strict)
    assert not (tmp_path / "made").exists()


# ------------------------------------------------------------------ limits that change no score


@pytest.mark.parametrize(
    ("task", "answers"),
    [
        ("rubiks_cube", [f"{move}{n} D {move}{n}" for move in ("R", "U'", "L'") for n in (*range(10), 40, 41)]),
        ("coin_flip", ["0.5", "1/2", "5E-01", "1,000/2,000", " 0.25 ", "1.000e+00", "3/8", "0.", ".5", "-1"]),
        ("propositional_logic", ["P\u2227", "(P \u2227", "\u2228Q", "\u00ac", "()", "\u2227", "P)", "(P"]),
        ("boxnet", ["[]", "[{}]", "{}", '""']),
    ],
)  # fmt: skip
def test_verifiers_with_parsing_limits_return_the_library_scores(task: str, answers: list[str]) -> None:
    assert [score(task, answer) for answer in answers] == [library_score(task, answer) for answer in answers]


@pytest.mark.parametrize("answer", ["[1]", "null", "1", '{"a": 1}', "[[]]", '[{"a": 1}]', "nonsense", ""])
def test_malformed_boxnet_plan_scores_zero(answer: str) -> None:
    assert score("boxnet", answer) == 0.0


LONG_LIST = "[" + "1, " * 2500 + "1]"
LONG_OBJECT = '{"a": [' + "1, " * 2500 + "1]}"
NEAR_OBJECTS = [f"{'so it goes ' * count}{said}" for count in (1, 500) for said in ('{"a": 1}', '{"a": [2]}')]


@pytest.mark.parametrize(
    ("oracle", "answers"),
    [
        (LONG_LIST, [LONG_LIST, f" {LONG_LIST}\n", LONG_LIST * 2, f"The output is {LONG_LIST}", f"{LONG_LIST}."]),
        (LONG_OBJECT, [LONG_OBJECT, f" {LONG_OBJECT}\n", f" it is {LONG_OBJECT.replace(', ', ',')}\n\n"]),
        ('{"a": 1}', NEAR_OBJECTS),
    ],
    ids=["long list", "long object", "near objects"],
)  # fmt: skip
def test_long_answers_to_codeio_problems_get_the_library_score(oracle: str, answers: list[str]) -> None:
    scores = [score("codeio", answer, answer=oracle) for answer in answers]
    assert scores == [library_score("codeio", answer, answer=oracle) for answer in answers]


def test_rubiks_cube_answer_with_more_than_2000_moves_is_wrong() -> None:
    _, entry = _problem("rubiks_cube")
    solution = pickle.loads(entry)["metadata"]["example_correct_answer"]
    padding = 2000 - len(solution.split())
    assert score("rubiks_cube", f"{solution} {'R4 ' * padding}") == 1.0
    assert score("rubiks_cube", f"{solution} {'R4 ' * (padding + 1)}") == 0.01


def test_propositional_logic_answer_with_12_variables_gets_a_score_of_0_05() -> None:
    assert score("propositional_logic", " \u2228 ".join("abcdefghijkl")) == 0.05
    assert score("propositional_logic", "Z \u2228 \u00acZ") == 0.0


@pytest.mark.parametrize(
    ("steps", "score"),
    [
        ("4*x**2/2 + C = 2*x**2 + C", 1.0),
        ("2*x**2 = 2*x**2 + C", 1.0),
        ("4*x + C = 2*x**2 + C", 0.0),
        ("2*x**2 + C = 4*x**2 + C", 0.0),
        ("2*x**2 =", 0.0),
        ("2*x**2 == 2*x**2", 0.0),
    ],
)
def test_antiderivative_with_a_wrong_intermediate_step_scores_zero(steps: str, score: float) -> None:
    dataset: Any = None
    assert guards.score_integration(steps, {"metadata": {"integrand": "4*x", "variable": "x"}}, dataset) == score
