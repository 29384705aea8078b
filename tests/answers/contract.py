"""Limits for the scores of test answers: right answers get full score in every notation, wrong ones less."""

from __future__ import annotations

from collections.abc import Mapping

from .near_misses import STILL_RIGHT

RIGHT = 0.99
"""The lowest score that counts as right."""
MOST_WRONG = 0.98
"""The highest score that a nearly right answer may get, which is also the maximum of partial credit."""
CONTRACT = ("forms", "wrong_forms", "near_misses", "two_answers")
"""The kinds of test answers for which the right score is known."""
REFUSED: Mapping[tuple[str, str], str] = {
    ("codeio", "full-width digits"): "the question asks for a value of JSON, and this is another one",
    ("sentence_reordering", "a full stop"): "the answer ends in another mark",
}
"""Notations of right answers that the verifier may reject, by task and notation, with the reason."""


def breaks_contract(kind: str, task: str, name: str, score: float) -> bool:
    """Return True if the answer `name` of a kind in CONTRACT gets a score outside the limits of this kind."""
    match kind:
        case "forms":
            return score < RIGHT and (task, name) not in REFUSED
        case "near_misses":
            return score > MOST_WRONG and name not in STILL_RIGHT.get(task, {})
        case _:
            return score >= RIGHT
