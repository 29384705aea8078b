"""Use the user's score function as a source that scores answers and has no tasks.

The function is called as `function(completion, **row)` in verifier workers. It returns a number from 0 to 1, or a
mapping with `score` and other numbers. If it returns anything else, the answer scores 0, and the verdict has the error
message.
"""

from __future__ import annotations

import inspect
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..records import Problem, ProblemRequest, ProblemSpec, Row, Split
from ..runtime.text import short
from .contract import Answers, Generated, Source, SourceTask
from .modules import TaskModuleError, absolute_entry, import_module, read_paths

SCORE_TASK = "score"
"""The task name of each row, because a row of the user's data belongs to no task."""
MAX_VERDICT_PARTS = 32
"""Maximum number of values in a verdict besides the score."""
MAX_PART_NAME = 60  # so that a worker's reply has room for MAX_VERDICT_PARTS names
"""Maximum characters in the name of a number that the function returns besides the score."""


@dataclass(frozen=True)
class ScoreFunction:
    """A score function, and the permissions of its worker processes.

    - `name`: `MODULE:NAME`. MODULE is an importable name, or the path of a `.py` file.
    - `read`: files and folders that the function may read, besides those of Python and of its module.
    - `environment`: names of environment variables that the function may see.
    - `threads`: whether the function may start threads.

    Paths become absolute. Raises ConfigError if a path does not exist, or if the name is not a string.
    """

    name: str
    read: Sequence[str | Path] = ()
    environment: Sequence[str] = ()
    threads: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise ConfigError("must be a string of the form 'MODULE:FUNCTION'", setting="score", got=self.name)
        module, _, function = self.name.rpartition(":")
        paths = tuple(str(Path(path).expanduser().absolute()) for path in self.read)
        for path in paths:
            if not os.path.exists(path):
                raise ConfigError("there is no such file or folder", setting="read", got=path)
        object.__setattr__(self, "name", f"{absolute_entry(module)}:{function}" if module else self.name)
        object.__setattr__(self, "read", paths)


def problem_of_row(row: Row) -> Problem:
    """Convert a row to a `Problem`, which workers can score. Raises ConfigError if the row is not JSON-serializable."""
    return Problem(ProblemSpec(ProblemRequest(SCORE_TASK, 0), Split.TRAIN, 0), "", None, "{}", row_json(row).encode())


def row_json(row: Row) -> str:
    """Return a row as JSON. NumPy's arrays and numbers become lists and numbers; other objects raise ConfigError."""
    try:
        return json.dumps(dict(row), allow_nan=False, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"must be a JSON object ({error})", setting="row") from error


def check_row(row: Row, signature: inspect.Signature | None, *, setting: str = "row", name: str = "the row") -> None:
    """Raise ConfigError if the function does not accept the row's columns as arguments.

    `signature` is the function's signature; None if it is unknown. `name` is the row's name in the message.
    """
    if signature is None:
        return
    try:
        signature.bind("", **{str(column): None for column in row})
    except TypeError as error:
        raise ConfigError(
            f"the function does not accept {name}: {error}",
            setting=setting,
            got=sorted(map(str, row)),
            remedy="accept every column as an argument, or add **columns: the call is score(completion, **row)",
        ) from None


def read_signature(parameters: Sequence[tuple[str, str, bool]] | None) -> inspect.Signature | None:
    """Rebuild a signature from `FunctionSource.parameters`."""
    if parameters is None:
        return None
    nothing = inspect.Parameter.empty
    return inspect.Signature(
        [
            inspect.Parameter(name, getattr(inspect.Parameter, kind), default=None if has_default else nothing)
            for name, kind, has_default in parameters
        ]
    )


def _plain(value: object) -> object:
    if not hasattr(value, "tolist"):
        raise TypeError(f"{short(value)} cannot be written as JSON")
    return value.tolist()


class ScoreError(Exception):
    """The function returned an invalid score. The message shows the returned value."""


class FunctionSource(Source):
    """Scores rows with the user's function, and has no tasks. Raises TaskModuleError if the function cannot be used."""

    def __init__(self, name: str, folder: str | None) -> None:
        entry, _, attribute = name.rpartition(":")
        if not entry or not attribute:
            raise TaskModuleError(f"{name} must have the form MODULE:FUNCTION")
        if not attribute.isidentifier():
            raise TaskModuleError(
                f"{attribute} is not the plain name of a function; write a function that calls {attribute}"
            )
        module = import_module(entry, folder)
        function = getattr(module, attribute, None)
        if function is None:
            raise TaskModuleError(f"{entry} has no function {attribute}")
        self.parameters = _check_plain(name, function)
        """Name and kind of each parameter of the function, and whether it has a default. None if they are unknown."""
        self._function: Callable[..., Any] = function
        self.read_paths = read_paths(module)

    @property
    def tasks(self) -> Mapping[str, SourceTask]:
        return {}

    def generate(self, request: ProblemRequest) -> Generated:
        raise NotImplementedError("a score function cannot generate problems")

    def scorer(
        self, task: str, params: Mapping[str, object], entry: bytes, level: float | None, *, plainly: bool
    ) -> Answers:
        return ScoredRow(self._function, entry)

    def bare_scorer(
        self, task: str, params: Mapping[str, object], entry: bytes, level: float | None
    ) -> Callable[[str], object]:

        def verify(answer: str) -> object:
            returned = self._function(answer, **json.loads(entry))
            return returned.get("score") if isinstance(returned, Mapping) else returned

        return verify


class ScoredRow:
    """Scores completions of a row. Each call gets a new copy of the row, because the function may change it.

    `parts` are the numbers besides `score` that the last call returned.
    """

    def __init__(self, function: Callable[..., object], row_json: bytes) -> None:
        self._function = function
        self._row_json = row_json
        self.parts: Mapping[str, float] = {}

    def score(self, answer: str) -> float:
        """Return the score. Raises ScoreError for an invalid score, and any error that the function raises."""
        self.parts = {}
        returned = self._function(answer, **json.loads(self._row_json))
        if isinstance(returned, Mapping):
            if "score" not in returned:
                raise ScoreError(
                    "the function must return a number, or a mapping with `score`; got a mapping without `score`"
                )
            self.parts = _parts(returned)
            returned = returned["score"]
        number = as_number(returned)
        if number is None:
            raise ScoreError(f"the function must return a number from 0 to 1; got {_short(returned)}")
        if not 0.0 <= number <= 1.0:
            raise ScoreError(f"the function must return a number from 0 to 1; got {number!r}")
        return number


def _check_plain(name: str, function: Any) -> list[tuple[str, str, bool]] | None:
    """Return the function's parameters. Raises TaskModuleError if the function cannot be called with a completion."""
    if inspect.isclass(function):
        raise TaskModuleError(f"{name} must be a function; it is a class")
    if not callable(function):
        raise TaskModuleError(f"{name} must be a function; it is {_short(function)}")
    for called in (function, getattr(function, "__call__", None)):  # noqa: B004 - an object's own `__call__`
        if inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called):
            raise TaskModuleError(f"{name} is asynchronous; write a function without `async`")
        if inspect.isgeneratorfunction(called):
            raise TaskModuleError(f"{name} is a generator; write a function that returns the score")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # functions written in C may have no signature
        return None
    try:
        signature.bind_partial("")
    except TypeError:
        raise TaskModuleError(
            f"{name} does not accept a completion as its first argument; it is called as score(completion, **row)"
        ) from None
    return [
        (parameter.name, parameter.kind.name, parameter.default is not inspect.Parameter.empty)
        for parameter in signature.parameters.values()
    ]


def _parts(returned: Mapping[object, object]) -> dict[str, float]:
    """Return the numbers other than `score`. Raises ScoreError if there are too many, or if one is not finite."""
    parts = {}
    for name, value in returned.items():
        if name == "score":
            continue
        number = as_number(value)
        if number is None or not math.isfinite(number):
            raise ScoreError(f"{_short(name)} in the mapping must be a finite number; got {_short(value)}")
        if not isinstance(name, str) or len(name) > MAX_PART_NAME:
            raise ScoreError(
                f"names in the mapping must be strings of at most {MAX_PART_NAME} characters; got {_short(name)}"
            )
        parts[name] = number
    if len(parts) > MAX_VERDICT_PARTS:
        raise ScoreError(f"the mapping may have at most {MAX_VERDICT_PARTS} numbers besides `score`; got {len(parts)}")
    return parts


def as_number(value: Any) -> float | None:
    """Convert a number, NumPy number or boolean to a float; None for anything else."""
    if isinstance(value, (str, bytes, bytearray)) or value is None:
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _short(value: object) -> str:
    return repr(value)[:60]
