"""What the texts of questions and answers tell about a task."""

from __future__ import annotations

import pytest

from reasoning_audit.questions import contradictions, giveaways, same_problems
from reasoning_env.records import Problem
from tests.records import make_spec, problem_of


def _problems(*pairs: tuple[str, str | None]) -> list[Problem]:
    return [problem_of(make_spec("gcd", seed=seed), *pair) for seed, pair in enumerate(pairs)]


@pytest.mark.parametrize(
    ("question", "answer", "other"),
    [
        ("Answer with Yes or No.", "yes", "maybe"),
        ("Respond with 'true' or 'false'.", "True", "yes"),
        ("Give your answer as a single integer.", "-12", "12.5"),
        ("Answer with one word.", "cat", "a cat"),
        ("Write the answer in uppercase.", "CAT", "Cat"),
        ("Return the text in lower case.", "cat 1", "Cat 1"),
        ("Round to 2 decimal places.", "1.25", "1.257"),
        ("Return the word, all capital letters.", "CAT", "Cat"),
        ("Say that you write capital letters as they are.", "CAT", "Cat"),
        ("Say how many integers or words there are.", "a b", "12.5"),
    ],
)
def test_answer_follows_instruction(question: str, answer: str, other: str) -> None:
    assert contradictions(_problems((question, answer))) == []
    assert len(contradictions(_problems((question, other)))) == int("Say" not in question)


def test_fewer_decimals_than_asked() -> None:
    asked = "Round {} to three decimal places."
    few = _problems(*((asked.format(answer), answer) for answer in ("1.25", "3.5", "0.75")))
    assert len(contradictions(few)) == 1
    assert contradictions([*few, *_problems((asked, "0.125"))]) == []
    assert contradictions(few[:2]) == []


def test_one_question_two_answers() -> None:
    [remark] = contradictions(_problems(("Who?", "Ann"), ("Who?", "Bob"), ("When?", "now"), ("Who?", "Ann")))
    assert (remark.problem.answer, remark.other) == ("Bob", "Ann")


@pytest.mark.parametrize(
    ("question", "count"),
    [("What is 1 + {0}? The answer is {0}.", 1), ("Hint: {0}", 1), ("What is {0} + 0?", 0), ("The answer is {0}5", 0)],
)
def test_stated_answers(question: str, count: int) -> None:
    problems = _problems(*((question.format(number), str(number)) for number in range(4)))
    assert bool(giveaways(problems)) is bool(count)


def test_stated_by_chance() -> None:
    assert giveaways(_problems(("The answer is 1.", "1"), ("Why?", "2"), ("Why?", "3"), ("Why?", "4"))) == []


@pytest.mark.parametrize(
    ("by_level", "same"),
    [
        ({0.0: "abc", 1.0: "abc"}, True),
        ({0.0: "abc", 0.5: "abc", 1.0: "abd"}, False),
        ({0.0: "ab", 1.0: "ab"}, False),
        ({1.0: "abc"}, False),
    ],
)
def test_level_changes_nothing(by_level: dict[float, str], same: bool) -> None:
    problems = {level: _problems(*((question, "7") for question in texts)) for level, texts in by_level.items()}
    assert same_problems(problems) is same


@pytest.mark.parametrize(
    ("hardest", "answers", "same"),
    [
        ("At size 9, which is {}?", "123", True),
        ("At size 9, which is {}?", "124", False),
        ("At size 9, which is {}, more or less?", "123", False),
    ],
)
def test_level_changes_its_name_alone(hardest: str, answers: str, same: bool) -> None:
    easiest = _problems(*((f"At size 3, which is {answer}?", answer) for answer in "123"))
    hard = _problems(*((hardest.format(asked), answer) for asked, answer in zip("123", answers, strict=True)))
    assert same_problems({0.0: easiest, 1.0: hard}) is same
