"""A group as one line of strict JSON.

The text is ASCII: everything else is escaped, so no text of a model can end a line early or break the encoding, and a
lone surrogate reads back as itself. The one exception is JSON's own: a high surrogate that stands right before a low
one reads back as the single character that the two stand for.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from ..records import Group, Problem, Rollout

_encode = json.JSONEncoder(allow_nan=False).encode


def encode_group(group: Group) -> bytes:
    """The group's line, newline included.

    Values that JSON cannot hold (a NaN in the metadata, an enum among the parameters) are written as their text.
    Raises ValueError when `metadata_json` is not JSON.
    """
    # One call of the encoder holds the interpreter's lock until it is done. A call for each rollout lets the event loop
    # in between; one for a group of long completions would stall it for tens of milliseconds.
    prompt = "".join(
        _json({"role": message["role"], "content": message["content"]}) + ", " for message in group.messages
    )
    rollouts = ", ".join([_rollout(prompt, rollout) for rollout in group.rollouts])
    item_id, rest = _json(group.problem.task), _json(_facts(group.problem))
    return f'{{"item_id": {item_id}, "rollouts": [{rollouts}], {rest[1:]}\n'.encode("ascii")


def _rollout(prompt: str, rollout: Rollout) -> str:
    """One rollout as JSON; `prompt` is that of the messages before the completion, each with its comma."""
    verdict = rollout.verdict
    # A call of the encoder for a text costs a tenth of one for a mapping, and there are many rollouts.
    return (
        f'{{"conversation": [{prompt}{{"role": "assistant", "content": {_json(rollout.text)}}}], '
        f'"score": {_number(rollout.score)}, '
        f'"reason": {_json(verdict.reason.value) if verdict else "null"}, '
        f'"answer": {"null" if verdict is None or verdict.answer is None else _json(verdict.answer)}, '
        f'"finish_reason": {_json(rollout.finish_reason)}, '
        f'"verifier_score": {_number(verdict.score) if verdict else "null"}}}'
    )


def _number(value: float) -> str:
    return float.__repr__(value) if type(value) is float and math.isfinite(value) else _json(value)


def _facts(problem: Problem) -> dict[str, Any]:
    return {
        "seed": problem.spec.seed,
        "index": problem.spec.index,
        "split": problem.spec.split.value,
        "params": problem.params,
        "level": problem.level,
        "expected_answer": problem.answer,
        "metadata": json.loads(problem.metadata_json),
    }


def _json(value: Any) -> str:
    try:
        return _encode(value)
    except (TypeError, ValueError):
        # Rare, so only a value that needs it pays for the slow walk over everything in it.
        return _encode(_plain(value))


def _plain(value: Any) -> Any:
    """The value with everything that JSON cannot hold replaced by its text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (str, int)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)
