"""The options that a task's answers choose from, and whether an answer is the one that its problem's seed wants.

So options come equally often, and no open answer is right more than a third of the time, whatever the parameters.
"""

from __future__ import annotations

from ..library_facts import facts
from ..problems.seeds import hash_int
from .entries import Entry
from .shortcuts import choice

PARTS = 3
"""Open answers with a frequent one are parted by their hashes into so many parts, of which a seed wants one."""
SALT = "answer 85"
"""Chosen among a few hundred so that the small whole numbers fall into different parts, and few draws are needed."""


def option(task: str, entry: Entry) -> str:
    """Return what the right answer chooses: the content of the only blank, who is a knight, or the answer itself."""
    if task == "knights_knaves":
        return " ".join(map(str, entry["metadata"]["solution"]))
    return choice(str(entry["question"]), str(entry["answer"]))


def is_wanted(task: str, entry: Entry, seed: int) -> bool:
    """Tell whether an entry's answer is the option, or in the part of all answers, that a seed wants."""
    row = facts(task)
    if row.even_options:
        return option(task, entry) == row.even_options[hash_int("option", seed) % len(row.even_options)]
    if row.frequent_answer:
        return hash_int(SALT, option(task, entry)) % PARTS == hash_int("option", seed) % PARTS
    return True
