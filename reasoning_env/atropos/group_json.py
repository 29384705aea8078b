"""Packed groups as JSON, for run-api and for files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic_core import to_json

SEQUENCES = ("tokens", "masks", "inference_logprobs")
"""The packed lists with a sequence of numbers for each rollout."""


def encode_members(fields: Mapping[str, Any]) -> bytes:
    """Return packed lists as the members of a JSON object, without its braces; to be called in a thread.

    Sequences are encoded by pydantic's core: json takes ten times as long for log-probabilities. Each by a call of its
    own, because a call holds the interpreter's lock until it is done. Raises TypeError or ValueError for what JSON
    cannot hold.
    """
    return b",".join(json.dumps(name).encode() + b":" + _encode(name, value) for name, value in fields.items())


def _encode(name: str, value: Any) -> bytes:
    if name in SEQUENCES and isinstance(value, list):
        return b"[" + b",".join(map(to_json, value)) + b"]"
    return json.dumps(value).encode()
