"""Score right answers in honest forms, and slightly wrong answers in the same forms, as the library's own problems."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Any

import reasoning_gym

from reasoning_env.answers.scoring import Scorer
from reasoning_env.tasks import COMPOSITE, find_task
from reasoning_env.tasks import TASKS as DECLARED
from reasoning_env.tasks.serving import flaw_of_error
from tests.solvers.table import TABLE

from .honest_forms import FormClass, honest_forms

TASKS = sorted(DECLARED.keys() - {COMPOSITE})
SOLVED = frozenset({"boxnet", "rush_hour"})
"""Tasks whose entries hold no right answer; the solver has one."""
SLOW = frozenset(
    {"arc_agi", "boxnet", "codeio", "futoshiki", "intermediate_integration", "knight_swap", "puzzle24", "rubiks_cube"}
    | {"simple_integration", "sokoban", "sudoku", "zebra_puzzles"}
)
FULL_STOPS = frozenset({"a full stop", "bold with a full stop", "quotes with a full stop"})
"""Forms that change an answer that may end in a full stop of its own."""
MAX_TREE_CHARACTERS = 300
"""Characters of an answer to codeio: to compare the trees of a wrong answer of 1,000 takes 0.4 s, for each reading."""
RIGHT = 0.99
"""The lowest score that counts as right."""


@dataclass(frozen=True)
class Refusal:
    """A right answer that does not count as right in a form."""

    task: str
    form: str
    form_class: FormClass
    text: str
    score: float


@dataclass(frozen=True)
class Measured:
    """The pairs of task and form that were tried, by class, and one refusal of each pair that was refused."""

    pairs: Counter[FormClass]
    refusals: tuple[Refusal, ...]

    def share_refused(self, form_class: FormClass) -> float:
        refused = sum(refusal.form_class is form_class for refusal in self.refusals)
        return refused / self.pairs[form_class]


@dataclass(frozen=True)
class Answered:
    """An entry of a task with its dataset and a right answer."""

    dataset: Any
    entry: Any
    answer: str


def answered_problems(task: str, seed: int, count: int) -> list[Answered]:
    """Return a few entries with a right answer; a third of `count` of a task whose entries take long."""
    with _own_folder():
        dataset = reasoning_gym.create_dataset(task, seed=seed, size=5 * count)
        found = (
            Answered(dataset, entry, answer)
            for entry in _entries(task, dataset)
            if (answer := _right_answer(task, entry))
        )
        if task == "codeio":
            found = (problem for problem in found if len(problem.answer) <= MAX_TREE_CHARACTERS)
        return list(islice(found, max(1, count // 3) if task in SLOW else count))


def _entries(task: str, dataset: Any) -> Iterator[Any]:
    """Yield the entries of a dataset, but those that the library fails to make."""
    for index in range(len(dataset)):
        try:
            entry = dataset[index]
        except Exception as error:
            if flaw_of_error(find_task(task), error) is None:
                raise
        else:
            yield entry


def _right_answer(task: str, entry: Any) -> str:
    """Return the expected answer, or an example where many answers are right; "" if there is none."""
    metadata = entry["metadata"]
    if task in SOLVED:
        solve = TABLE[task].solve
        assert solve is not None
        return solve(entry["question"]).answer
    if task == "graph_color":
        return json.dumps(metadata["possible_answer"])
    answer = entry["answer"] or metadata.get("example_answer") or metadata.get("example_correct_answer") or ""
    return "" if "Integral(" in answer else str(answer)


def measure(task: str, problems: Iterable[Answered]) -> Measured:
    """Score the right answers to problems of a task in all honest forms."""
    pairs: dict[str, FormClass] = {}
    refusals: dict[str, Refusal] = {}
    for problem in problems:
        ends_in_full_stop = find_task(task).answer.ends_in_full_stop or problem.answer.endswith(".")
        judge = scorer(task, problem)
        for name, form in honest_forms(task, problem.answer, problem.entry["question"]).items():
            if name in FULL_STOPS and ends_in_full_stop:
                continue
            pairs[name] = form.form_class
            score = _score(judge, form.text)
            if score < RIGHT:
                refusals[name] = Refusal(task, name, form.form_class, form.text, score)
    return Measured(Counter(pairs.values()), tuple(refusals.values()))


def wrong_forms_paid(task: str, problems: Iterable[Answered], *, every: int = 1) -> dict[str, str]:
    """Return the forms, by name, in which a slightly wrong answer counts as right though as written it does not.

    Tries each form, or with `every` one of so many, which differ between the tasks.
    """
    first = TASKS.index(task) % every
    paid: dict[str, str] = {}
    for problem in problems:
        wrong = spoilt(problem.answer)
        judge = scorer(task, problem)
        if _score(replace(judge, lenient=False), wrong) >= RIGHT:
            continue  # this answer is right too
        for name, form in list(honest_forms(task, wrong, problem.entry["question"]).items())[first::every]:
            if _score(judge, form.text) >= RIGHT:
                paid[name] = form.text
    return paid


TWO_ANSWERS = (
    "OTHER = RIGHT",
    "RIGHT = OTHER",
    "$OTHER = RIGHT$",
    "x = RIGHT, y = OTHER",
    '"RIGHT" or "OTHER"',
    "(RIGHT) or (OTHER)",
    "RIGHT or OTHER",
    "RIGHT; OTHER",
    "RIGHT\nOTHER",
    "OTHER\nRIGHT",
    "[RIGHT, OTHER]",
    "\\boxed{RIGHT} \\boxed{OTHER}",
    "not RIGHT",
    "not = RIGHT",
    "NOT RIGHT",
    "\\neq RIGHT",
    "RIGHT or not",
    "RIGHT?",
)
"""Answers that name another answer beside the right one, or deny the right one."""


def two_answers_paid(task: str, problems: list[Answered]) -> dict[str, str]:
    """Return the joins, by name, that count as right by a reading alone: as written they do not."""
    paid: dict[str, str] = {}
    for problem, following in pairwise(problems):
        if problem.answer == following.answer:
            continue
        judge = scorer(task, problem)
        for join in TWO_ANSWERS:
            text = join.replace("RIGHT", problem.answer).replace("OTHER", following.answer)
            if _score(judge, text) >= RIGHT > _score(replace(judge, lenient=False), text):
                paid[join] = text
    return paid


def total(measured: Iterable[Measured]) -> Measured:
    """Return the sum over tasks."""
    parts = list(measured)
    pairs: Counter[FormClass] = sum((part.pairs for part in parts), Counter())
    return Measured(pairs, tuple(refusal for part in parts for refusal in part.refusals))


def scorer(task: str, problem: Answered) -> Scorer:
    entry = pickle.dumps(problem.entry)
    return Scorer(find_task(task).answer, problem.dataset, entry, strict=True, lenient=True, with_tags=False)


def _score(judge: Scorer, text: str) -> float:
    """Return the score of an answer as the answer rule passes it on, without blanks around."""
    try:
        return judge.score(text.strip())
    except Exception:  # verifiers raise anything
        return 0.0


def spoilt(answer: str) -> str:
    """Return an answer with another last digit, mark or letter."""
    ends = ((r"\d(?=\D*$)", "17"), (r"[\u2705\u274c](?=\W*$)", "\u2705\u274c"), (r"[^\W\d_](?=[\W\d_]*$)", "qz"))
    for pattern, others in ends:
        found = re.search(pattern, answer)
        if found:
            other = others[0] if found[0] != others[0] else others[1]
            return answer[: found.start()] + other + answer[found.end() :]
    return answer + "?"


@contextlib.contextmanager
def _own_folder() -> Iterator[None]:
    """Work in a folder that is removed: some of the library's generators touch files."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)
