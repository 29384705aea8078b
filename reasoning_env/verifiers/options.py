"""Serve the answers of a task equally often: tell the option of an answer, and whether a seed picks the answer.

If the library favours an option, the seed picks the option that is served. If an open answer is frequent, the seed
picks a part of all answers: then no answer is right more than a third of the time, at any parameters.
"""

from __future__ import annotations

from ..library_facts import facts
from ..problems.seeds import hash_int
from .entries import Entry
from .shortcuts import choice

PARTS = 3
"""Answers are split by hash into this many parts; the seed picks the part that is served."""
SALT = "answer 85"
"""Prefix of the hashed text, which decides the answers of each part.

A search over a few hundred prefixes found this prefix: the frequent answers 1, 2 and 3 fall into three parts. Most
prefixes put two of these answers into one part, and a seed of another part needs many draws. Another prefix would serve
other problems for the same seeds.
"""


def option(task: str, entry: Entry) -> str:
    """Return the option that the right answer is, in lower case: the content of the only blank, or the answer itself.

    If the answer is a sentence about the option, `option_key` of the task's facts names the option in the metadata.
    """
    key = facts(task).option_key
    if key:
        return " ".join(map(str, entry["metadata"][key])).casefold()
    return choice(str(entry["question"]), str(entry["answer"]))


def seed_picks(task: str, entry: Entry, seed: int) -> bool:
    """Tell whether a seed picks an entry's answer; always true for tasks whose answers come equally often."""
    row = facts(task)
    if row.even_options:
        chosen = option(task, entry)
        wanted = row.even_options[hash_int("option", seed) % len(row.even_options)]
        return chosen == wanted or chosen not in row.even_options
    if row.frequent_answer:
        return hash_int(SALT, option(task, entry)) % PARTS == hash_int("option", seed) % PARTS
    return True
