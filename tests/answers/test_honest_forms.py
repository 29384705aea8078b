"""Right answers to every task earn full marks in the forms in which honest models write them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import pytest

from .form_scores import (
    TASKS,
    Answered,
    Measured,
    answered_problems,
    measure,
    total,
    two_answers_paid,
    wrong_forms_paid,
)
from .honest_forms import KINDS, FormClass, kind_of

SEED = 91_000
COUNT = 2
LIMITS: Mapping[FormClass, float] = {FormClass.CORE: 0.01, FormClass.DECORATION: 0.05}
"""The largest share of the pairs of task and form that may be refused, by class."""
OTHER_VALUE = "the question asks for a value of JSON, and this is another one"
REFUSED: Mapping[tuple[str, str], str] = {
    ("boxnet", "a hyphen as list mark"): "a hyphen before text with parentheses may be the sign of a function",
    ("codeio", "JSON with newlines as they are"): OTHER_VALUE,
    ("codeio", "an object of JSON"): OTHER_VALUE,
    ("codeio", "an object of JSON in a fence"): OTHER_VALUE,
    ("codeio", "an object of Python"): OTHER_VALUE,
    ("codeio", "full-width digits"): OTHER_VALUE,
}
"""Forms that are refused, by task and form, with the reason."""


@cache
def _problems(task: str) -> list[Answered]:
    return answered_problems(task, SEED, COUNT)


@cache
def _measured(task: str) -> Measured:
    return measure(task, _problems(task)[:1])


@pytest.mark.parametrize("task", TASKS)
def test_right_answers_paid(task: str) -> None:
    assert _measured(task).pairs[FormClass.CORE] > 20
    refused = {refusal.form: refusal.text for refusal in _measured(task).refusals}
    assert {form: text for form, text in refused.items() if (task, form) not in REFUSED} == {}


@pytest.mark.parametrize("form_class", FormClass)
def test_share_refused(form_class: FormClass) -> None:
    measured = total(map(_measured, TASKS))
    assert measured.pairs[form_class] > 4000
    assert measured.share_refused(form_class) <= LIMITS[form_class]


@pytest.mark.parametrize("task", TASKS)
def test_wrong_answers_unpaid(task: str) -> None:
    assert wrong_forms_paid(task, _problems(task)[:1], every=6) == {}


@pytest.mark.parametrize("task", TASKS)
def test_two_answers_unpaid(task: str) -> None:
    assert two_answers_paid(task, _problems(task)) == {}


@pytest.mark.parametrize(("task", "form"), sorted(REFUSED))
def test_refusals_in_table(task: str, form: str) -> None:
    assert form in {refusal.form for refusal in _measured(task).refusals}


def test_every_task_has_kind() -> None:
    assert sorted(" ".join(tasks for _, tasks in KINDS.values()).split()) == TASKS
    assert kind_of("gcd") == "number"
