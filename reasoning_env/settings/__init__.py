"""Every setting of the core (`core.py`), and what a user writes for settings (`given.py`, `yaml_text.py`)."""

from .core import (
    NATIVE_SYSTEM_PROMPT,
    SYSTEM_PROMPT,
    Decided,
    ReasoningSettings,
    TemplateOptions,
    decides,
    fingerprint,
    read_settings,
)
from .given import check_whole_number, default_text, make_settings, range_text
from .yaml_text import DuplicateKeyError, load_yaml, parse_mapping

__all__ = [
    "NATIVE_SYSTEM_PROMPT",
    "SYSTEM_PROMPT",
    "Decided",
    "DuplicateKeyError",
    "ReasoningSettings",
    "TemplateOptions",
    "check_whole_number",
    "decides",
    "default_text",
    "fingerprint",
    "load_yaml",
    "make_settings",
    "parse_mapping",
    "range_text",
    "read_settings",
]
