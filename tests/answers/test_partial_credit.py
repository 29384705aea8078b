"""Partial credit starts above the score of the best guess that needs no reasoning."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import reasoning_gym

from reasoning_env.answers.scoring import Scorer
from reasoning_env.answers.shortcuts import FORM_SCORE, above_guessing, filled_boards, guesses, quotations
from reasoning_env.tasks import find_task
from reasoning_env.tasks.graphs import single_button_plans
from reasoning_env.tasks.logic import same_roles
from reasoning_env.tasks.serving import find_flaw
from reasoning_env.tasks.words import ladders


@pytest.mark.parametrize(("score", "credit"), [(0.5, 0.1), (0.6, 0.1), (0.8, 0.49), (1.0, 0.98)])
def test_partial_credit_grows_only_above_the_score_of_guessing(score: float, credit: float) -> None:
    assert above_guessing(score, 0.6) == pytest.approx(credit)


@pytest.mark.parametrize("guess", [0.0, 0.05, 0.3, 0.65, 0.97])
def test_higher_verifier_score_never_gives_lower_partial_credit(guess: float) -> None:
    earned = [above_guessing(score / 100, guess) for score in range(101)]
    assert earned == sorted(earned)


def test_guessed_answers_include_lines_of_the_question_and_a_grid_of_zeros() -> None:
    entry = {"question": "Add one to each:\n1 2\n3 4", "answer": "2 3\n4 5", "metadata": {}}
    assert {"1 2\n3 4", "3 4", "0 0\n0 0"} <= guesses(entry)


@pytest.mark.parametrize(
    ("task", "metadata", "guess"),
    [
        ("word_ladder", {"start_word": "COLD", "end_word": "WARD"}, "COLD,WOLD,WALD,WARD"),
        (
            "knights_knaves",
            {"names": ["Ann", "Bo"], "knight_knave_terms": {"a_knight": "a saint", "a_knave": "a sinner"}},
            "Ann is a saint, Bo is a sinner",
        ),
        (
            "quantum_lock",
            {"buttons": [{"name": "A", "type": "add", "value": 2, "active_state": "any"}], "target_value": 6},
            "A A A",
        ),
    ],
)
def test_guessed_answers_include_guesses_specific_to_the_task(task: str, metadata: dict[str, Any], guess: str) -> None:
    entry = {"question": "Solve it.", "answer": None, "metadata": metadata}
    assert guess in guesses(entry, find_task(task).answer.guesses)
    assert guess not in guesses(entry)


def test_guesses_for_word_ladders_change_one_letter_per_step() -> None:
    assert ladders("COLD", "WARD") == ["COLD,WOLD,WALD,WARD", "COLD,CORD,CARD,WARD"]


def _scores(task: str, answers: Any, **params: Any) -> list[float]:
    """Return the scores of answers to some problems. `answers` makes the answers to one problem."""
    dataset = reasoning_gym.create_dataset(task, seed=5, size=5, **params)
    scores = []
    for entry in (dataset[number] for number in range(5)):
        if find_flaw(find_task(task), entry, seed=0) is not None:
            continue
        scorer = Scorer(find_task(task).answer, dataset, pickle.dumps(entry), strict=True, with_tags=False)
        scores += [scorer.score(answer) for answer in answers(entry)]
    return scores


def test_sudoku_with_one_wrong_cell_earns_over_0_6() -> None:
    def nearly(entry: Any) -> list[str]:
        return ["1" + entry["answer"][1:] if entry["answer"][0] != "1" else "2" + entry["answer"][1:]]

    assert max(_scores("sudoku", nearly)) > 0.6


def _everybody_alike(entry: Any) -> list[str]:
    return same_roles(entry["metadata"])[:2]


def _one_of_each(entry: Any) -> list[str]:
    return [same_roles(entry["metadata"])[2]]


def _filled(entry: Any) -> Any:
    return filled_boards(entry["question"]).values()


EMPTY_BOARD = str([[0] * 10] * 10)
GUESSES: dict[str, tuple[str, Any, dict[str, int], set[float]]] = {
    "a filled board": ("sudoku", _filled, {}, {FORM_SCORE}),
    "a filled board with signs": ("futoshiki", _filled, {}, {FORM_SCORE}),
    "an empty board": ("game_of_life", lambda _: [EMPTY_BOARD, EMPTY_BOARD.replace("0", "0.0")], {}, {FORM_SCORE, 1.0}),
    "letters exchanged one by one": (
        "word_ladder",
        lambda entry: ladders(entry["metadata"]["start_word"], entry["metadata"]["end_word"]),
        {"min_chain_length": 6, "max_chain_length": 8},
        {FORM_SCORE},
    ),
    "one button over and over": (
        "quantum_lock",
        lambda entry: single_button_plans(entry["metadata"]["buttons"], entry["metadata"]["target_value"]),
        {"difficulty": 3},
        {FORM_SCORE},
    ),
    "everybody alike": ("knights_knaves", _everybody_alike, {"n_people": 3}, {0.0, 1.0}),
    "one of each": ("knights_knaves", _one_of_each, {"n_people": 2}, {0.0, 1.0}),
    "quoting somebody": ("knights_knaves", lambda entry: quotations(entry["question"]), {"n_people": 3}, {0.0}),
}


@pytest.mark.parametrize("guess", GUESSES)
def test_wrong_guesses_earn_at_most_the_score_for_the_right_format(guess: str) -> None:
    task, answers, params, earned = GUESSES[guess]
    scores = set(_scores(task, answers, **params))
    assert earned <= scores
    assert all(score <= FORM_SCORE or score in earned for score in scores)
