"""The interface between the workers and a source of problems: task names, problems, scores.

A source is created once, in the process that workers are forked from, and runs only in workers. reasoning-gym
(`workers/library.py`) is the first source. A module in `task_modules` with a function `make_source()` adds another one.
A source has three members:

- `tasks`: the names of its tasks, each with its category, its release, and whether it has levels
- `generate`: returns the problem of a task, seed, level and parameters; the same problem in every process
- `scorer`: returns an object that scores answers to a problem

Workers that generate problems never get model text. Workers that score answers run in a sandbox. If `score` of the
returned object raises an error, hangs or ends its process, the verdict has the reason.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ..records import ProblemRequest
from ..runtime.text import error_text


@dataclass(frozen=True)
class SourceTask:
    """A task of a source.

    - `release` is the task's version in `Problem.reference`; it must not contain a colon.
    - `has_levels` is whether a level changes the task's problems.
    - `left_out` is why training excludes the task by default; "" for other tasks, and for reasoning-gym's
      tasks, whose reasons are in `tasks.Task`.
    - `needs_trial`: whether each session generates one problem at its start, to find errors.
    """

    category: str
    release: str
    has_levels: bool
    left_out: str = ""
    needs_trial: bool = False


@dataclass(frozen=True)
class Generated:
    """A generated problem. `flawed` counts the problems that were rejected before this one, by cause.

    `entry` is the source's own record of the problem, which `scorer` gets unchanged. `answer` is None if many answers
    are right.
    """

    question: str
    answer: str | None
    metadata_json: str
    entry: bytes
    seed: int
    params: Mapping[str, object]
    level: float | None
    flawed: Mapping[str, int] = field(default_factory=dict)


class Answers(Protocol):
    """An object that scores answers to one problem.

    It may describe the last answer in two attributes, which become part of the verdict: `frames` (names of the
    formatting that `score` removed) and `parts` (numbers that explain the score, by name).
    """

    def score(self, answer: str) -> float:
        """Return the score of an answer, in [0, 1]. May raise any error; the answer then scores 0 with a reason."""
        ...


class Source(ABC):
    """A source of tasks; see the module's docstring."""

    @property
    @abstractmethod
    def tasks(self) -> Mapping[str, SourceTask]:
        """The tasks by name: CATEGORY/NAME, or NAME for reasoning-gym.

        Names have no colons, commas, spaces or wildcards.
        """

    @abstractmethod
    def generate(self, request: ProblemRequest) -> Generated:
        """Return the requested problem. Equal requests return equal problems in every process.

        May raise any error if the problem cannot be generated.
        """

    @abstractmethod
    def scorer(
        self, task: str, params: Mapping[str, object], entry: bytes, level: float | None, *, plainly: bool
    ) -> Answers:
        """Return the scorer of a problem that `generate` returned for these parameters and this level.

        If `plainly` is True, answers are scored as in the source's own evaluation. If this method raises an error,
        the error counts as an infrastructure error, and no answer gets a score.
        """

    def bare_scorer(
        self, task: str, params: Mapping[str, object], entry: bytes, level: float | None
    ) -> Callable[[str], object]:
        """Return the verifier of a problem, without checks of its return value. For audits only.

        Audits report scores outside [0, 1]. May raise the same errors as `scorer`.
        """
        return self.scorer(task, params, entry, level, plainly=True).score

    def check(self, task: str, params: Mapping[str, object], level: float | None) -> str | None:
        """Return in one line why a user's parameters cannot generate a problem; None if they can."""
        try:
            self.generate(ProblemRequest(task, 0, params, level))
        except Exception as error:
            as_json = json.dumps(dict(params), default=repr)
            return f"{task} cannot generate a problem with {as_json} ({error_text(error)})"
        return None

    def describe(self, task: str) -> Mapping[str, Mapping[str, object]]:
        """Return for each parameter its `default` and, if levels change the value, `levels` (values by level)."""
        return {}
