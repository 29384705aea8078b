"""The contract between the workers and a source of problems: names, problems, scores.

A source is made once, in the process that workers are forked from, and runs in workers only. reasoning-gym
(`workers/library.py`) is the first source. A module of `task_modules` with a function `make_source()` adds another, as
`examples/rlve_tasks.py` does. A source says three things:

- `tasks`: the names of its tasks, each with its category, its release, and whether it has levels
- `generate`: the problem of a task, a seed, a level and parameters, the same in every process
- `scorer`: what scores answers to such a problem

Generators never see model text. Verifiers read model text and are sandboxed: `Answers.score` may raise, hang or end its
process, and the pool turns the end into a reason. Pool, streams, references and reports know nothing else of a source.
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

    - `release` names what makes the task's problems, as references do; it holds no colon.
    - `has_levels` tells whether a level changes the task's problems.
    - `left_out` is why training leaves the task out unless it is named; "" for other tasks, and for reasoning-gym's, of
      which their declarations tell.
    - A task that `needs_trial` makes a problem at the start of a session, where its mistakes are errors.
    """

    category: str
    release: str
    has_levels: bool
    left_out: str = ""
    needs_trial: bool = False


@dataclass(frozen=True)
class Generated:
    """A problem. `flawed` counts the rejected problems that were generated before, by cause.

    `entry` is the source's own record, which its `scorer` gets back unchanged. `answer` is None where many are right.
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
    """The scorer of one problem.

    It may have two more attributes, which go to the caller with the verdict on the last answer: `frames`, the names of
    the frames that came off before the value was read, and `parts`, further numbers by name.
    """

    def score(self, answer: str) -> float:
        """Return the score of an answer, in [0, 1]. Raises any error; the answer then earns 0 with a reason."""
        ...


class Source(ABC):
    """Tasks of one kind; see the module."""

    @property
    @abstractmethod
    def tasks(self) -> Mapping[str, SourceTask]:
        """The tasks by name. A name is CATEGORY/NAME, except in reasoning-gym; no colon, comma, blank or wildcard."""

    @abstractmethod
    def generate(self, request: ProblemRequest) -> Generated:
        """Return the problem that is asked for. Equal requests give equal problems in every process.

        Raises any error if there is none.
        """

    @abstractmethod
    def scorer(
        self, task: str, params: Mapping[str, object], entry: bytes, level: float | None, *, plainly: bool
    ) -> Answers:
        """Return the scorer of a problem that `generate` made with these parameters, at this level.

        `plainly` asks for the scores of the source's own evaluation. Raises any error, which is an infrastructure
        error and never a score.
        """

    def bare_scorer(
        self, task: str, params: Mapping[str, object], entry: bytes, level: float | None
    ) -> Callable[[str], object]:
        """Return the verifier of a problem as its author wrote it, whatever it returns. For audits only.

        A score outside of [0, 1] is a finding then. Raises errors as `scorer` does.
        """
        return self.scorer(task, params, entry, level, plainly=True).score

    def check(self, task: str, params: Mapping[str, object], level: float | None) -> str | None:
        """Return the fault in a user's parameters, in one line; None if they make a problem."""
        try:
            self.generate(ProblemRequest(task, 0, params, level))
        except Exception as error:
            as_json = json.dumps(dict(params), default=repr)
            return f"{task}: no problem can be made with {as_json} ({error_text(error)})"
        return None

    def describe(self, task: str) -> Mapping[str, Mapping[str, object]]:
        """Return the parameters of a task by name, each with its `default` and, if levels move it, `levels`."""
        return {}
