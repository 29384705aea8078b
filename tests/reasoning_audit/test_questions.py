"""What the texts of questions and answers tell about a task."""

from __future__ import annotations

import pytest

from reasoning_audit.questions import contradictions, giveaways, same_problems
from reasoning_env.records import Problem
from tests.records import make_spec, problem_of


def _problems(*pairs: tuple[str, str | None]) -> list[Problem]:
    return [problem_of(make_spec("gcd", seed=seed), *pair) for seed, pair in enumerate(pairs)]


def test_one_question_two_answers() -> None:
    [second] = contradictions(_problems(("Who?", "Ann"), ("Who?", "Bob"), ("When?", "now"), ("Who?", "Ann")))
    assert (second.problem.answer, second.other) == ("Bob", "Ann")


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
