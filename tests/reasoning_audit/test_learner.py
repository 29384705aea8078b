"""A decision tree that predicts answers from surface features of the question, such as counts and words."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from reasoning_audit.learner import learn, options_named, score_best_tree, surface_features


def _questions(count: int) -> list[str]:
    draws = random.Random(7)
    return [" ".join(draws.choices(["0", "1", "12", "#", "X", "not\n"], k=draws.randint(5, 30))) for _ in range(count)]


@pytest.mark.parametrize(
    "decide",
    [
        lambda question: len(question) > 40,
        lambda question: question.count("#") > 2,
        lambda question: question.split()[0] == "12",
        lambda question: question.split().count("12") > 2,
        lambda question: "# #" in question or "X X" in question or "1 1" in question or "0 0" in question,
    ],
)
def test_decision_tree_predicts_answers_from_word_and_character_counts(decide: Callable[[str], bool]) -> None:
    questions = _questions(160)
    earned = score_best_tree(questions, [str(decide(question)) for question in questions])
    assert sum(earned) > 0.8 * len(earned)


def test_decision_tree_predicts_random_answers_only_at_chance_level() -> None:
    draws = random.Random(5)
    earned = score_best_tree(_questions(160), draws.choices("ab", k=160))
    assert 0.35 * len(earned) < sum(earned) < 0.65 * len(earned)


def test_decision_tree_is_fitted_and_scored_even_on_only_6_problems() -> None:
    assert score_best_tree(["Which?"] * 6, ["a", "b", "a", "c", "b", "a"]) == [0.0, 0.0, 1.0, 0.0, 1.0, 1.0]


WORDS = ("abca", "bcde", "xyzx", "tiger", "noon", "paper", "house", "mood")


@pytest.mark.parametrize(
    "decide",
    [
        lambda words, numbers: len(set(words[0])) < len(words[0]),
        lambda words, numbers: len(numbers) > 1.5 * len(words),
        lambda words, numbers: numbers[-1] > 40,
        lambda words, numbers: words[0] in ("noon", "mood"),
        lambda words, numbers: (numbers[0] > 50) != (words[0] == words[1]),
    ],
    ids=["a letter twice in a word", "a ratio of two counts", "a number at a place", "the last word", "two questions"],
)
def test_decision_tree_predicts_answers_from_features_other_than_word_counts(
    decide: Callable[[list[str], list[int]], bool],
) -> None:
    draws = random.Random(11)
    questions, options = [], []
    for _ in range(600):
        words = draws.choices(WORDS, k=draws.randint(2, 6))
        numbers = draws.choices(range(100), k=draws.randint(2, 9))
        questions.append(f"Look at {numbers}.\n{' '.join(words[1:])}\n{words[0]}")
        options.append(str(decide(words, numbers)))
    assert sum(score_best_tree(questions, options)) > 0.85 * len(questions)


def test_decision_tree_predicts_the_right_answer_option() -> None:
    features = surface_features([f"Is it {'#' * number}?" for number in range(20)])
    tree = learn(features, ["few" if number < 10 else "many" for number in range(20)])
    assert options_named(tree, features) == ["few"] * 10 + ["many"] * 10
