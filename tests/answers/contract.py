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
OTHER_VALUE = "the question asks for a value of JSON, and this is another one"
NO_JSON = "the answer has quotes, with which the form is no JSON"
REFUSED: Mapping[tuple[str, str], str] = {
    ("boxnet", "a hyphen as list mark"): "a hyphen before text with parentheses may be the sign of a function",
    ("codeio", "JSON with newlines as they are"): OTHER_VALUE,
    ("codeio", "a hyphen as list mark"): "a hyphen before a value may be its sign",
    ("codeio", "an object of JSON"): OTHER_VALUE,
    ("codeio", "an object of JSON in a fence"): OTHER_VALUE,
    ("codeio", "an object of Python"): OTHER_VALUE,
    ("codeio", "full-width digits"): OTHER_VALUE,
    ("emoji_mystery", "JSON with newlines as they are"): NO_JSON,
    ("sentence_reordering", "JSON with newlines as they are"): NO_JSON,
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
