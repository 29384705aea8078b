"""Partial credit starts where the best answer without reasoning ends."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import reasoning_gym

from reasoning_env.verifiers import Scorer, find_flaw
from reasoning_env.verifiers.partial_credit import FORM_SCORE, above_guessing, guesses, ladders
from reasoning_env.verifiers.shortcuts import filled_boards, pressed_alone, quotations


@pytest.mark.parametrize(("score", "credit"), [(0.5, 0.1), (0.6, 0.1), (0.8, 0.5), (1.0, 1.0)])
def test_credit_is_measured_between_the_best_guess_and_full_marks(score: float, credit: float) -> None:
    assert above_guessing(score, 0.6) == pytest.approx(credit)


@pytest.mark.parametrize("guess", [0.0, 0.05, 0.3, 0.65, 0.97])
def test_higher_score_never_earns_less_than_a_lower_one(guess: float) -> None:
    earned = [above_guessing(score / 100, guess) for score in range(101)]
    assert earned == sorted(earned)


def test_copies_and_other_numbers_in_the_right_layout_are_guesses() -> None:
    entry = {"question": "Add one to each:\n1 2\n3 4", "answer": "2 3\n4 5", "metadata": {}}
    assert {"1 2\n3 4", "3 4", "0 0\n0 0"} <= guesses(entry)


def test_words_are_changed_letter_by_letter_from_either_side() -> None:
    assert ladders("COLD", "WARD") == ["COLD,WOLD,WALD,WARD", "COLD,CORD,CARD,WARD"]


def _scores(task: str, answers: Any, **params: Any) -> list[float]:
    """What answers to some problems earn; `answers` makes them from an entry."""
    dataset = reasoning_gym.create_dataset(task, seed=5, size=10, **params)
    scores = []
    for entry in (dataset[number] for number in range(10)):
        if find_flaw(task, entry) is not None:
            continue
        scorer = Scorer(task, dataset, pickle.dumps(entry), strict=True, with_tags=False)
        scores += [scorer.score(answer) for answer in answers(entry)]
    return scores


def test_board_that_is_right_but_for_one_cell_still_earns_much() -> None:
    def nearly(entry: Any) -> list[str]:
        return ["1" + entry["answer"][1:] if entry["answer"][0] != "1" else "2" + entry["answer"][1:]]

    assert max(_scores("sudoku", nearly)) > 0.6


def _everybody_alike(entry: Any) -> list[str]:
    names, terms = entry["metadata"]["names"], entry["metadata"]["knight_knave_terms"]
    return [", ".join(f"{name} is {terms[role]}" for name in names) for role in ("a_knight", "a_knave")]


def _one_of_each(entry: Any) -> list[str]:
    (one, other), terms = entry["metadata"]["names"], entry["metadata"]["knight_knave_terms"]
    return [f"{one} is {terms['a_knight']}, {other} is {terms['a_knave']}"]


def _filled(entry: Any) -> Any:
    return filled_boards(entry["question"]).values()


EMPTY_BOARD = str([[0] * 10] * 10)
GUESSES: dict[str, tuple[str, Any, dict[str, int], set[float]]] = {
    "a filled board": ("sudoku", _filled, {}, {FORM_SCORE}),
    "a filled board with signs": ("futoshiki", _filled, {}, {FORM_SCORE}),
    "an empty board": ("game_of_life", lambda _: [EMPTY_BOARD, EMPTY_BOARD.replace("0", "0.0")], {}, {FORM_SCORE}),
    "letters exchanged one by one": (
        "word_ladder",
        lambda entry: ladders(entry["metadata"]["start_word"], entry["metadata"]["end_word"]),
        {},
        {FORM_SCORE},
    ),
    "one button over and over": (
        "quantum_lock",
        lambda entry: pressed_alone(entry["metadata"]["buttons"], entry["metadata"]["target_value"]),
        {"difficulty": 3},
        {FORM_SCORE},
    ),
    "everybody alike": ("knights_knaves", _everybody_alike, {"n_people": 3}, {0.0, 1.0}),
    "one of each": ("knights_knaves", _one_of_each, {"n_people": 2}, {0.0, 1.0}),
    "quoting somebody": ("knights_knaves", lambda entry: quotations(entry["question"]), {"n_people": 3}, {0.0}),
}


@pytest.mark.parametrize("guess", GUESSES)
def test_guess_earns_what_form_pays_at_most_unless_it_is_right(guess: str) -> None:
    task, answers, params, earned = GUESSES[guess]
    scores = set(_scores(task, answers, **params))
    assert earned <= scores
    assert all(score <= FORM_SCORE or score in earned for score in scores)
