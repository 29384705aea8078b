from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning_env.records import Problem, ProblemSpec, Split
from reasoning_env.reports.probes import (
    ALL_OPTIONS,
    EXAMPLE_KEYS,
    FEW_OPTIONS,
    LISTED,
    LONG_BYTES,
    MOST_FREQUENT,
    NANS,
    NEIGHBOUR,
    ORACLE,
    PERTURBED,
    QUESTION,
    ROLES,
    TRAILED,
    ZEROS,
    Role,
    make_probes,
    perturb,
    reference_answer,
)
from reasoning_env.rewards import extract_answer

INFORMED = {kind for kind, role in ROLES.items() if role in (Role.REFERENCE, Role.GUESS)}


def _problem(answer: str | None, question: str = "What?", metadata: Any = None) -> Problem:
    return Problem(ProblemSpec("gcd", 1, Split.EVAL, 0), question, answer, json.dumps(metadata), b"")


def _probes(*answers: str | None, question: str = "What?") -> list[dict[str, str]]:
    """For each of the answers' problems, its probes by kind."""
    made = make_probes([_problem(answer, question) for answer in answers])
    return [{probe.kind: probe.answer for probe in probes} for probes in made]


# ------------------------------------------------------------------ kinds


def test_every_kind_is_made_for_a_task_that_allows_all() -> None:
    assert set(_probes("3", "4", "3", question="Given:\n1. A fact")[0]) == set(ROLES)


def test_meaningless_kinds_are_made_without_any_oracle_too() -> None:
    kinds = set(_probes(None, None, question="1. A fact")[0])
    assert kinds == set(ROLES) - INFORMED - {ALL_OPTIONS, NEIGHBOUR, NANS, ZEROS}


@pytest.mark.parametrize("kind", ROLES)
def test_role_says_whether_the_answer_rule_lets_a_probe_through(kind: str) -> None:
    probe = _probes("3", "4", "3", question="Given:\n1. A fact " + "of many bytes: Ω " * LONG_BYTES)[0][kind]
    through = extract_answer(f"<answer>{probe}</answer>", LONG_BYTES).answer == probe.strip() != ""
    assert through is (ROLES[kind] is not Role.UNREACHABLE)


@given(st.lists(st.one_of(st.none(), st.sampled_from(["0", "1", "NAN", "[]", " . ", "What?", "", "0 1"]), st.text())))
def test_right_answer_is_never_probed_as_a_meaningless_one(answers: list[str | None]) -> None:
    for answer, probes in zip(answers, _probes(*answers), strict=True):
        meaningless = [text.strip().casefold() for kind, text in probes.items() if kind not in INFORMED]
        assert answer is None or answer.strip().casefold() not in meaningless


# ------------------------------------------------------------------ with knowledge of the answer


@given(st.text())
def test_perturbed_answer_is_another_one(answer: str) -> None:
    assert perturb(answer).casefold() != answer.casefold()


@pytest.mark.parametrize(
    ("answer", "perturbed"),
    [
        ("12", "13"),
        ("[1, 9]", "[1, 0]"),
        ("True", "Truf"),
        ("jazz.", "jaza."),
        ("Z", "A"),
        ("½ ", "½ x"),
        ("", "x"),
    ],
)
def test_perturbing_changes_the_last_digit_or_letter(answer: str, perturbed: str) -> None:
    assert perturb(answer) == perturbed


def test_oracle_is_probed_as_it_is_changed_and_with_more_behind_it() -> None:
    probes = _probes(" 41")[0]
    assert (probes[ORACLE], probes[PERTURBED], probes[TRAILED]) == (" 41", " 42", " 41 qwxz")


@pytest.mark.parametrize("key", EXAMPLE_KEYS)
@pytest.mark.parametrize(("example", "answer"), [("R U F", "R U F"), ({"0": 1}, '{"0": 1}')])
def test_example_in_the_metadata_stands_in_for_the_oracle(key: str, example: object, answer: str) -> None:
    assert reference_answer(_problem(None, metadata={"moves": 3, key: example})) == answer


def test_oracle_goes_before_the_example() -> None:
    assert reference_answer(_problem("7", metadata={EXAMPLE_KEYS[0]: "8"})) == "7"


@pytest.mark.parametrize("metadata", [None, [1], {}, {"moves": 3}])
def test_without_oracle_and_example_there_is_no_reference(metadata: object) -> None:
    assert reference_answer(_problem(None, metadata=metadata)) is None


# ------------------------------------------------------------------ without


def test_neighbour_is_the_next_problem_with_another_answer() -> None:
    assert [probes[NEIGHBOUR] for probes in _probes("a", "b", None, "b", "c")[:2]] == ["b", "c"]
    assert _probes("a", "b", None, "b")[3][NEIGHBOUR] == "a"


def test_problems_that_share_one_answer_have_no_neighbour_and_no_options() -> None:
    for probes in _probes("a", "a", "a"):
        assert not {NEIGHBOUR, ALL_OPTIONS} & set(probes)
        assert probes[MOST_FREQUENT] == "a"


def test_most_frequent_answer_is_probed_on_every_problem() -> None:
    assert [probes[MOST_FREQUENT] for probes in _probes("a", "b", "b")] == ["b"] * 3


def test_answers_that_never_repeat_have_no_most_frequent_one() -> None:
    assert MOST_FREQUENT not in _probes("a", "b")[0]


@pytest.mark.parametrize(("count", "listed"), [(FEW_OPTIONS, "0 1 2 3 4 5 6 7"), (FEW_OPTIONS + 1, None)])
def test_options_are_listed_while_they_are_few(count: int, listed: str | None) -> None:
    answers = [str(number) for number in range(count)]
    assert _probes(*answers, *reversed(answers))[0].get(ALL_OPTIONS) == listed


def test_question_is_cut_at_a_whole_character() -> None:
    echoed = _probes("a", question="  " + "€" * LONG_BYTES)[0][QUESTION]
    assert echoed == "€" * (LONG_BYTES // 3)


@pytest.mark.parametrize(
    ("question", "listed"),
    [
        ("Given:\n1. R ∨ Q\n2. R", "R ∨ Q"),
        ("Given\n.2. R \n", "R"),
        ("(3) A fact", "A fact"),
        ("1.5 apples", None),
        ("1.\n", None),
    ],
)
def test_first_listed_line_is_copied_from_the_question(question: str, listed: str | None) -> None:
    assert _probes("a", question=question)[0].get(LISTED) == listed


@pytest.mark.parametrize(
    ("answer", "nans"),
    [
        ("-1.50", "nan"),
        ("['2', '-3']", "['nan', 'nan']"),
        ("2.5 + 3i", "nan + nani"),
        ("2 days, 03:04", "nan days, nan:nan"),
        ("3 apples", None),
        ("In 1905 he wrote", None),
        ("abc", None),
    ],
)
def test_layout_of_numbers_is_kept_and_that_of_words_is_not_used(answer: str, nans: str | None) -> None:
    probes = _probes(answer)[0]
    assert probes.get(NANS) == nans
    assert probes.get(ZEROS) == (None if nans is None else nans.replace("nan", "0"))
