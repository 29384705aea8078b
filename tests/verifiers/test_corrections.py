"""Each correction in both directions: nonsense is not paid, and honest answers keep the library's score."""

from __future__ import annotations

import copy
import json
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import reasoning_gym

from reasoning_env.tasks import find_task
from reasoning_env.tasks.serving import find_flaw
from reasoning_env.verifiers.scoring import CORRECTIONS, verify

from .correction_cases import CASES, Answers, carry

SEED = 70_000
each_correction = pytest.mark.parametrize("task", sorted(CASES))


@cache
def _dataset(task: str) -> Any:
    case = CASES[task]
    return reasoning_gym.create_dataset(task, seed=SEED, size=case.count, **case.params)


@cache
def _entries(task: str) -> list[Any]:
    dataset = _dataset(task)
    entries = [dataset[number] for number in range(CASES[task].count)]
    return (
        entries
        if task != "propositional_logic"
        else [entry for entry in entries if not find_flaw(find_task(task), entry)]
    )


@dataclass(frozen=True)
class Scored:
    """An answer to an entry, with its strict score, its score without corrections, and the library's score."""

    answer: str
    strict: float
    plain: float
    library: float


@cache
def _scores(task: str, kind: str) -> list[Scored]:
    """Return the scored answers of a kind to every entry."""
    make: Answers = getattr(CASES[task], kind)
    return [
        _score(task, _dataset(task), entry, answer)
        for entry in _entries(task)
        for answer in make(str(entry["answer"]), entry["metadata"])
    ]


def _score(task: str, dataset: Any, entry: Any, answer: str) -> Scored:
    strict = verify(task, dataset, answer, copy.deepcopy(entry), strict=True)
    plain = verify(task, dataset, answer, copy.deepcopy(entry), strict=False)
    return Scored(answer, strict, plain, _library_score(dataset, answer, entry))


def _library_score(dataset: Any, answer: str, entry: Any) -> float:
    """Return the library's score; an answer on which its verifier raises earns 0, as in an evaluation."""
    try:
        return float(dataset.score_answer(answer, copy.deepcopy(entry)))
    except (AttributeError, KeyError, TypeError, ValueError):
        return 0.0


@each_correction
def test_nonsense_earns_the_floor(task: str) -> None:
    assert [scored for scored in _scores(task, "nonsense") if scored.strict > CASES[task].floor] == []


@each_correction
def test_plain_scores_pay_nonsense(task: str) -> None:
    scores = _scores(task, "nonsense")
    paid = [scored.library for scored in scores if scored.library > scored.strict]
    assert len(paid) >= 10
    assert max(paid) > CASES[task].floor
    assert [scored for scored in scores if scored.plain != scored.library] == []


@each_correction
def test_honest_answers_keep_score(task: str) -> None:
    right = _scores(task, "right")
    assert len(right) >= 9
    assert min(scored.library for scored in right) >= 0.5
    assert [scored for scored in (*right, *_scores(task, "partial")) if scored.strict != scored.library] == []


def test_impossible_moves_of_boxes() -> None:
    """A box that is matched already, and a box that jumps over squares."""
    dataset = _dataset("boxnet")
    for entry in _entries("boxnet")[:5]:
        plan = json.loads(carry(entry["metadata"], "box"))
        boxes = json.dumps(entry["metadata"]["initial_state"]).count("box_")
        jump = {
            agent: re.sub(r"(target_\w+|square.*])\)", "square[9.5, 9.5])", move) for agent, move in plan[0].items()
        }
        for steps in ([*plan, plan[-1]], [jump, *plan]):
            assert dataset.score_answer(json.dumps(steps), copy.deepcopy(entry)) == 1.0
            scored = _score("boxnet", dataset, entry, json.dumps(steps))
            assert scored.strict == pytest.approx(max(0.05, 1.0 - 1.0 / boxes))


@pytest.mark.parametrize("task", ["codeio", "figlet_font"])
def test_ordinary_entries_keep_score(task: str) -> None:
    """The cases of these tasks use entries of a rare kind."""
    dataset = reasoning_gym.create_dataset(task, seed=SEED, size=12)
    entries = [dataset[number] for number in range(12)]
    oracles = [str(entry["answer"] or entry["metadata"].get("example_correct_answer", "")) for entry in entries]
    scores = [
        _score(task, dataset, entry, answer)
        for entry, oracle in zip(entries, oracles, strict=True)
        for answer in (oracle, oracle[:-1] + "1", oracle[1:], "none", "yes")
    ]
    assert max(scored.library for scored in scores) == 1.0
    assert [scored for scored in scores if scored.strict != scored.library] == []


def test_premises_without_conclusion() -> None:
    """An honest answer can only join such premises, as models did in published results."""
    dataset = reasoning_gym.create_dataset("propositional_logic", seed=SEED, size=40)
    hollow = [entry for entry in map(dataset.__getitem__, range(40)) if _is_hollow(entry["metadata"])]
    scores = [
        _score("propositional_logic", dataset, entry, answer)
        for entry in hollow
        for answer in (_joined(entry["metadata"]["premises"]), entry["metadata"]["variables"][0])
    ]
    assert {1.0, 0.25} <= {scored.library for scored in scores}
    assert [scored for scored in scores if scored.strict != scored.library] == []


def _is_hollow(metadata: Any) -> bool:
    """Tell whether each premise is a variable or its negation."""
    return all(len(premise) <= 2 for premise in metadata["premises"])


def _joined(premises: list[str]) -> str:
    return " ∧ ".join(f"({premise})" for premise in premises)


@pytest.mark.parametrize(
    ("answer", "score"),
    [("0.375", 1.0), ("3/8", 1.0), ("0.37", 2 / 3), ("0.374", 2 / 3), ("0.3", 1 / 3), ("0.3859", 1 / 4), ("0.9", 0.0)],
)
def test_digits_of_probability(answer: str, score: float) -> None:
    dataset = reasoning_gym.create_dataset("coin_flip", seed=SEED, size=1)
    metadata = {**dataset[0]["metadata"], "rational": {"numerator": 3, "denominator": 8}}
    entry = {**dataset[0], "answer": "0.375", "metadata": metadata}
    assert verify("coin_flip", dataset, answer, entry, strict=True) == pytest.approx(score)


@pytest.mark.parametrize(
    ("answer", "score"), [("1:00:00", 1.0), ("1:01:00", 5 / 6), ("1:03:00", 0.5), ("0:57:00", 0.5), ("1:06:00", 0.0)]
)
def test_nearness_of_duration(answer: str, score: float) -> None:
    dataset = reasoning_gym.create_dataset("time_intervals", seed=SEED, size=1)
    metadata = {**dataset[0]["metadata"], "task_type": "time"}
    entry = {**dataset[0], "answer": "1:00:00", "metadata": metadata}
    assert verify("time_intervals", dataset, answer, entry, strict=True) == pytest.approx(score, abs=0.02)


def test_words_after_sorted_words() -> None:
    dataset = _dataset("word_sorting")
    for entry in _entries("word_sorting")[:20]:
        words = entry["metadata"]["sorted_words"]
        answer = ", ".join([*words, "zebra", "zoo"])
        assert verify("word_sorting", dataset, answer, entry, strict=True) == len(words) / (len(words) + 2)


def test_every_correction_has_case() -> None:
    assert sorted(CASES) == sorted(CORRECTIONS)
