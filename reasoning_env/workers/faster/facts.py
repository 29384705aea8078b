"""sympy: remember what follows from the facts about a symbol or an expression, and know the sign of an integer.

sympy deduces the same facts for each new expression: a third of the time of the tasks that are made with it. The same
facts, in the same order: they follow from those that are known, from those that are new, and from sympy's rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import wraps
from typing import Any

Facts = Iterable[tuple[str, bool | None]]


def know_integers(integer: Any) -> None:
    """Let sympy's class Integer tell its sign and its complex number; sympy evaluates it like any other expression."""
    to_complex = integer.__complex__
    integer._prop_handler["extended_positive"] = lambda self: self.p > 0
    integer._prop_handler["extended_negative"] = lambda self: self.p < 0
    # Larger numbers are rounded, or too large for a float.
    integer.__complex__ = lambda self: complex(self.p) if abs(self.p) < 2**53 else to_complex(self)


def remember_deductions(knowledge: Any) -> None:
    """Replace the deductions of sympy's class FactKB, a mapping of facts that knows rules."""
    deduce = knowledge.deduce_all_facts
    # Some 1,000 after thousands of problems of all tasks; what a program of codeio invents comes on top.
    known: dict[object, Mapping[str, bool | None]] = {}

    @wraps(deduce)
    def deduce_all_facts(self: Any, facts: Mapping[str, bool | None] | Facts) -> None:
        new = tuple(facts.items() if isinstance(facts, Mapping) else facts)
        key = id(self.rules), tuple(self.items()), new
        if key in known:
            self.update(known[key])
        else:
            deduce(self, new)
            known[key] = dict(self)

    knowledge.deduce_all_facts = deduce_all_facts
