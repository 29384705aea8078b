"""The package's exceptions, each message with its remedy. Imports nothing of the package."""

from __future__ import annotations

import difflib
from collections.abc import Collection


class ReasoningEnvError(Exception):
    """Root of what this package raises on purpose; its text can be shown to a user as it is.

    `exit_code` is the status of a command that ends with it.
    """

    exit_code = 1


class ConfigError(ReasoningEnvError):
    """A setting that cannot work: says what was expected, what came and what to do."""

    exit_code = 2


class ServerError(ReasoningEnvError):
    """An inference server that is not there, or that cannot do what its type promises."""


class RefusedError(ServerError):
    """An inference server refuses requests as they are, and has never taken any: asking again is no use."""


class GenerationError(ReasoningEnvError):
    """A problem could not be generated: the task raised, died or ran into its deadline."""


class ScoringError(ReasoningEnvError):
    """Scoring failed through a fault of ours, twice; the group must be dropped, never scored 0."""


class InvalidReferenceError(ReasoningEnvError):
    """A problem's reference that cannot be read, or whose question comes out differently here."""

    exit_code = 2

    def __init__(self, reference: str, reason: str) -> None:
        super().__init__(reference, reason)

    def __str__(self) -> str:
        reference, reason = self.args
        return f"reference {reference[:200]!r}: {reason}"


class WorkerError(ReasoningEnvError):
    """Worker processes cannot be started or kept alive at all."""


def did_you_mean(word: str, choices: Collection[str]) -> str:
    """Return a hint at what may have been meant, to be put behind a message; empty when nothing is near."""
    near = difflib.get_close_matches(word, choices, n=3)
    return f"; did you mean {', '.join(near)}?" if near else ""
