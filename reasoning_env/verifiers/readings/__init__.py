"""Read an answer as the verifier expects: without decoration, and in the form of the expected answer.

A reading has the content of the answer. Nothing is searched for: only decoration of the whole answer is taken off, and
text beside the answer still counts against the answer. An answer gets the form of the expected answer only if both have
the same content; a notation that the verifier reads on its own (such as `7/32`) may have any content.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from ...library_facts import FACTS, READ_AS_VALUES, AnswerForm
from ..decoration import undecorated
from ..entries import Entry
from .boards import as_board, as_single_cell
from .numbers import (
    DAYS_BEFORE_CLOCK,
    NAME_OF_VALUE,
    NUMBER,
    ROUNDED,
    as_complex,
    as_digits,
    as_expression,
    as_factors,
    as_number,
    as_point,
    fraction_parts,
    has_negative_nought,
    names_other_variable,
    reduced_side,
)
from .sequences import (
    JSON_WORDS,
    as_claims,
    as_json,
    as_json_string,
    as_letter_values,
    as_sequence,
    as_solutions,
    in_case_of,
    is_same_list,
)

__all__ = ["expected_forms", "has_negative_nought", "readings"]


def readings(answer: str, task: str, entry: Entry) -> Iterator[str]:
    """Yield the readings of an answer: with one decoration less each time, and each also in the expected form.

    Readings may come twice. All take linear time together.
    """
    strip_full_stop = not _ends_in_full_stop(task, entry)
    for said in undecorated(answer, strip_full_stop=strip_full_stop):
        if names_other_variable(said, str(entry["question"])):
            return
        yield said
        yield from expected_forms(said, task, entry)
        if FACTS.get(task, READ_AS_VALUES).is_json and _is_json(said):
            return  # what looks like decoration is the value's own


def _is_json(text: str) -> bool:
    """Tell whether a text is a value of JSON, or a list or an object in another notation."""
    if text[:1] in ("[", "{") and text[-1:] in ("]", "}") and not text.startswith("{\\"):
        return True
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _ends_in_full_stop(task: str, entry: Entry) -> bool:
    """Tell whether right answers to an entry may end in a full stop of their own."""
    return FACTS.get(task, READ_AS_VALUES).ends_in_full_stop or str(entry.get("answer")).endswith(".")


def expected_forms(said: str, task: str, entry: Entry) -> Iterator[str]:
    """Yield an answer in the form of the expected answer; nothing for an answer of another kind.

    A number of the same value, a list with the same elements, and a fraction or an option in another spelling become
    the expected answer. The cells of a board and the elements of a sequence, right or wrong, are put into the expected
    layout. A list or dictionary in Python's notation becomes JSON.
    """
    row = FACTS.get(task, READ_AS_VALUES)
    forms: tuple[str | None, ...]
    if has_negative_nought(said, task) and not has_negative_nought(str(entry.get("answer")), task):
        return
    question = str(entry["question"]) if row.words_are_units else ""
    match row.reads_as:
        case AnswerForm.EXACT:
            forms = ()
        case AnswerForm.EXPRESSION:
            forms = (as_expression(said),)
        case AnswerForm.FACTORS:
            forms = (as_factors(said),)
        case AnswerForm.DURATION:
            forms = (DAYS_BEFORE_CLOCK.sub("days, ", said.casefold()),)
        case AnswerForm.CLAIMS:
            forms = (as_claims(said),)
        case AnswerForm.LETTER_VALUES:
            forms = (as_letter_values(said),)
        case AnswerForm.SOLUTIONS:
            forms = (as_solutions(said),)
        case AnswerForm.DIGITS:
            forms = (as_digits(said, str(entry["answer"]), question),)
        case AnswerForm.COMPLEX:
            forms = (as_complex(said),)
        case _:
            forms = _values(said, task, entry, question)
    for form in forms:
        if form is not None:
            yield form


def _values(said: str, task: str, entry: Entry, question: str) -> tuple[str | None, ...]:
    reads_as, separator = FACTS.get(task, READ_AS_VALUES).reads_as, FACTS.get(task, READ_AS_VALUES).word_separator
    right = str(entry.get("answer"))
    if FACTS.get(task, READ_AS_VALUES).may_be_rounded and ROUNDED.search(said):
        said = NAME_OF_VALUE.sub("", ROUNDED.sub("=", said))
    if reads_as is AnswerForm.OPTION and said.casefold() == right.casefold():
        return (right,)
    if separator:
        sequence = as_sequence(said, separator)
        if sequence is None:
            return ()
        if FACTS.get(task, READ_AS_VALUES).case_counts:
            return (sequence,)
        return (sequence, sequence.casefold() if reads_as is AnswerForm.OPTION else in_case_of(right, sequence))
    if entry.get("answer") is None:
        return (as_json(said),)
    if NUMBER.fullmatch(right.removesuffix("\N{DEGREE SIGN}")):
        return (
            as_number(said, right, question),
            as_single_cell(said) if FACTS.get(task, READ_AS_VALUES).single_cell else None,
        )
    if fraction_parts(right) is not None:
        return (right if fraction_parts(reduced_side(said)) == fraction_parts(right) else None,)
    if right[:1] == "(":
        return (as_point(said),)
    if right[:1] == "{":
        return (as_json(said),)
    if right[:1] == '"':
        return (as_json_string(said),)
    if right in JSON_WORDS.values():
        return (JSON_WORDS.get(said),)
    if right[:1] == "[":
        is_right = is_same_list(said, right) and (said[:1] == "[" or not FACTS.get(task, READ_AS_VALUES).is_json)
        return (right if is_right else as_json(said),)
    return (as_board(said, right),)
