"""The log of commands that run for a while: on stderr, lines that a user can act on, without keys."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from ..runtime.terminal import StderrHandler


def start_log(secrets: Sequence[str], *, quiet: bool = False, verbose: bool = False) -> None:
    """Send all logs to stderr; of other packages' logs only lines that a user can act on.

    `verbose` adds records with a `detail`, and the name of the logger to each line.
    """
    handler = StderrHandler()
    who = " %(name)s" if verbose else ""
    handler.setFormatter(RedactingFormatter(f"%(asctime)s %(levelname)s{who}: %(message)s", secrets))
    handler.addFilter(lambda record: verbose or not getattr(record, "detail", False))
    if quiet:
        handler.setLevel(logging.WARNING)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    # Python's warnings come from Atropos and its dependencies, for developers.
    logging.captureWarnings(True)
    for name in ("httpx", "httpx2", "openai"):  # a line for each request
        logging.getLogger(name).setLevel(logging.WARNING)
    # Lines for each try to reach the hub, and warnings for developers. A lasting failure is an error of ours.
    for name in ("huggingface_hub", "py.warnings"):
        logging.getLogger(name).setLevel(logging.ERROR)


def usable_as_secrets(texts: Iterable[str | None]) -> list[str]:
    """Return the texts that may be keys. Shorter texts are no keys: `x` means no key, and is part of too many words."""
    return sorted({text for text in texts if text and len(text) >= 4})


def redact(text: str, secrets: Sequence[str]) -> str:
    """Return the text without the secrets: a server may repeat a key in its error."""
    for secret in sorted(secrets, key=len, reverse=True):  # one may be part of another
        text = text.replace(secret, "<key>")
    return text


class RedactingFormatter(logging.Formatter):
    """Formats a log line, then takes the secrets out of it, tracebacks included."""

    def __init__(self, pattern: str, secrets: Sequence[str]) -> None:
        super().__init__(pattern)
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record), self._secrets)
