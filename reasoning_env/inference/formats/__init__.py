"""The reply formats of inference servers. REPLY_FORMATS lists them; docs/development.md says how to add one."""

from collections.abc import Sequence

from ...errors import ConfigError, did_you_mean
from .choices import CHAT, TEXT
from .completions import COMPLETIONS
from .reply_format import ReplyFormat, ReplyKind
from .sglang import SGLANG
from .vllm import VLLM

REPLY_FORMATS: Sequence[ReplyFormat] = (VLLM, SGLANG, COMPLETIONS, TEXT, CHAT)
"""All formats, the best first. `auto` tries them in this order."""
AUTO = "auto"


def format_named(name: str) -> ReplyFormat | None:
    """Return the format for a value of `server_type`; None for `auto`. Raises ConfigError for an unknown name."""
    for reply_format in REPLY_FORMATS:
        if reply_format.name == name:
            return reply_format
    if name == AUTO:
        return None
    raise ConfigError(
        f"must be one of {', '.join(names_of_types())}",
        setting="openai.server_type",
        got=name,
        remedy=did_you_mean(name, names_of_types()),
    )


def check_type(name: str) -> str:
    """Return `name` if it is a valid value of the setting `server_type`. Raises ConfigError for an unknown name."""
    format_named(name)
    return name


def names_of_types() -> list[str]:
    """Return all allowed values of the setting `server_type`."""
    return [AUTO, *(reply_format.name for reply_format in REPLY_FORMATS)]


def names_of_kind(kind: ReplyKind) -> str:
    """Return the names of all formats whose replies are of this kind, as a phrase: `a, b or c`."""
    *names, last = [each.name for each in REPLY_FORMATS if each.kind is kind]
    return f"{', '.join(names)} or {last}" if names else last


def format_of_kind(kind: ReplyKind) -> ReplyFormat:
    """Return the most widely supported format of a kind: the last format of this kind in REPLY_FORMATS."""
    return [each for each in REPLY_FORMATS if each.kind is kind][-1]
