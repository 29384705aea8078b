"""Where partial credit starts: at what the best answer without reasoning earns on the same problem."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from .guards import Entry
from .lazy import copies, filled_boards, ladders, layouts, pressed_alone, quotations

FORM_PAY = 0.1
"""The most that verifiers pay for the form of an answer, or for a right one in another form: it stays as it is."""


class PartialCredit:
    """Re-bases the partial credit of one problem; `score` is its verifier, which may raise anything.

    The floor is found when it is first needed: most answers are right or earn nothing.
    """

    def __init__(self, entry: Entry, score: Callable[[str], float]) -> None:
        self._entry = entry
        self._score = score

    def rebase(self, score: float) -> float:
        """Return (score - floor) / (1 - floor), at least FORM_PAY, of scores in (FORM_PAY, 1); others stay."""
        if not FORM_PAY < score < 1.0:
            return score
        return max(FORM_PAY, (score - self._floor) / (1.0 - self._floor))

    @cached_property
    def _floor(self) -> float:
        return max((earned for earned in map(self._earn, self._answers()) if earned < 1.0), default=0.0)

    def _answers(self) -> set[str]:
        question, answer = str(self._entry["question"]), self._entry.get("answer")
        found = {*copies(question).values(), *filled_boards(question).values(), *quotations(question)}
        return found.union(_guesses(self._entry), layouts(str(answer)).values() if answer is not None else ())

    def _earn(self, answer: str) -> float:
        try:
            return self._score(answer)
        except MemoryError:
            raise
        except BaseException:
            return 0.0


def _guesses(entry: Entry) -> list[str]:
    """Return answers that solve the entry in part without reasoning; there are none for most tasks."""
    metadata = entry.get("metadata")
    if not isinstance(metadata, dict):
        return []
    if "knight_knave_terms" in metadata:
        return _everybody(metadata)
    if "start_word" in metadata:
        return ladders(metadata["start_word"], metadata["end_word"])
    if "target_value" in metadata and "buttons" in metadata:
        return pressed_alone(metadata["buttons"], metadata["target_value"])
    return []


def _everybody(metadata: Mapping[str, Any]) -> list[str]:
    """The same said of everybody, or of every other."""
    knight, knave = (str(metadata["knight_knave_terms"][key]) for key in ("a_knight", "a_knave"))
    in_turn = ((knight, knight), (knave, knave), (knight, knave), (knave, knight))
    return [", ".join(f"{name} is {roles[n % 2]}" for n, name in enumerate(metadata["names"])) for roles in in_turn]
