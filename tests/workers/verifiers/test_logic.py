"""Formulas: read as the library reads them, and compared by truth tables that are made here another way."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reasoning_gym.logic.propositional_logic import Expression

from reasoning_env.verifiers.grammars.logic import (
    AND,
    IFF,
    IMPLIES,
    MAX_CHARACTERS,
    NOT,
    OR,
    Formula,
    are_contradictory,
    parse,
    restates,
    variables,
)

NAMES = "PQRS"
BINARY: Mapping[str, Callable[[bool, bool], bool]] = {
    AND: lambda left, right: left and right,
    OR: lambda left, right: left or right,
    IMPLIES: lambda left, right: not left or right,
    IFF: lambda left, right: left == right,
}
BLANKS = st.sampled_from(["", " ", "  "])


def _grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    joined = st.tuples(inner, BLANKS, st.sampled_from(sorted(BINARY)), BLANKS, inner).map("".join)
    return joined | inner.map(lambda text: f"({text})") | inner.map(lambda text: f"{NOT}({text})")


FORMULAS = st.recursive(
    st.sampled_from(NAMES) | st.sampled_from(NAMES).map(lambda name: NOT + name), _grow, max_leaves=6
)
ASSIGNMENTS = [dict(zip(NAMES, values, strict=True)) for values in itertools.product([False, True], repeat=len(NAMES))]


def _truth(formula: Formula, values: Mapping[str, bool]) -> bool:
    if isinstance(formula, str):
        return values[formula.removeprefix(NOT)] != formula.startswith(NOT)
    operator, left, right = formula
    return BINARY[str(operator)](_truth(left, values), _truth(right, values))


def _library_truth(text: str, values: Mapping[str, bool]) -> bool:
    tree: Any = Expression.from_string(text)
    return bool(tree.evaluate(values))


@given(FORMULAS)
@settings(max_examples=200, deadline=None)
def test_a_formula_means_what_the_library_takes_it_for(text: str) -> None:
    formula = parse(text)
    assert all(_truth(formula, values) == _library_truth(text, values) for values in ASSIGNMENTS)


@given(st.lists(FORMULAS, min_size=1, max_size=3))
@settings(max_examples=150, deadline=None)
def test_premises_contradict_each_other_when_no_assignment_fulfils_them(premises: list[str]) -> None:
    fulfilled = any(all(_library_truth(text, values) for text in premises) for values in ASSIGNMENTS)
    assert are_contradictory(premises) is not fulfilled


@given(FORMULAS)
@settings(max_examples=100, deadline=None)
def test_variables_are_those_of_the_formula(text: str) -> None:
    assert variables(text) == {character for character in text if character in NAMES}


@given(FORMULAS)
@settings(max_examples=100, deadline=None)
def test_a_premise_again_is_a_premise_again(text: str) -> None:
    assert restates(text, [text])
    assert restates(f"{NOT}{NOT}({text})", [text])
    assert restates(f" ( {text} ) ", [text])
    assert restates(f"({text}) {AND} ({text})", [text])


@pytest.mark.parametrize("premise", [f"P{AND}Q", f"P{OR}{NOT}Q", f"P{IMPLIES}Q", f"P{IFF}Q", f"P{OR}Q{AND}R"])
@pytest.mark.parametrize("other", ["S", f"{NOT}S", f"S{AND}T", f"T{IMPLIES}S"])
def test_a_compound_premise_with_something_irrelevant_is_a_premise_again(premise: str, other: str) -> None:
    assert restates(f"({premise}) {OR} ({other})", [premise])
    assert restates(f"({other}) {OR} ({premise})", [premise])
    assert restates(f"({other}) {IMPLIES} ({premise})", [premise])


@pytest.mark.parametrize(
    ("answer", "premises"),
    [
        (f"P{OR}Q", [f"Q{OR}P"]),
        (f"P{AND}Q", [f"Q {AND} P"]),
        (f"P{IFF}Q", [f"(Q{IFF}P)"]),
        (f"(P{AND}Q){AND}(R{OR}S)", [f"P{AND}Q", f"R{OR}S"]),
    ],
)
def test_restates(answer: str, premises: list[str]) -> None:
    assert restates(answer, premises)


@pytest.mark.parametrize(
    ("answer", "premises"),
    [
        ("Q", ["P", f"P{IMPLIES}Q"]),
        (f"Q{IMPLIES}P", [f"P{IMPLIES}Q"]),
        (f"P{AND}Q", ["P", "Q"]),
        (f"P{OR}Q", ["P"]),
        (f"{NOT}P", [f"{NOT}{NOT}P"]),
        (f"(P{AND}Q){IMPLIES}R", [f"P{AND}Q"]),
        (f"(P{AND}Q){AND}R", [f"P{AND}Q"]),
    ],
)
def test_does_not_restate(answer: str, premises: list[str]) -> None:
    assert not restates(answer, premises)


@pytest.mark.parametrize("text", ["", " ", "()", "(", ")", "P)", f"P{AND}", f"{OR}Q", NOT, f"P{AND}{OR}Q", "(P)(Q)"])
def test_is_no_formula(text: str) -> None:
    with pytest.raises(ValueError, match=r"formula|parentheses"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("P", {"P"}), (f"{NOT}(P{AND}foo)", {"P", "foo"}), (f"<a>{OR}Q", {"<a>", "Q"}), (f"P\n{AND} Q", {"P", "Q"})],
)
def test_all_that_stands_between_operators_is_a_variable(text: str, expected: set[str]) -> None:
    assert variables(text) == expected


@pytest.mark.parametrize("text", ["P P", "P  Q", "(P)(Q)", "(P) Q", "P\u00a0Q", "P(Q)"])
def test_names_side_by_side_are_not_the_questions_variables(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert not variables(text) <= {"P", "Q"}


NEAR = st.text(alphabet=f"PQR() {AND}{OR}{NOT}{IMPLIES}{IFF}", max_size=60)


@given(st.text(max_size=200) | NEAR)
@settings(max_examples=300, deadline=None)
def test_any_text_is_a_formula_or_a_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        variables(text)
        restates(text, [f"P{AND}Q", "R"])


@pytest.mark.parametrize(
    "text",
    [
        "(" * MAX_CHARACTERS,
        "(" * (MAX_CHARACTERS // 2) + ")" * (MAX_CHARACTERS // 2),
        "(" * 299 + "PQ" + ")" * 299,
        NOT * (MAX_CHARACTERS - 1) + "P",
        f"{NOT}(" * 199 + "P" + ")" * 199,
        f"P{AND}" * 299 + "P",
        f"P{IMPLIES}" * 299 + "P",
        f"(P{OR}" * 149 + "P" + ")" * 149,
        AND * MAX_CHARACTERS,
    ],
)
def test_texts_of_the_greatest_length_are_read_at_once(text: str) -> None:
    started = time.process_time()
    with contextlib.suppress(ValueError):
        restates(text, [f"P{AND}Q", "R"])
    assert time.process_time() - started < 0.5
