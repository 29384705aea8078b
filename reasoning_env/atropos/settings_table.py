"""The table of all settings, as Markdown, made from the config class itself."""

from __future__ import annotations

from enum import Enum
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from ..settings import ReasoningSettings
from .config import BASE_RANGES

LIMITS = (("ge", "≥ {}"), ("gt", "> {}"), ("le", "≤ {}"), ("lt", "< {}"))
LONG_DEFAULT = 40


def settings_table(config_cls: type[BaseModel]) -> str:
    """Return two tables: this environment's settings, then Atropos', with default, range and description."""
    own = {name: field for name, field in config_cls.model_fields.items() if name in ReasoningSettings.model_fields}
    others = {name: field for name, field in config_cls.model_fields.items() if name not in own}
    return "\n".join(
        [
            "#### This environment's settings",
            "",
            *_rows(own),
            "",
            "#### Atropos' settings",
            "",
            *_rows(others),
        ]
    )


def _rows(fields: dict[str, FieldInfo]) -> list[str]:
    rows = ["| setting | default | range | meaning |", "| --- | --- | --- | --- |"]
    for name, field in fields.items():
        cells = (f"`{name}`", default_text(field), range_text(name, field), field.description or "")
        rows.append("| " + " | ".join(" ".join(cell.replace("|", "\\|").split()) for cell in cells) + " |")
    return rows


def default_text(field: FieldInfo) -> str:
    """Return a setting's default as Markdown."""
    value: Any = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, Enum):
        value = value.value
    text = str(value)
    if value in ("", [], None):
        return {"": "empty", "[]": "empty", "None": "none"}[text]
    return f"`{text}`" if len(text) <= LONG_DEFAULT else "a text"


def range_text(name: str, field: FieldInfo) -> str:
    """Return in words what a setting allows; empty where its type says it all."""
    if name in BASE_RANGES:
        return BASE_RANGES[name].words
    words = []
    for constraint in field.metadata:
        words += [
            template.format(getattr(constraint, limit)) for limit, template in LIMITS if hasattr(constraint, limit)
        ]
    return ", ".join(words)
