"""Make probes: answers that are known to be right or wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning_audit.probes import (
    LONG_BYTES,
    WRONG_PROBES,
    Probe,
    hedges,
    make_probes,
    perturb,
    wrong_answers,
)
from reasoning_env.records import Problem
from reasoning_env.rewards import extract_answer
from tests.records import make_spec, problem_of


def _problem(answer: str | None, question: str = "What?", metadata: Any = None) -> Problem:
    return problem_of(make_spec("gcd"), question, answer, json.dumps(metadata))


def _probes(*answers: str | None, question: str = "What?") -> list[dict[str, str]]:
    return make_probes([_problem(answer, question) for answer in answers])


# ------------------------------------------------------------------ probes


def test_answers_that_the_audit_submits_are_extracted_unchanged() -> None:
    probes = _probes("3", "4", "3", question="Given:\n1. A fact " + "of many bytes: Ω " * LONG_BYTES)[0]
    stated = {kind for kind, probe in probes.items() if probe.strip()}
    assert stated == probes.keys() - {Probe.BLANK}
    for kind in stated:
        assert extract_answer(f"<answer>{probes[kind]}</answer>", LONG_BYTES).answer == probes[kind].strip(), kind


def test_no_probe_is_made_from_a_missing_reference_answer() -> None:
    probes = _probes(None, None, question="Sort: [3, 1]")[0]
    assert not {Probe.ORACLE, Probe.PERTURBED, Probe.NEIGHBOUR, Probe.ALL_OPTIONS} & set(probes)
    assert {"[3, 1]", "3", "1", "Sort: [3, 1]"} <= set(probes.values())


@given(st.text())
def test_perturb_function_returns_a_different_answer(answer: str) -> None:
    assert perturb(answer).casefold() != answer.casefold()


@pytest.mark.parametrize(
    ("answer", "perturbed"),
    [
        *[("12", "13"), ("[1, 9]", "[1, 0]"), ("True", "Truf"), ("jazz.", "jaza."), ("Z", "A")],
        *[("½ ", "½ x"), ("", "x")],
    ],
)
def test_perturb_function_changes_the_last_letter_or_digit(answer: str, perturbed: str) -> None:
    assert perturb(answer) == perturbed


def test_audit_submits_the_reference_answer_and_a_slightly_changed_answer() -> None:
    probes = _probes(" 41")[0]
    assert (probes[Probe.ORACLE], probes[Probe.PERTURBED]) == (" 41", " 42")


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        ("1234", ["-1234", "1334", "12"]),
        ("-790", ["790", "-780", "-7"]),
        ("3.25", ["-3.25"]),
        ("12", ["-12"]),
        ("[10, 20, 30]", ["[10, 20]"]),
        ('["a", "b"]', ['["a"]']),
        ("yes", ["yqwxz"]),
        *[(answer, []) for answer in ("0", "A", "a cat", "[[1, 2], [3, 4]]", "[7]", "[]", "1 2", "²³⁴")],
    ],
)
def test_wrong_answers_are_derived_from_the_reference_answer(answer: str, wrong: list[str]) -> None:
    assert [*wrong_answers(answer).values()] == wrong


def test_no_wrong_answers_are_derived_if_only_an_example_answer_is_known() -> None:
    probes = make_probes([_problem(None, metadata={"example_answer": "1234"})])[0]
    assert probes[Probe.ORACLE] == "1234"
    assert not {*WRONG_PROBES} & {*probes}


def test_hedging_answers_of_the_audit_contain_two_answers() -> None:
    assert [*hedges("41", "7", "").values()] == ["41 or 7", "7 or 41"]
    assert [*hedges("41", "7", "} \\boxed{").values()][2:] == ["41} \\boxed{7", "7} \\boxed{41"]


def test_hedging_answer_joins_the_right_answer_and_a_different_answer() -> None:
    hedged = [probes[Probe.OR_ANOTHER] for probes in _probes("yes", "Yes", "no")]
    assert hedged == ["yes or no", "Yes or no", "no or yes"]
    assert _probes("41")[0][Probe.OR_ANOTHER] == "41 or 42"


def test_audit_submits_an_answer_that_is_right_for_a_different_problem() -> None:
    assert [probes.get(Probe.NEIGHBOUR) for probes in _probes("a", "b", None, "b")] == ["b", "b", None, "a"]


def test_cutting_a_long_question_splits_no_multibyte_character() -> None:
    echoed = _probes("a", question="  " + "€" * LONG_BYTES)[0][Probe.QUESTION]
    assert echoed == "€" * (LONG_BYTES // 3)
