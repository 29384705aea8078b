"""Find problems that must not be served, because an honest answer cannot be told from a dishonest one."""

from __future__ import annotations

from .grammars.logic import are_contradictory
from .guards import Entry


def find_flaw(task: str, entry: Entry) -> str | None:
    """Say why an entry must not be served; None if it may."""
    if task == "intermediate_integration" and "Integral(" in str(entry["answer"]):
        return "the library could not solve its own integral"
    if task == "propositional_logic" and are_contradictory(entry["metadata"]["premises"]):
        return "its premises contradict each other, so that every statement follows"
    if (
        task == "rubiks_cube"
        and entry["metadata"]["cube_size"] == 3
        and not entry["metadata"]["example_correct_answer"]
    ):
        return "its cube is solved already"
    return None
