"""number_sequence: give a sequence up at its first term beyond 1000, before numbers of millions of digits are squared.

The same problems: the library rejects every sequence with a term beyond 1000, and one whose computation raises
OverflowError. Rules draw no random numbers when they are applied, so either rejection leaves the generator in the same
state. What is passed to `apply` are terms of the sequence itself: no rule that is generated has subrules.
"""

from __future__ import annotations

from typing import Any

from .replacement import FindModule, Replacement

LARGEST = 1000
"""The default of `PatternGenerator.is_interesting`, which is all that it is called with."""


def install(find_module: FindModule) -> None:
    rule = find_module("cognition.number_sequences").PatternRule
    apply = rule.apply

    def apply_to_small_terms(self: Any, sequence: list[int], position: int) -> Any:
        if abs(sequence[position]) > LARGEST:
            raise OverflowError
        return apply(self, sequence, position)

    rule.apply = apply_to_small_terms


REPLACEMENTS = (Replacement("number_sequence", "cognition/number_sequences.py", "55e52b526312c06e", install),)
