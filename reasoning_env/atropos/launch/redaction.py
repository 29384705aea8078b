"""Keep keys out of what a command prints and logs."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

from atroposlib.envs.server_handling.server_baseline import ServerBaseline

KEY_VARIABLES = ("OPENAI_API_KEY", "WANDB_API_KEY", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
SHORTEST = 4
"""Characters from which a key is one: `x` stands for none, and is part of too many words."""
HIDDEN = "<key>"


def find_secrets(servers: ServerBaseline | Iterable[ServerBaseline]) -> list[str]:
    """Return servers' keys, passwords in their URLs and the keys in KEY_VARIABLES, the longest first."""
    found = [os.environ.get(name) for name in KEY_VARIABLES]
    for server in [servers] if isinstance(servers, ServerBaseline) else servers:
        key = str(getattr(server, "api_key", None) or "")
        found += [os.environ.get(key[1:]) if key.startswith("$") else key]
        found += [urlsplit(getattr(server, "base_url", None) or "").password]
    # The longest first: one may be part of another.
    return sorted({secret for secret in found if secret and len(secret) >= SHORTEST}, key=len, reverse=True)


def redact(text: str, secrets: Sequence[str]) -> str:
    """Return the text without the secrets: a server may repeat a key in its error."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return text


class RedactingFormatter(logging.Formatter):
    """Formats a log line, then takes the secrets out of it, tracebacks included."""

    def __init__(self, pattern: str, secrets: Sequence[str]) -> None:
        super().__init__(pattern)
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record), self._secrets)
