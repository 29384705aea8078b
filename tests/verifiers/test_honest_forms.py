"""Right answers to every task, in the forms in which honest models write them, earn full marks.

A form that a question rules out is an exception. The table of exceptions quotes the question.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Any

import pytest
import reasoning_gym

from reasoning_env.library_facts import FACTS, facts
from reasoning_env.verifiers import Scorer

from .honest_forms import KINDS, honest_forms, kind_of

SEED = 91_000
TASKS = sorted(FACTS.keys() - {"composite", "boxnet", "rush_hour"})
"""All tasks whose entries hold a right answer."""
SLOW = frozenset({"futoshiki", "knight_swap", "puzzle24", "sokoban", "zebra_puzzles"})

EXCEPTIONS: Mapping[tuple[str, str], str] = {
    ("jugs", "Python"): "Reply as a JSON-parsable list of moves",
}
"""Words of the question that rule out a form of the answer, by task and form."""


@cache
def _problems(task: str) -> list[tuple[Any, Any, str]]:
    """Return a few entries of a task, each with its dataset and right answer."""
    dataset = reasoning_gym.create_dataset(task, seed=SEED, size=30)
    answered = ((entry, _right_answer(entry)) for entry in dataset)
    found = ((dataset, entry, answer) for entry, answer in answered if answer and "Integral(" not in answer)
    return list(islice(found, 2 if task in SLOW else 6))


def _right_answer(entry: Any) -> str:
    """Return the expected answer, or the example's where many answers are right."""
    metadata = entry["metadata"]
    return str(entry["answer"] or metadata.get("example_answer") or metadata.get("example_correct_answer") or "")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of the library's generators touch files."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("task", TASKS)
def test_right_answers_in_honest_forms(task: str) -> None:
    unpaid = {}
    for dataset, entry, answer in _problems(task):
        ends_in_full_stop = answer.endswith(".") or facts(task).ends_in_full_stop
        scorer = Scorer(task, dataset, pickle.dumps(entry), strict=True, lenient=True, with_tags=False)
        for name, text in honest_forms(task, answer, entry["question"]).items():
            if (task, name) in EXCEPTIONS or (name == "a full stop" and ends_in_full_stop):
                continue
            if scorer.score(text.strip()) < 0.99:
                unpaid[name] = text
    assert unpaid == {}


def _spoilt(answer: str) -> str:
    """Return an answer with another last digit, or another last letter."""
    for pattern, others in ((r"\d(?=\D*$)", "17"), (r"[^\W\d_](?=[\W\d_]*$)", "qz")):
        found = re.search(pattern, answer)
        if found:
            other = others[0] if found[0] != others[0] else others[1]
            return answer[: found.start()] + other + answer[found.end() :]
    return answer + "?"


@pytest.mark.parametrize("task", TASKS)
def test_wrong_answers_in_honest_forms(task: str) -> None:
    paid = {}
    for dataset, entry, answer in _problems(task)[:2]:
        wrong = _spoilt(answer)
        bare = Scorer(task, dataset, pickle.dumps(entry), strict=True, with_tags=False)
        if _score(bare, wrong) >= 0.99:
            continue  # this answer is right too, or the verifier takes it for right
        scorer = replace(bare, lenient=True)
        forms = honest_forms(task, wrong, entry["question"])
        paid.update({name: text for name, text in forms.items() if _score(scorer, text) >= 0.99})
    assert paid == {}


def _score(scorer: Scorer, answer: str) -> float:
    try:
        return scorer.score(answer)
    except Exception:  # verifiers raise anything
        return 0.0


@pytest.mark.parametrize(("task", "form"), sorted(EXCEPTIONS))
def test_exceptions_quote_question(task: str, form: str) -> None:
    assert any(EXCEPTIONS[task, form] in entry["question"] for _, entry, _ in _problems(task))
    assert form in KINDS[kind_of(task)][0]


def test_every_task_has_kind() -> None:
    assert sorted(" ".join(tasks for _, tasks in KINDS.values()).split()) == TASKS
