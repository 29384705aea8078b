"""Corrected verifiers give nonsense low scores, and give honest answers the library's score."""

from __future__ import annotations

import copy
import json
import pickle
import re
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import pytest
import reasoning_gym

from reasoning_env.answers.corrections import correct_word_ladder
from reasoning_env.answers.scoring import Scorer
from reasoning_env.answers.shortcuts import FORM_SCORE
from reasoning_env.tasks import TASKS, find_task
from reasoning_env.tasks.serving import find_flaw, with_right_answer

from .correction_cases import CASES, Answers, carry

SEED = 70_000
each_task = pytest.mark.parametrize("task", sorted(CASES))


@cache
def _dataset(task: str) -> Any:
    case = CASES[task]
    return reasoning_gym.create_dataset(task, seed=SEED, size=case.count, **case.params)


@cache
def _entries(task: str) -> list[Any]:
    dataset = _dataset(task)
    entries = [dataset[number] for number in range(CASES[task].count)]
    if task != "propositional_logic":
        return entries
    corrected = [with_right_answer(find_task(task), entry, dataset) for entry in entries]
    return [entry for entry in corrected if find_flaw(find_task(task), entry, seed=0) is None]


@dataclass(frozen=True)
class Scored:
    """An answer to a problem, with its scores under library, plain and strict rewards."""

    task: str
    dataset: Any
    entry: Any
    answer: str

    @cached_property
    def strict(self) -> float:
        return _or_zero(_scorer(self.task, self.dataset, self.entry, strict=True), self.answer)

    @cached_property
    def plain(self) -> float:
        return _or_zero(_scorer(self.task, self.dataset, self.entry, strict=False), self.answer)

    @cached_property
    def library(self) -> float:
        """The library's score. As in an evaluation, the score is 0 if the library's verifier raises."""
        try:
            return float(self.dataset.score_answer(self.answer, copy.deepcopy(self.entry)))
        except (AttributeError, KeyError, TypeError, ValueError):
            return 0.0

    @cached_property
    def of_value(self) -> float | None:
        """The score of the answer's value before the comparison with guesses; None if the answer has no value."""
        return _value_score(_scorer(self.task, self.dataset, self.entry, strict=True), self.answer)


@cache
def _scores(task: str, kind: str) -> list[Scored]:
    """Return the scores of all answers of a kind to every problem."""
    make: Answers = getattr(CASES[task], kind)
    return [
        Scored(task, _dataset(task), entry, answer)
        for entry in _entries(task)
        for answer in make(str(entry["answer"]), entry["metadata"])
    ]


def _scorer(task: str, dataset: Any, entry: Any, *, strict: bool) -> Scorer:
    rules = find_task(task).answer
    return Scorer(rules, dataset, pickle.dumps(entry), strict=strict, accepts_forms=strict, with_tags=False)


def _value_score(judge: Scorer, answer: str) -> float | None:
    """Return the best score of an answer's values before the comparison with guesses; None without a value."""
    notations = [reading.notation for reading in judge.candidates(answer) if reading.notation is not None]
    return max(map(judge.value_score, notations), default=None)


def _or_zero(judge: Scorer, answer: str) -> float:
    try:
        return judge.score(answer)
    except Exception:  # verifiers may raise any exception
        return 0.0


@each_task
def test_score_of_nonsense_is_limited_with_strict_rewards(task: str) -> None:
    floor = max(FORM_SCORE, CASES[task].floor)
    assert [scored for scored in _scores(task, "nonsense") if scored.strict > floor] == []


@each_task
def test_nonsense_scores_higher_with_library_than_with_strict_rewards(task: str) -> None:
    scores = _scores(task, "nonsense")
    assert len([scored for scored in scores if scored.library > scored.strict]) >= 10
    assert [scored for scored in scores if scored.plain != pytest.approx(scored.library)] == []


@each_task
def test_corrected_verifier_accepts_right_answers(task: str) -> None:
    right = _scores(task, "right")
    assert len(right) >= 9
    assert min(scored.library for scored in right) >= 0.5
    assert [scored for scored in right if scored.strict < 1.0] == []


@each_task
def test_corrected_verifier_caps_library_partial_credit_at_max_partial(task: str) -> None:
    """Answers that contain the right answer inside other text are excluded."""
    most = find_task(task).answer.max_partial
    values = [scored for scored in _scores(task, "partial") if scored.of_value not in (None, 0.1, 1.0)]
    assert [scored for scored in values if scored.of_value != pytest.approx(min(most, scored.library))] == []


def test_boxnet_plan_with_impossible_move_is_wrong() -> None:
    """The plans move a box that was already matched, or move a box by several squares at once."""
    dataset = _dataset("boxnet")
    for entry in _entries("boxnet")[:5]:
        plan = json.loads(carry(entry["metadata"], "box"))
        boxes = json.dumps(entry["metadata"]["initial_state"]).count("box_")
        jump = {
            agent: re.sub(r"(target_\w+|square.*])\)", "square[9.5, 9.5])", move) for agent, move in plan[0].items()
        }
        for steps in ([*plan, plan[-1]], [jump, *plan]):
            assert dataset.score_answer(json.dumps(steps), copy.deepcopy(entry)) == 1.0
            scored = Scored("boxnet", dataset, entry, json.dumps(steps))
            assert scored.of_value == pytest.approx(max(0.05, 1.0 - 1.0 / boxes))


def test_survo_answer_with_swapped_cells_is_wrong() -> None:
    dataset = reasoning_gym.create_dataset("survo", seed=SEED, size=5)
    for entry in map(dataset.__getitem__, range(5)):
        rows = [line.split() for line in entry["answer"].splitlines()]
        puzzle = entry["metadata"]["puzzle"]
        blanks = [(row, column) for row, cells in enumerate(puzzle) for column, cell in enumerate(cells) if not cell]
        row, column = blanks[0]
        other_row, other_column = next(place for place in blanks if rows[place[0]][place[1]] != rows[row][column])
        exchanged = [list(cells) for cells in rows]
        exchanged[row][column] = rows[other_row][other_column]
        exchanged[other_row][other_column] = rows[row][column]
        judge = _scorer("survo", dataset, entry, strict=True)
        assert judge.score(entry["answer"]) == 1.0
        assert judge.score("\n".join(map(" ".join, exchanged))) < 1.0


def test_logic_answer_gets_library_score_if_premises_imply_nothing_new() -> None:
    """Some problems have no conclusion beyond their premises.

    For them, published models answered with joined premises.
    """
    dataset = reasoning_gym.create_dataset("propositional_logic", seed=SEED, size=40)
    hollow = [entry for entry in map(dataset.__getitem__, range(40)) if _is_hollow(entry["metadata"])]
    scores = [
        Scored("propositional_logic", dataset, entry, answer)
        for entry in hollow
        for answer in (_joined(entry["metadata"]["premises"]), entry["metadata"]["variables"][0])
    ]
    assert {1.0, 0.25} <= {scored.library for scored in scores}
    assert [scored for scored in scores if scored.of_value != scored.library] == []


def _is_hollow(metadata: Any) -> bool:
    """Return True if each premise is a variable or its negation."""
    return all(len(premise) <= 2 for premise in metadata["premises"])


def _joined(premises: list[str]) -> str:
    return " ∧ ".join(f"({premise})" for premise in premises)


@pytest.mark.parametrize(
    ("answer", "score"), [("1:00:00", 1.0), ("1:01:00", 5 / 6), ("1:03:00", 0.5), ("0:57:00", 0.5), ("1:06:00", 0.0)]
)
def test_nearly_right_duration_earns_partial_credit(answer: str, score: float) -> None:
    dataset = reasoning_gym.create_dataset("time_intervals", seed=SEED, size=1)
    metadata = {**dataset[0]["metadata"], "task_type": "time"}
    entry = {**dataset[0], "answer": "1:00:00", "metadata": metadata}
    assert _value_score(_scorer("time_intervals", dataset, entry, strict=True), answer) == pytest.approx(
        score, abs=0.02
    )


@pytest.mark.parametrize(
    ("answer", "score"), [("REEK,PEEK,PECK,PUCK", 1.0), ("REEK,REZK,PEZK,PEEK,PECK,PUCK", 0.25), ("REEK,PUCK", 0.0)]
)
def test_word_ladder_accepts_english_words_that_the_task_never_generates(answer: str, score: float) -> None:
    """PEEK is an English word, but the task's generator never uses it."""
    dataset = reasoning_gym.create_dataset("word_ladder", seed=1, size=1)
    entry = {"metadata": {"start_word": "REEK", "end_word": "PUCK"}}
    paid = dataset.score_answer(answer, entry)
    assert correct_word_ladder(answer, entry, dataset, paid) == score


def test_kakurasu_answer_with_nonbinary_cell_scores_zero() -> None:
    dataset = reasoning_gym.create_dataset("kakurasu", seed=SEED, size=1)
    judge = _scorer("kakurasu", dataset, dataset[0], strict=True)
    right = dataset[0]["answer"]
    assert judge.score(right) == 1.0
    assert [judge.score(right.replace("1", other, 1)) for other in ("-1", "2")] == [0.0, 0.0]


def test_every_corrected_verifier_has_a_test_case() -> None:
    corrected = {task.name for task in TASKS.values() if task.answer.correction}
    assert corrected == CASES.keys() | {"kakurasu", "survo", "word_ladder"}
