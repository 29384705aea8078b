"""Apply a task's declaration: replace wrong answers, clarify questions, reject flawed problems."""

from __future__ import annotations

from dataclasses import dataclass

from ..answers.rules import Dataset, Entry
from ..seeds import hash_fraction
from .declaration import Cause, Task


def with_right_answer(task: Task, entry: Entry, dataset: Dataset) -> Entry:
    """Return the entry with the right answer, or the unchanged entry if the library's answer is right.

    The metadata of a corrected entry has the library's answer as `library_answer`. If several answers are right, only
    the example answer in the metadata is corrected.
    """
    if task.right_answer is None:
        return entry
    answer, metadata = task.right_answer(entry, dataset)
    if answer is None:  # several answers are right; the metadata has an example
        return {**entry, "metadata": {**entry["metadata"], **metadata}} if metadata else entry
    if answer == entry["answer"]:
        return entry
    return {**entry, "answer": answer, "metadata": {**entry["metadata"], **metadata, "library_answer": entry["answer"]}}


def clarify(task: Task, entry: Entry, dataset: Dataset) -> Entry:
    """Return the entry with a clarified question, or the unchanged entry if the question is already clear.

    The metadata of a clarified entry has `clarified: true`.
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
    """Return why the seed gives no problem; None if the task's declaration does not list the type of `error`."""
    rule = task.failure
    return Flaw(Cause.WRONG, rule.reason) if rule is not None and isinstance(error, rule.errors) else None


def find_flaw(task: Task, entry: Entry, seed: int) -> Flaw | None:
    """Return why an entry is rejected; None if the entry can be served as a problem."""
    for rule in task.rejected:
        # A hash of the seed decides whether a flawed entry is one of those that are served anyway.
        if rule.applies(entry) and hash_fraction("served", seed) >= rule.served:
            return Flaw(rule.cause, rule.reason)
    if entry.get("answer") is not None and not str(entry["answer"]).strip():
        return Flaw(Cause.WRONG, "the right answer is empty")
    return None
