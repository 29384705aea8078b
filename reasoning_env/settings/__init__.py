"""Every setting of the core (`core.py`), and what a user writes for settings (`given.py`)."""

from .core import (
    NATIVE_SYSTEM_PROMPT,
    SYSTEM_PROMPT,
    Decided,
    Decides,
    ReasoningSettings,
    Rewards,
    TemplateOptions,
    decides,
    fingerprint,
    read_settings,
)
from .given import (
    DuplicateKeyError,
    check_whole_number,
    default_text,
    load_yaml,
    make_settings,
    meaning,
    parse_mapping,
    range_text,
)

__all__ = [
    "NATIVE_SYSTEM_PROMPT",
    "SYSTEM_PROMPT",
    "Decided",
    "Decides",
    "DuplicateKeyError",
    "ReasoningSettings",
    "Rewards",
    "TemplateOptions",
    "check_whole_number",
    "decides",
    "default_text",
    "fingerprint",
    "load_yaml",
    "make_settings",
    "meaning",
    "parse_mapping",
    "range_text",
    "read_settings",
]
