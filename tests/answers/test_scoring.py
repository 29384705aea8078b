"""Score an answer by the best of its possible readings, with partial credit only above the guessing score."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from reasoning_env.answers import notations, numbers, types
from reasoning_env.answers.rules import AnswerRules
from reasoning_env.answers.scoring import Scorer

ENTRY = {"question": "Repeat after me: a b c d", "answer": "d c b a", "metadata": {}}


class FakeDataset:
    """A dataset whose verifier is a function of the test."""

    config = None

    def __init__(self, score: Callable[[str], float]) -> None:
        self.score_answer = lambda answer, entry: score(answer)


def scored(answer: str, score: Callable[[str], float], **options: Any) -> float:
    dataset: Any = FakeDataset(score)
    settings = {"strict": True, "with_tags": False, **options}
    return Scorer(AnswerRules(), dataset, pickle.dumps(ENTRY), **settings).score(answer)


def test_partial_credit_starts_above_the_score_of_wrong_guesses() -> None:
    scores = {"a b c d": 0.6, "d c b": 0.8}
    assert scored("d c b", lambda answer: scores.get(answer, 0.0)) == pytest.approx(0.49)


@pytest.mark.parametrize("score", [0.0, 0.05, 0.1, 1.0])
def test_perfect_scores_and_scores_of_at_most_0_1_are_not_rescaled(score: float) -> None:
    assert scored("d c b", lambda answer: 0.6 if answer == "a b c d" else score) == score


def test_verifier_scores_are_rescaled_only_if_rewards_are_strict() -> None:
    assert scored("d c b", lambda answer: 0.6, strict=False) == 0.6


def test_partial_credit_ignores_common_guesses_with_full_score() -> None:
    scores = {"a b c d": 1.0, "d c b": 0.8}
    assert scored("d c b", lambda answer: scores.get(answer, 0.0)) == pytest.approx(0.784)


def test_unparsable_answer_scores_zero_if_the_verifier_raises() -> None:
    dataset: Any = FakeDataset(lambda answer: float(int(answer)))
    rules = AnswerRules(notations.factors)
    entry = pickle.dumps({**ENTRY, "answer": "3 \N{MULTIPLICATION SIGN} 3"})
    assert Scorer(rules, dataset, entry, strict=True, with_tags=False).score("3^2") == 0.0


def test_wrong_answer_scores_zero_if_the_verifier_raises() -> None:
    assert judged("9/2", "4", float, type=numbers.number) == 0.0


def test_verifier_error_is_raised_without_strict_rewards() -> None:
    dataset: Any = FakeDataset(float)
    entry = pickle.dumps({**ENTRY, "answer": "4"})
    with pytest.raises(ValueError, match="9/2"):
        Scorer(AnswerRules(numbers.number), dataset, entry, strict=False, with_tags=False).score("9/2")


def test_scoring_raises_if_the_verifier_fails_even_on_the_right_answer() -> None:
    def fail(answer: str) -> float:
        raise ZeroDivisionError(answer)

    with pytest.raises(ZeroDivisionError, match="6"):
        judged("6", "5", fail, type=numbers.number)


def test_partial_credit_ignores_common_guesses_that_crash_the_verifier() -> None:
    def score(answer: str) -> float:
        if answer != "d c b":
            raise SystemExit
        return 0.8

    assert scored("d c b", score) == pytest.approx(0.784)


def test_score_is_the_highest_score_among_the_notations_of_an_answer() -> None:
    assert scored("**d**", lambda answer: len(answer) / 10, accepts_forms=True, strict=False) == 0.5


def test_bold_right_answer_gets_full_score_only_if_formatting_is_accepted() -> None:
    assert scored("**d**", lambda answer: float(answer == "d"), accepts_forms=True) == 1.0
    assert scored("**d**", lambda answer: float(answer == "d")) == 0.0


@pytest.mark.parametrize(("right", "score"), [("d c b a", 1.0), ("d c b a.", 0.0)])
def test_full_stop_is_kept_if_the_right_answer_has_one(right: str, score: float) -> None:
    """The full stop is removed from an answer unless the right answer ends in a full stop."""
    dataset: Any = FakeDataset(lambda answer: float(answer == "x"))
    entry = pickle.dumps({**ENTRY, "answer": right})
    scorer = Scorer(AnswerRules(), dataset, entry, strict=True, accepts_forms=True, with_tags=False)
    assert scorer.score("x.") == score


def test_scorer_can_add_answer_tags_before_calling_the_verifier() -> None:
    assert scored("d", lambda answer: float(answer.startswith("<answer>")), with_tags=True) == 1.0


def test_verifier_error_is_ignored_if_another_notation_gets_a_score() -> None:
    assert scored("`5`", lambda answer: float(answer) / 10, accepts_forms=True) == pytest.approx(0.49)


def test_scoring_a_right_answer_calls_the_verifier_once() -> None:
    asked = []

    def score(answer: str) -> float:
        asked.append(answer)
        return 1.0

    scored("`d`", score, accepts_forms=True)
    assert asked == ["`d`"]


def test_verifier_error_is_raised_if_it_occurs_for_every_notation_of_the_answer() -> None:
    with pytest.raises(ValueError, match="five"):
        scored("five", float, accepts_forms=True)


@pytest.mark.parametrize(("value", "score"), [(7.0, 1.0), (-1.0, 0.0)])
def test_verifier_scores_are_clipped_to_the_range_from_0_to_1(value: float, score: float) -> None:
    assert scored("d", lambda answer: value) == score


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_infinite_score_of_a_verifier_raises(value: float) -> None:
    with pytest.raises(ValueError, match="returned"):
        scored("d", lambda answer: value)


def test_memory_error_of_a_verifier_reaches_the_caller() -> None:
    def score(answer: str) -> float:
        if answer == "d":
            return 1.0
        raise MemoryError

    with pytest.raises(MemoryError):
        scored("`d`", score, accepts_forms=True)


# ------------------------------------------------------------------ tasks with an answer type


def strict_scorer(right: str | None, paid: Callable[[str], float], **rules: Any) -> Scorer:
    """Return the strict scorer of a problem. `paid` is the verifier."""
    dataset: Any = FakeDataset(paid)
    entry = pickle.dumps({"question": "What is it?", "answer": right, "metadata": {}})
    return Scorer(AnswerRules(**rules), dataset, entry, strict=True, accepts_forms=True, with_tags=False)


def judged(answer: str, right: str | None, paid: Callable[[str], float], **rules: Any) -> float:
    return strict_scorer(right, paid, **rules).score(answer)


def test_answer_with_the_right_value_gets_full_score_without_calling_the_verifier() -> None:
    def refuse(answer: str) -> float:
        raise AssertionError(answer)

    assert judged("$\\boxed{5.0}$", "5", refuse, type=numbers.number) == 1.0


def test_scorer_reports_the_removed_formatting() -> None:
    scorer = strict_scorer("5", lambda answer: 0.0, type=numbers.number)
    scorer.score("**Answer:** `5`")
    assert scorer.frames == ("label", "code")


def test_answer_with_a_wrong_value_can_earn_partial_credit_from_the_verifier() -> None:
    assert judged("**6**", "5", lambda answer: 0.5 * (answer == "6"), type=numbers.number) == pytest.approx(0.49)


def test_wrong_answer_scores_zero_even_if_the_library_verifier_gives_it_full_score() -> None:
    assert judged("6", "5", lambda answer: 1.0, type=numbers.number) == 0.0


def test_verifier_decides_the_score_if_a_task_has_several_right_answers() -> None:
    assert judged("6", "5", lambda answer: 1.0, type=numbers.number, several_right_answers=True) == 1.0


@pytest.mark.parametrize("answer", ["not 5", "5 or 6", "The answer is not 5", "5?", "It is 5, not 6."])
def test_unparsable_answer_scores_at_most_0_1(answer: str) -> None:
    assert judged(answer, "5", lambda said: 0.9, type=numbers.number) == 0.1


@pytest.mark.parametrize("opening", ["[", "(", "{", "\uff08", '{"a":', "\\sqrt{", "\\left(", "[-", "1+("])
def test_answer_in_more_than_100_nested_brackets_scores_zero(opening: str) -> None:
    """Nesting limits differ between Python versions, so such an answer never reaches a parser."""
    scores = [judged(opening * levels, "7", lambda said: 0.05, type=types.text()) for levels in (101, 100)]
    assert scores == [0.0, 0.05]


def test_task_without_answer_type_scores_an_answer_with_101_brackets() -> None:
    assert scored("[" * 101, lambda answer: 0.05) == 0.05


def test_longer_string_that_contains_the_right_answer_scores_0_1() -> None:
    assert judged("abcd", "abc", lambda answer: 0.7, type=types.text()) == 0.1


def test_answer_that_names_every_option_scores_zero() -> None:
    """The lambda is the library's default score for an answer that contains the right answer and other text."""
    assert judged("No Yes", "Yes", lambda answer: 3 / 6, type=types.text()) == 0.0
    assert judged("not 5", "5", lambda answer: 1 / 5, type=numbers.number) == 0.0


def test_tiny_partial_credit_becomes_zero_only_if_rewards_are_strict() -> None:
    assert judged("6", "5", lambda answer: 1e-7, type=numbers.number) == 0.0
    assert scored("d c b", lambda answer: 1e-7, strict=False) == 1e-7


@pytest.mark.parametrize("right", ["", None])
def test_empty_answer_scores_zero(right: str | None) -> None:
    assert judged("", right, lambda answer: 0.0, type=types.text(), several_right_answers=True) == 0.0


def test_partial_credit_is_capped_at_max_partial() -> None:
    assert judged("6", "5", lambda answer: 0.5, type=numbers.number, max_partial=0.01) == 0.01


def test_right_answer_in_another_notation_gets_full_score_with_plain_rewards() -> None:
    dataset: Any = FakeDataset(lambda answer: float(answer == "5"))
    entry = pickle.dumps({"question": "What is it?", "answer": "5", "metadata": {}})
    scorer = Scorer(AnswerRules(numbers.number), dataset, entry, strict=False, accepts_forms=True, with_tags=False)
    assert scorer.score("**5.0**") == 1.0
