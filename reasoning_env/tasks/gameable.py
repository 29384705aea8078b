"""Tasks whose verifiers are known to pay for an answer that knows nothing of the problem, with the reason for each.

Training leaves them out unless it is told otherwise. The audit shows those that strict rewards leave, and does not fail
because of them.
"""

from __future__ import annotations

from collections.abc import Mapping

STRICT: Mapping[str, str] = {}
"""Those that no correction mends yet."""

PLAIN: Mapping[str, str] = {
    "coin_flip": "0 is a prefix of every probability",
    "complex_arithmetic": "nan is at no distance from anything",
    "course_schedule": "naming both options contains the right one",
    "game_of_life": "an empty board has most cells right",
    "game_of_life_halting": "any text counts as True",
    "isomorphic_strings": "naming both options contains the right one",
    "number_sorting": "nan is in order with everything",
    "propositional_logic": "a premise follows from itself",
    "puzzle24": "the numbers need not be those of the question",
    "ransom_note": "naming both options contains the right one",
    "syllogism": "naming both options contains the right one",
    "time_intervals": "no time at all is near most times",
}
"""Those that only the corrections of strict rewards mend."""


def gameable_tasks(*, strict_rewards: bool) -> Mapping[str, str]:
    """The tasks that pay for nonsense, with the reasons, under strict rewards or the library's plain ones."""
    return STRICT if strict_rewards else {**PLAIN, **STRICT}
