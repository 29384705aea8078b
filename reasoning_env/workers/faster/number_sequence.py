"""number_sequence: give up at a term beyond 1000, before numbers of millions of digits are squared.

The same problems: the library rejects every sequence with a term beyond 1000, and one whose computation raises
OverflowError. Rules draw no random numbers when they are applied, so either rejection leaves the generator in the same
state. What is passed to `apply` are terms of the sequence itself: no rule that is generated has subrules.
"""

from __future__ import annotations

from typing import Any


def install(module: Any) -> None:
    apply = module.PatternRule.apply

    def apply_to_small_terms(self: Any, sequence: list[int], position: int) -> Any:
        if abs(sequence[position]) > 1000:  # the default of `PatternGenerator.is_interesting`, which nobody changes
            raise OverflowError
        return apply(self, sequence, position)

    module.PatternRule.apply = apply_to_small_terms
