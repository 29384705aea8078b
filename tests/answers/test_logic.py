"""Parse formulas of propositional logic, and compare truth tables with a separate implementation."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from reasoning_gym.logic.propositional_logic import Expression

from reasoning_env.answers.grammars.logic import (
    AND,
    IFF,
    IMPLIES,
    MAX_CHARACTERS,
    NOT,
    OR,
    Formula,
    are_contradictory,
    concludes,
    parse_formula,
    simple_conclusion,
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
def test_parsed_formulas_have_the_same_truth_values_as_in_the_library(text: str) -> None:
    formula = parse_formula(text)
    assert all(_truth(formula, values) == _library_truth(text, values) for values in ASSIGNMENTS)
    assert variables(formula) == {character for character in text if character in NAMES}


PREMISES = st.lists(FORMULAS, min_size=1, max_size=3)


@given(PREMISES)
def test_contradictory_premises_are_detected(premises: list[str]) -> None:
    fulfilled = any(all(_library_truth(text, values) for text in premises) for values in ASSIGNMENTS)
    assert are_contradictory(premises) is not fulfilled


def _follows(text: str, premises: list[str]) -> bool:
    possible = [values for values in ASSIGNMENTS if all(_library_truth(premise, values) for premise in premises)]
    return all(_library_truth(text, values) for values in possible)


@given(FORMULAS, PREMISES)
def test_accepted_conclusion_needs_several_premises(text: str, premises: list[str]) -> None:
    if concludes(text, premises):
        assert _follows(text, premises)
        assert not any(_follows(text, [premise]) for premise in premises)


@given(LITERALS, LITERALS, PREMISES)
def test_logically_equivalent_conclusions_get_the_same_verdict(one: str, other: str, premises: list[str]) -> None:
    alternative = f"{one} {OR} {other}"
    undecided = not _follows(one, premises) and not _follows(other, premises)
    for text in (one, alternative) if undecided else (one,):
        beyond = _follows(text, premises) and not any(_follows(text, [premise]) for premise in premises)
        assert concludes(text, premises) is beyond
    equivalents = (f"{NOT}({one}) {IMPLIES} {other}", f"{NOT}({NOT}({one}) {AND} {NOT}({other}))")
    assert {concludes(text, premises) for text in equivalents} == {concludes(alternative, premises)}


@given(st.lists(FORMULAS, min_size=2, max_size=3))
def test_conjunction_of_premises_is_not_accepted_as_a_conclusion(premises: list[str]) -> None:
    assume(not are_contradictory(premises))
    first, *_, last = whole = [f"({premise})" for premise in premises]
    joined = f" {AND} ".join(whole)
    for text in (joined, f"{first} {IFF} {last}", f"{NOT}({first} {IMPLIES} {NOT}{last})", f"{joined} {OR} T"):
        assert not concludes(text, premises)


@pytest.mark.parametrize(
    ("answer", "premises", "expected"),
    [
        ("Q", ["P", f"P{IMPLIES}Q"], True),
        (f"P{AND}Q", ["P", f"P{IMPLIES}Q"], True),
        (f"P{IMPLIES}R", [f"P{IMPLIES}Q", f"Q{IMPLIES}R"], True),
        (f"(P{IMPLIES}R){AND}(P{IMPLIES}Q)", [f"P{IMPLIES}Q", f"Q{IMPLIES}R"], True),
        (f"P{OR}Q", ["P", f"P{IMPLIES}Q"], False),
        (f"P{IMPLIES}(Q{OR}R)", [f"P{IMPLIES}Q", "S"], False),
        (f"(P{IMPLIES}Q){OR}R", [f"P{IMPLIES}Q", "S"], False),
        (f"(P{AND}S){OR}(Q{AND}S)", [f"P{OR}Q", "S"], False),
        (f"P{IFF}(P{AND}(Q{OR}R){AND}(Q{OR}S))", [f"Q{OR}R", f"Q{OR}S"], False),
        (f"((Q{OR}R){IMPLIES}P){IMPLIES}((Q{OR}S){AND}P)", [f"Q{OR}R", f"Q{OR}S"], False),
        (f"P{IFF}{NOT}Q", [f"{NOT}P{IFF}Q", "P"], False),
        (f"P{IMPLIES}R", ["P", f"P{IMPLIES}Q", f"Q{IMPLIES}R"], True),
    ],
)
def test_each_example_conclusion_is_accepted_or_rejected_as_listed(
    answer: str, premises: list[str], expected: bool
) -> None:
    assert concludes(answer, premises) is expected


@pytest.mark.parametrize(
    ("premises", "conclusion"),
    [
        (["P", "Q"], None),
        (["P", f"P {IMPLIES} Q"], "Q"),
        ([f"P {IMPLIES} Q", f"{NOT}Q"], f"{NOT}P"),
        ([f"P {IMPLIES} Q", f"Q {IMPLIES} R"], f"(P {IMPLIES} R)"),
    ],
)
def test_simple_conclusion_is_derived_from_premises(premises: list[str], conclusion: str | None) -> None:
    assert simple_conclusion(premises, ["P", "Q", "R"]) == conclusion


NO_FORMULAS = ("", " ", "()", "(", ")", "P)", f"P{AND}", f"{OR}Q", NOT, f"P{AND}{OR}Q", "(P)(Q)")


def test_string_that_is_no_formula_raises() -> None:
    for text in NO_FORMULAS:
        with pytest.raises(ValueError, match="formula"):
            parse_formula(text)


def test_any_string_between_logical_operators_is_parsed_as_a_variable() -> None:
    texts = ("P", f"{NOT}(P{AND}foo)", f"<a>{OR}Q", f"P\n{AND} Q")
    assert [variables(parse_formula(text)) for text in texts] == [{"P"}, {"P", "foo"}, {"<a>", "Q"}, {"P", "Q"}]


@pytest.mark.parametrize("text", ["P P", "P  Q", "(P)(Q)", "(P) Q", "P\u00a0Q", "P(Q)"])
def test_adjacent_names_without_an_operator_are_not_read_as_two_variables(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert not variables(parse_formula(text)) <= {"P", "Q"}


LONGEST = ["(" * 300, "(" * 150 + ")" * 150, "(" * 149 + "PQ" + ")" * 149, NOT * 299 + "P"]
LONGEST += [f"P{AND}" * 149 + "P", f"P{IMPLIES}" * 149 + "P", f"(P{OR}" * 74 + "P" + ")" * 74, AND * 300]
LONGEST += [f"{NOT}(" * 99 + "P" + ")" * 99, f"{NOT}(P{AND}" * 59 + "P" + ")" * 59]
NEAR = st.text(alphabet=f"PQR() {AND}{OR}{NOT}{IMPLIES}{IFF}", max_size=60)


@settings(max_examples=50)
@given(st.text(max_size=200) | NEAR)
def test_fuzzed_text_does_not_crash_the_logic_check(text: str) -> None:
    with contextlib.suppress(ValueError):
        concludes(text, [f"P{AND}Q", "R"])


def test_longest_formulas_do_not_crash_the_logic_check() -> None:
    assert max(map(len, LONGEST)) <= MAX_CHARACTERS
    for text in LONGEST:
        with contextlib.suppress(ValueError):
            concludes(text, [f"P{AND}Q", "R"])


@pytest.mark.parametrize("premises", [["P", "Q"], [f"{NOT}P", f"{NOT}Q"]])
def test_premises_that_are_true_together_are_not_contradictory(premises: list[str]) -> None:
    assert not are_contradictory(premises)
