"""sympy: cache the deductions about a symbol or expression, and compute the sign of integers directly.

sympy deduces facts again for each new expression, which takes a third of the time of tasks that use sympy. Deduced
facts and their order depend only on the cache's key: the known facts, the new facts and sympy's rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import wraps
from typing import Any

Facts = Iterable[tuple[str, bool | None]]


def answer_integer_facts(integer: Any) -> None:
    """Compute the sign and the `complex()` of sympy's integers directly, without sympy's general evaluation."""
    to_complex = integer.__complex__
    integer._prop_handler["extended_positive"] = lambda self: self.p > 0
    integer._prop_handler["extended_negative"] = lambda self: self.p < 0
    # Larger numbers would be rounded, or are too large for a float.
    integer.__complex__ = lambda self: complex(self.p) if abs(self.p) < 2**53 else to_complex(self)


def cache_deductions(knowledge: Any) -> None:
    """Cache the deductions of sympy's class FactKB, which has facts and rules to deduce more facts."""
    deduce = knowledge.deduce_all_facts
    # The cache has about 1,000 entries after thousands of problems of all tasks. Programs of codeio may add some.
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
