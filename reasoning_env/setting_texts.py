"""What the field of a setting says in words of its default and its range. Imports nothing of the package."""

from __future__ import annotations

from enum import Enum
from typing import Any

from pydantic.fields import FieldInfo

LIMITS = (("ge", "≥ {}"), ("gt", "> {}"), ("le", "≤ {}"), ("lt", "< {}"))
LONG_DEFAULT = 40


def default_text(field: FieldInfo) -> str:
    """Return the default as it would be written down; long texts and empty values are named."""
    value: Any = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, Enum):
        value = value.value
    text = str(value)
    if value in ("", [], None):
        return {"": "empty", "[]": "empty", "None": "none"}[text]
    return text if len(text) <= LONG_DEFAULT else "a text"


def range_text(field: FieldInfo) -> str:
    """Return the limits of a number, joined by commas; empty where there are none."""
    words = []
    for constraint in field.metadata:
        words += [
            template.format(getattr(constraint, limit)) for limit, template in LIMITS if hasattr(constraint, limit)
        ]
    return ", ".join(words)
