"""Score model text safely with the library's verifiers, and find problems that must not be served.

Runs inside workers only. Nothing here imports reasoning_gym; callers pass the library's datasets.
"""

from __future__ import annotations

from collections.abc import Collection

from ..library_facts import facts
from .clarifications import clarify
from .flaws import Cause, Flaw, find_flaw, flaw_of_error
from .options import option, seed_picks
from .right_answers import with_right_answer
from .scoring import Scorer

__all__ = [
    "Cause",
    "Flaw",
    "Scorer",
    "clarify",
    "find_flaw",
    "flaw_of_error",
    "option",
    "preload",
    "seed_picks",
    "with_right_answer",
]


def preload(tasks: Collection[str]) -> None:
    """Import the late imports of some tasks' verifiers now, so that forked workers share the modules."""
    if any(facts(task).algebraic for task in tasks):
        from .grammars import algebra

        algebra.is_antiderivative("x**2/2", "x", "x")  # sympy imports most of itself when it first simplifies
