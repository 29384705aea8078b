"""Serve the library's problems as declared: answers corrected, questions clarified, flawed problems drawn again.

Also serves the answers of a task equally often. If the library favours an option, the seed picks the option that is
served. If an open answer is frequent, the seed picks a part of all answers: then no answer is right more than a third
of the time, at any parameters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

from ..answers.rules import Dataset, Entry
from ..answers.shortcuts import SHOWN_NUMBER, copies, filled_boards, has_one_blank, turned_fills
from ..seeds import hash_int
from .declaration import Cause, Task

PARTS = 3
"""Answers are split by hash into this many parts; the seed picks the part that is served."""
SALT = "answer 85"
"""Prefix of the hashed text, which decides the answers of each part.

A search over a few hundred prefixes found this prefix: the frequent answers 1, 2 and 3 fall into three parts. Most
prefixes put two of these answers into one part, and a seed of another part needs many draws. Another prefix would serve
other problems for the same seeds.
"""


def with_right_answer(task: Task, entry: Entry, dataset: Dataset) -> Entry:
    """Return an entry with the right answer; the entry itself if the library's answer is right.

    The metadata then has the library's own answer as `library_answer`.
    """
    if task.right_answer is None:
        return entry
    answer, metadata = task.right_answer(entry, dataset)
    if answer == entry["answer"]:
        return entry
    return {**entry, "answer": answer, "metadata": {**entry["metadata"], **metadata, "library_answer": entry["answer"]}}


def clarify(task: Task, entry: Entry, dataset: Dataset) -> Entry:
    """Return an entry with a clarified question; the entry itself if the question leaves nothing open.

    The clarified question is shown, scored and hashed into the problem's reference; the metadata says `clarified`.
    """
    if task.clarification is None:
        return entry
    question = task.clarification.rewrite(entry, dataset)
    if question == entry["question"]:
        return entry
    return {**entry, "question": question, "metadata": {**entry["metadata"], "clarified": True}}


@dataclass(frozen=True)
class Flaw:
    """Why an entry must not be served. `reason` completes a sentence after "because"."""

    cause: Cause
    reason: str


def flaw_of_error(task: Task, error: BaseException) -> Flaw | None:
    """Return the flaw of a seed on which the library ended with an error; None for an error that must be raised."""
    rule = task.failure
    return Flaw(Cause.WRONG, rule.reason) if rule is not None and isinstance(error, rule.errors) else None


def find_flaw(task: Task, entry: Entry) -> Flaw | None:
    """Return why an entry must not be served, None if it may be served."""
    for rule in task.rejected:
        if rule.applies(entry):
            return Flaw(rule.cause, rule.reason)
    if entry.get("answer") is None:
        return None
    if not str(entry["answer"]).strip():
        return Flaw(Cause.WRONG, "its right answer is empty")
    return _find_copy(task, str(entry["answer"]), str(entry["question"]))


def _find_copy(task: Task, answer: str, question: str) -> Flaw | None:
    """Return the flaw that the right answer is a part of the question, or its board filled by a simple rule.

    An option may stand in the question, and so may an answer of a task whose frequent answers are served equally often.
    """
    makers = {} if task.options or task.frequent_answer else {"a part of the question": copies}
    if not has_one_blank(question):
        makers |= {"its board filled row by row": filled_boards, "its board filled from another corner": turned_fills}
    # One source after the other: each takes time, and the first fills find most flawed boards.
    for name, make_copies in makers.items():
        if any(same_content(text, answer) for text in make_copies(question).values()):
            return Flaw(Cause.COPIED, f"{name} is the right answer")
    cells = re.findall(r"\w+", answer)
    if len(cells) >= 16 and len(set(cells)) == 1:
        return Flaw(Cause.COPIED, "all cells of its answer are alike")
    return None


def same_content(text: str, answer: str) -> bool:
    """Tell whether two texts have the same cells, with any separators and number formats."""
    return all(cell == expected for cell, expected in zip_longest(_cells(text), _cells(answer)))


def _cells(text: str) -> Iterator[object]:
    for match in re.finditer(r"[^\s,;|\[\](){}'\"]+", text):
        yield float(match[0]) if SHOWN_NUMBER.fullmatch(match[0]) else match[0]


def seed_picks(task: Task, entry: Entry, seed: int) -> bool:
    """Tell whether a seed picks an entry's answer; always true for tasks whose answers come equally often."""
    if task.even_options:
        chosen = task.option(entry)
        wanted = task.even_options[hash_int("option", seed) % len(task.even_options)]
        return chosen == wanted or chosen not in task.even_options
    if task.frequent_answer:
        return hash_int(SALT, task.option(entry)) % PARTS == hash_int("option", seed) % PARTS
    return True
