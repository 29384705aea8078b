"""Formulas: read as the library reads them, and compared by truth tables that are made here another way."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
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
    parse_formula,
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


LITERALS = st.sampled_from([*NAMES, *(NOT + name for name in NAMES)])
FORMULAS = st.recursive(LITERALS, _grow, max_leaves=6)
ASSIGNMENTS = [dict(zip(NAMES, values, strict=True)) for values in itertools.product([False, True], repeat=len(NAMES))]


def _truth(formula: Formula, values: Mapping[str, bool]) -> bool:
    if isinstance(formula, str):
        return values[formula]
    operator, *operands = formula
    truths = [_truth(operand, values) for operand in operands]
    return not truths[0] if operator == NOT else BINARY[str(operator)](*truths)


def _library_truth(text: str, values: Mapping[str, bool]) -> bool:
    tree: Any = Expression.from_string(text)
    return bool(tree.evaluate(values))


@given(FORMULAS)
def test_formula_means_what_the_library_takes_it_for(text: str) -> None:
    formula = parse_formula(text)
    assert all(_truth(formula, values) == _library_truth(text, values) for values in ASSIGNMENTS)
    assert variables(formula) == {character for character in text if character in NAMES}


@given(st.lists(FORMULAS, min_size=1, max_size=3))
def test_premises_contradict_each_other_when_no_assignment_fulfils_them(premises: list[str]) -> None:
    fulfilled = any(all(_library_truth(text, values) for text in premises) for values in ASSIGNMENTS)
    assert are_contradictory(premises) is not fulfilled


@given(FORMULAS)
def test_premise_in_other_words_is_that_premise(text: str) -> None:
    for form in ("{}", f"{NOT}{NOT}({{}})", " ( {} ) ", f"({{0}}) {AND} ({{0}})", f"{NOT}({{0}}) {IMPLIES} ({{0}})"):
        assert restates(form.format(text), [text])


TAUTOLOGY, CONTRADICTION = f"(T {OR} {NOT}T)", f"(T {AND} {NOT}T)"


@pytest.mark.parametrize("premise", [f"P{AND}Q", f"P{OR}{NOT}Q", f"P{IMPLIES}Q", f"P{IFF}Q", f"P{OR}Q{AND}R"])
@pytest.mark.parametrize("other", ["S", f"{NOT}S", f"S{AND}T", f"T{IMPLIES}S"])
@pytest.mark.parametrize(
    "form",
    [
        f"({{0}}) {OR} ({{1}})",
        f"({{1}}) {IMPLIES} ({{0}})",
        f"{NOT}({NOT}({{0}}) {AND} ({{1}}))",
        f"(({{0}}) {OR} ({{1}})) {AND} {TAUTOLOGY}",
        f"(({{0}}) {OR} ({{1}})) {IFF} {TAUTOLOGY}",
        f"{NOT}(({{0}}) {OR} ({{1}})) {IFF} {CONTRADICTION}",
    ],
)
def test_compound_premise_with_something_irrelevant_restates_it(premise: str, other: str, form: str) -> None:
    assert restates(form.format(premise, other), [premise])


@pytest.mark.parametrize(
    ("answer", "premises", "expected"),
    [
        (f"P{OR}Q", [f"Q{OR}P"], True),
        (f"P{IFF}Q", [f"(Q{IFF}P)"], True),
        (f"(P{AND}Q){AND}(R{OR}S)", [f"P{AND}Q", f"R{OR}S"], True),
        (f"(P{OR}Q){AND}R", [f"P{OR}Q", "R"], True),
        (f"{NOT}P", [f"{NOT}{NOT}P"], False),
        ("Q", ["P", f"P{IMPLIES}Q"], False),
        (f"Q{IMPLIES}P", [f"P{IMPLIES}Q"], False),
        (f"P{AND}Q", ["P", "Q"], False),
        (f"P{OR}Q", ["P"], False),
        (f"(P{AND}P){OR}Q", ["P"], False),
        (f"(P{AND}Q){IMPLIES}R", [f"P{AND}Q"], False),
        (f"(P{AND}Q){AND}R", [f"P{AND}Q"], False),
    ],
)
def test_conclusion_restates_a_premise(answer: str, premises: list[str], expected: bool) -> None:
    assert restates(answer, premises) is expected


@pytest.mark.parametrize("text", ["", " ", "()", "(", ")", "P)", f"P{AND}", f"{OR}Q", NOT, f"P{AND}{OR}Q", "(P)(Q)"])
def test_is_no_formula(text: str) -> None:
    with pytest.raises(ValueError, match="formula"):
        parse_formula(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("P", {"P"}), (f"{NOT}(P{AND}foo)", {"P", "foo"}), (f"<a>{OR}Q", {"<a>", "Q"}), (f"P\n{AND} Q", {"P", "Q"})],
)
def test_all_that_stands_between_operators_is_a_variable(text: str, expected: set[str]) -> None:
    assert variables(parse_formula(text)) == expected


@pytest.mark.parametrize("text", ["P P", "P  Q", "(P)(Q)", "(P) Q", "P\u00a0Q", "P(Q)"])
def test_names_side_by_side_are_not_the_questions_variables(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert not variables(parse_formula(text)) <= {"P", "Q"}


LONGEST = [
    "(" * 300,
    "(" * 150 + ")" * 150,
    "(" * 149 + "PQ" + ")" * 149,
    NOT * 299 + "P",
    f"{NOT}(" * 99 + "P" + ")" * 99,
]
LONGEST += [f"P{AND}" * 149 + "P", f"P{IMPLIES}" * 149 + "P", f"(P{OR}" * 74 + "P" + ")" * 74, AND * 300]
LONGEST += [f"{NOT}(P{AND}" * 59 + "P" + ")" * 59]
NEAR = st.text(alphabet=f"PQR() {AND}{OR}{NOT}{IMPLIES}{IFF}", max_size=60)


def _read(text: str) -> None:
    with contextlib.suppress(ValueError):
        restates(text, [f"P{AND}Q", "R"])


@given(st.text(max_size=200) | NEAR)
def test_any_text_is_a_formula_or_a_value_error(text: str) -> None:
    _read(text)


@pytest.mark.parametrize("text", LONGEST, ids=lambda text: text[:12])
def test_longest_texts_are_formulas_or_value_errors(text: str) -> None:
    assert len(text) <= MAX_CHARACTERS
    _read(text)
