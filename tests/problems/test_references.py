from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reasoning_env.errors import InvalidReferenceError
from reasoning_env.problems.references import Reference, hash_question, module_of, without_release
from reasoning_env.records import Split
from tests.records import make_problem

TEXT = 'gcd:train:913282751:0.25:0.1.25:5f1c0d9e8a7b6c5d:{"min_value": 10}'

params = st.dictionaries(
    st.text(max_size=5),
    st.recursive(st.integers() | st.text() | st.booleans(), lambda inner: st.lists(inner), max_leaves=4),
    max_size=2,
)
references = st.builds(
    Reference,
    task=st.sampled_from(["gcd", "chain_sum"]),
    split=st.sampled_from(Split),
    seed=st.integers(0, 2**32 - 1),
    level=st.none() | st.floats(0, 1),
    library=st.sampled_from(["0.1.25", "0.1.26.dev1+local", ""]),
    question_hash=st.text("0123456789abcdef", min_size=16, max_size=16),
    params=params,
    item=st.just(3),
    dataset_size=st.just(50),
)


def test_problem_reference_is_parsed_into_fields() -> None:
    reference = Reference.parse(TEXT)
    assert reference == Reference("gcd", Split.TRAIN, 913282751, 0.25, "0.1.25", "5f1c0d9e8a7b6c5d", {"min_value": 10})
    assert str(reference) == TEXT


@settings(max_examples=40)
@given(references)
def test_parsing_the_string_of_a_problem_reference_gives_an_equal_reference(reference: Reference) -> None:
    assert Reference.parse(str(reference)) == reference


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "expected task:split"),
        ("gcd", "expected task:split"),
        (TEXT.replace("gcd", ""), "a task and a seed"),
        (TEXT.replace("913282751", "4294967296"), "from 0 to 4294967295"),
        (TEXT.replace("913282751", "-1"), "a task and a seed"),
        (TEXT.replace("913282751", "٣"), "a task and a seed"),
        (TEXT.replace("913282751", "45+50/50"), "has no item 50"),
        (TEXT.replace("train", "test"), "'test' is not a valid Split"),
        (TEXT.replace("0.25:0.1", "1.5:0.1"), "not 1.5"),
        (TEXT.replace("0.25:0.1", "nan:0.1"), "not nan"),
        (TEXT.replace("5f1c0d9e8a7b6c5d", "5f1c"), "16 hexadecimal digits"),
        (TEXT.replace('{"min_value": 10}', "{"), "Expecting property name"),
        (TEXT.replace('{"min_value": 10}', "[" * 10_000), "nested more than 32 levels deep"),
        (TEXT.replace("10", "[" * 32 + "]" * 32), "nested more than 32 levels deep"),
        (TEXT.replace("10", '{"a":' * 32 + "1" + "}" * 32), "nested more than 32 levels deep"),
        (TEXT.replace("10", '"' + "x" * 70_000 + '"'), "a reference has at most 65536 characters, not 70066"),
        ("x" * 10_000_000, "a reference has at most 65536 characters, not 10000000"),
        (TEXT.replace('{"min_value": 10}', "[1]"), "a JSON object"),
    ],
)
def test_invalid_problem_reference_raises_a_one_line_error(text: str, problem: str) -> None:
    with pytest.raises(InvalidReferenceError) as caught:
        Reference.parse(text)
    assert problem in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_problem_reference_accepts_params_nested_to_the_maximum_depth() -> None:
    text = TEXT.replace("10", "[" * 31 + "]" * 31)
    assert Reference.parse(text).params["min_value"]


def test_problem_spec_is_restored_from_a_problem_reference() -> None:
    problem = make_problem("gcd", params={"a": 1}, level=0.5)
    spec = Reference.of(problem, "1").spec(index=3, attempt=2)
    assert (spec.task, spec.seed, spec.params, spec.level) == ("gcd", problem.spec.seed, {"a": 1}, 0.5)
    assert (spec.index, spec.attempt, spec.request.exact_seed) == (3, 2, True)


def test_problem_reference_is_rejected_if_the_question_hash_differs() -> None:
    reference = Reference.of(make_problem(question="one"), "1")
    with pytest.raises(InvalidReferenceError, match="the reference was altered"):
        reference.check(make_problem(question="another"), "1")


@pytest.mark.parametrize(
    ("made", "here", "told"),
    [("1", "2", "reasoning-gym 1, but 2 is installed"), ("my@1", "my@2", "my@1, but my@2 is installed")],
)
def test_error_names_the_library_release_that_made_the_problem(made: str, here: str, told: str) -> None:
    reference = Reference.of(make_problem(question="one"), made)
    with pytest.raises(InvalidReferenceError, match=f"made by {told}"):
        reference.check(make_problem(question="another"), here)


def test_question_with_a_lone_surrogate_can_be_hashed() -> None:
    assert hash_question("\ud800") != hash_question("")


def test_references_to_one_problem_in_two_releases_differ_only_in_the_release() -> None:
    problem = make_problem(params={"a": "b:c"})
    first, second = (without_release(str(Reference.of(problem, release))) for release in ("1", "2"))
    assert first == second
    assert first.endswith('{"a": "b:c"}')


@pytest.mark.parametrize(
    ("reference", "module"),
    [
        ("mine:train:1:-:my_tasks@1.2:0123456789abcdef:{}", "my_tasks"),
        ('gcd:train:1:-:0.1.25:0123456789abcdef:{"a": "x@y:z"}', None),
        ("no reference", None),
    ],
)
def test_problem_reference_of_a_user_task_names_the_user_module(reference: str, module: str | None) -> None:
    assert module_of(reference) == module
