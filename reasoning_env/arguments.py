"""Read what callers pass to `Session` and `Bridge`: several forms work, and any other is a ConfigError of one line."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import ConfigError, did_you_mean
from .records import Problem, Reason, Verdict
from .settings import ReasoningSettings, make_settings

Completion = str | Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
"""A text, a message, a conversation that ends with the completion, or None for a model that wrote nothing."""


def read_settings(owner: type, settings: object, fields: Mapping[str, object]) -> ReasoningSettings:
    """Return the settings that a caller of `owner` gave, as an object or as keywords `fields`.

    Raises ConfigError for an unknown keyword, for a value out of range, and for both forms at once.
    """
    if settings is not None and not isinstance(settings, ReasoningSettings):
        remedy = f"pass keywords, as in {owner.__name__}(tasks=['gcd'])"
        raise ConfigError("must be ReasoningSettings", setting="settings", got=settings, remedy=remedy)
    parameters = inspect.signature(owner).parameters
    for name in fields:
        if name not in ReasoningSettings.model_fields:
            nearest = did_you_mean(name, [*ReasoningSettings.model_fields, *parameters])
            raise ConfigError("there is no such setting", setting=name, remedy=nearest)
    if settings is not None and fields:
        raise ConfigError(
            f"{', '.join(fields)} cannot stand beside `settings`",
            remedy=f"pass them to ReasoningSettings, or pass keywords to {owner.__name__} alone",
        )
    return settings or make_settings(ReasoningSettings, fields)


def check_whole_number(name: str, value: object, least: int) -> None:
    """Raise ConfigError unless the argument is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError("must be a whole number", setting=name, got=value)
    if value < least:
        raise ConfigError(f"must be at least {least}", setting=name, got=value)


def check_problem(problem: object) -> None:
    """Raise ConfigError unless the argument is a problem or the text of a reference."""
    if not isinstance(problem, (Problem, str)):
        raise ConfigError("must be a Problem, or the reference of a problem", setting="problem", got=problem)


def read_completions(completions: object) -> list[str]:
    """Return the texts of completions.

    A completion is a text, a message (a mapping with `content`), a conversation that ends with the completion, or None
    for a model that wrote nothing. Raises ConfigError for anything else.
    """
    if isinstance(completions, (str, bytes, Mapping)) or not isinstance(completions, Sequence):
        remedy = "for a single completion write [text]"
        raise ConfigError("must be a list of texts", setting="completions", got=_short(completions), remedy=remedy)
    return [_text(completion, number) for number, completion in enumerate(completions)]


def _text(completion: Any, number: int) -> str:
    if isinstance(completion, str):
        return completion
    if completion is None:
        return ""
    if isinstance(completion, Mapping) and "content" in completion:
        return _content(completion["content"], number)
    if isinstance(completion, Sequence) and completion and isinstance(completion[-1], Mapping):
        return _text(completion[-1], number)
    raise _no_completion(completion, number)


def _content(content: Any, number: int) -> str:
    """Return the text of a message's content, which may be a list of parts."""
    if isinstance(content, list) and all(isinstance(part, Mapping) for part in content):
        return "".join(part["text"] for part in content if isinstance(part.get("text"), str))
    if content is None or isinstance(content, str):
        return content or ""
    raise _no_completion(content, number)


def _no_completion(value: object, number: int) -> ConfigError:
    expected = "must be a text, a message with `content`, or None for no completion"
    return ConfigError(expected, setting=f"completions[{number}]", got=_short(value))


def read_verdicts(verdicts: object) -> list[Verdict | None]:
    """Return the verdicts of a group; a number from 0 to 1 is the caller's own score, and None a missing verdict.

    Raises ConfigError for anything else, and for no verdicts.
    """
    if isinstance(verdicts, (str, bytes, Mapping)) or not isinstance(verdicts, Sequence):
        raise ConfigError("must be a list of verdicts or scores", setting="verdicts", got=_short(verdicts))
    if not verdicts:
        remedy = "leave out `observe` for a group without completions"
        raise ConfigError("must hold a verdict at least", setting="verdicts", got=verdicts, remedy=remedy)
    return [_verdict(verdict, number) for number, verdict in enumerate(verdicts)]


def _verdict(verdict: object, number: int) -> Verdict | None:
    if verdict is None or isinstance(verdict, Verdict):
        return verdict
    if isinstance(verdict, (int, float)) and 0.0 <= verdict <= 1.0:
        return Verdict(float(verdict), Reason.SCORED)
    raise ConfigError("must be a verdict, or a score from 0 to 1", setting=f"verdicts[{number}]", got=_short(verdict))


def _short(value: object) -> object:
    """Return the value or, if its `repr` is long, what it is."""
    return value if len(repr(value)) <= 80 else type(value)
