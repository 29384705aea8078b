"""What answers may earn: right ones full marks in every honest form, wrong ones less. Exceptions have a reason."""

from __future__ import annotations

from collections.abc import Mapping

from .near_misses import STILL_RIGHT

RIGHT = 0.99
"""The lowest score that counts as right."""
MOST_WRONG = 0.98
"""The highest score of an answer that is nearly right: partial credit ends here."""
CONTRACT = ("forms", "wrong_forms", "near_misses", "two_answers")
"""The kinds of answers whose worth is known."""
REFUSED: Mapping[tuple[str, str], str] = {
    ("codeio", "full-width digits"): "the question asks for a value of JSON, and this is another one",
    ("sentence_reordering", "a full stop"): "the answer ends in another mark",
}
"""Forms that are refused, by task and form, with the reason."""


def breaks_contract(kind: str, task: str, name: str, score: float) -> bool:
    """Tell whether an answer of a kind of CONTRACT, by its name, earns what it may not."""
    match kind:
        case "forms":
            return score < RIGHT and (task, name) not in REFUSED
        case "near_misses":
            return score > MOST_WRONG and name not in STILL_RIGHT.get(task, {})
        case _:
            return score >= RIGHT
