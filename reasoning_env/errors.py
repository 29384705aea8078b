"""The package's exceptions, and how an error becomes one line for a user. Imports nothing of the package."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping, Sequence

NOTHING = object()
"""In place of a value that came: there is none to show."""


class ReasoningEnvError(Exception):
    """An error whose text is shown to a user as it is.

    problem: what was expected ("must be at least 1"), or what is wrong ("the folder cannot be made").
    setting: the setting at fault: `section.name`, in the core the bare name; an option by its own name (`--config`).
    got: the value that came; shown with `repr`.
    remedy: what to do. Settings in braces are shown by the name that the user knows: "correct {openai.base_url}".

    The text is `setting: problem; got VALUE; remedy`, without the parts that are missing. Code at the edge, which knows
    what the user typed, replaces `text`.
    """

    exit_code = 1
    """Status of a command that ends with this error."""

    def __init__(
        self, problem: str, *, setting: str | None = None, got: object = NOTHING, remedy: str | None = None
    ) -> None:
        self.problem = problem
        self.setting = setting
        self.got = None if got is NOTHING else repr(got)
        self.remedy = remedy
        # Exception.__init__ is not called: `args` stay the arguments of a subclass, from which a pickled error is made.
        self.text = self.describe()

    def __str__(self) -> str:
        return self.text

    def describe(self, names: Mapping[str, str] | None = None) -> str:
        """Return the error in one line.

        `names` has what the user calls a setting, by the name that the setting has here. A setting whose name is empty
        goes unnamed.
        """
        names = names or {}
        text = self.problem
        if self.setting is not None and (name := names.get(self.setting, self.setting)):
            text = f"{name}: {text}"
        if self.got is not None:
            text = f"{text}; got {self.got}"
        if self.remedy is not None:
            text = f"{text}; {_name_settings(self.remedy, names)}"
        return text


class ConfigError(ReasoningEnvError, ValueError):
    """A setting, an option or a file of the user cannot be used."""

    exit_code = 2


class SeveralConfigErrors(ConfigError):
    """Several settings cannot be used; the text has all of them."""

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        self.errors = tuple(errors)
        super().__init__("several settings cannot be used")

    def describe(self, names: Mapping[str, str] | None = None) -> str:
        return "; ".join(error.describe(names) for error in self.errors)


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

    def __init__(self, reference: str, reason: str, *, remedy: str | None = None) -> None:
        super().__init__(reason, setting=f"reference {reference[:200]!r}", remedy=remedy)


class WorkerError(ReasoningEnvError):
    """Worker processes cannot be started or kept alive at all."""


def did_you_mean(word: str, choices: Collection[str]) -> str | None:
    """Return the choices nearest to a word as a remedy, "did you mean gcd, lcm?"; None where nothing is near."""
    near = difflib.get_close_matches(word, choices, n=3)
    return f"did you mean {', '.join(near)}?" if near else None


def _name_settings(remedy: str, names: Mapping[str, str]) -> str:
    """Return the remedy with the user's names in place of the settings in braces."""
    return re.sub(r"\{([\w.]+)\}", lambda setting: names.get(setting[1]) or setting[1], remedy)
