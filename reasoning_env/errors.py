"""The package's exceptions, the model of errors, and the line that a user reads. Imports nothing of the package.

Every failure has one of six causes. The cause decides what follows; the module in brackets makes the decision.

The user: a setting, an option, a file or a reference cannot be used.
    Nothing is retried. The command ends with one line and status 2 (`commands/main.py`), before the first problem
    where the fault can be seen by then. Over HTTP, a wrong reference is status 422 (`judging/server.py`). A score
    function that raises at every completion is found after the first hundred (`metrics/own_verifiers.py`), and is
    status 503 over HTTP.
    ConfigError, SeveralConfigErrors, InvalidReferenceError, RaisingFunctionError

The inference server: the server is away, busy or slow, refuses a request, or sends no usable reply.
    At the start, an absent server is waited for; a server that cannot be used ends the run
    (`inference/addresses.py`). Later a failed request is sent again, or its group is dropped, or the
    run ends (`decide` in `inference/failures.py`). `process` and `evaluate` also end after too many
    failures in a row (`atropos/run.py`, `evaluations/run.py`). A completion that the server breaks off is such a
    failure (`Ending` in `records.py`).
    ServerError, RefusedError, TimeoutError

The trainer's API, which takes the groups: the API is away, or refuses a group.
    At the start, the API is waited for; another server at its address ends the run. Later a request is sent again
    for as long as it takes (`atropos/run_api.py`), and scored groups wait. A group is dropped only if the API
    refuses the group itself, or if JSON cannot hold the group (`atropos/delivery.py`).
    ServerError

The library: a task cannot generate a problem: the task raises, passes its deadline, or ends two workers by itself.
    Another problem is drawn. A task that fails several times in a row is quarantined; the run ends when all tasks
    are (`problems/stream.py`). After several draws a problem of the evaluation set is left out
    (`problems/evaluation_set.py`). Over HTTP, the reference of such a problem is status 422 (`judging/server.py`).
    GenerationError

The infrastructure: a worker process is killed or cannot be started, the machine is too slow, a disk is full.
    A job is done once more on a fresh worker, and twice more if somebody kills its worker (`workers/pool.py`,
    `workers/scoring.py`). A group that has no verdicts then is dropped; a group that takes more processor time than
    its budget is dropped at once. A problem of a stream or an evaluation is generated again, for as long as it takes
    (`problems/stream.py`). Workers that cannot be started are tried again for as long as the pool is open, and jobs
    fail meanwhile. Over HTTP, missing verdicts are status 503 (`judging/server.py`); for a bridge they are None
    (`bridge.py`). A full disk ends `process`, `evaluate`, `problems` and `rescore`, and what is written stays
    (`storage/files.py`). Dumps wait in memory, up to a limit, and are dropped above the limit
    (`dumps/writer.py`). A damaged checkpoint is passed over (`storage/checkpoints.py`).
    ScoringError, WorkerError (ClosedError: the user closed the workers), OutputError, CheckpointError

    An unexpected error while a problem is generated is our bug, and most likely comes again with the same problem.
    Nothing is repeated: another problem is drawn, as after an error of the library. Over HTTP, the error is status 500.
    GeneratorFaultError

The model: a completion has no single answer, or the verifier cannot judge the answer.
    Only here does a failure score 0, and no error is raised. The verdict has the reason: no answer, several
    answers, an answer that is unclosed, empty or too long (`rewards.py`), an answer at which the verifier raises
    (`workers/child.py`), takes too long, or ends two workers (`workers/scoring.py`): by their memory limit, a fatal
    signal, an exit or a broken reply. A kill from outside is an infrastructure error.

A dropped group is counted in `dropped/REASON` with a `DropReason` (`records.py`), logged, and never scored 0. An
unexpected error in the steps of a group drops the group too (`reasoning_gym_environment.py`, `evaluations/run.py`).
Elsewhere an unexpected error is a bug, and ends the command with a traceback.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping, Sequence

NOTHING = object()
"""Marks that an error shows no value."""


class ReasoningEnvError(Exception):
    """An error whose text is shown to the user unchanged.

    Args:
        problem: What was expected ("must be at least 1"), or what is wrong ("the folder cannot be made").
        setting: The wrong setting: `section.name`, in the core the bare name, or an option (`--config`).
        got: The wrong value; shown with `repr`.
        remedy: What to do. Settings in braces are shown by the name that the user knows: "correct {openai.base_url}".

    The text is `setting: problem; got VALUE; remedy`, without the missing parts. Code that knows what the user typed
    replaces `text`.
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
        # Exception.__init__ is not called, so that `args` are the subclass's arguments, which unpickling needs.
        self.text = self.describe()

    def __str__(self) -> str:
        return self.text

    def describe(self, names: Mapping[str, str] | None = None) -> str:
        """Return the error as one line.

        `names` maps settings to the names that the user knows. A setting with an empty name is not shown.
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


class RaisingFunctionError(ConfigError):
    """The user's score function raised at every completion so far, so it would raise at later ones too.

    Args:
        count: Number of completions so far.
        first_error: The error at the first completion.
    """

    def __init__(self, count: int, first_error: str) -> None:
        super().__init__(
            f"the function raised an error at each of the first {count} completions; the first error: {first_error}",
            setting="score",
            remedy="correct the function, and test it with `audit --score`",
        )


class ServerError(ReasoningEnvError):
    """A server is unreachable, refuses a request, or does not support its type."""


class RefusedError(ServerError):
    """The inference server refuses all requests and never accepted one, so no other group can succeed."""


class GenerationError(ReasoningEnvError):
    """A problem cannot be generated."""


class GeneratorFaultError(GenerationError):
    """A problem cannot be generated because of an unexpected error in our code, not in its task or parameters."""


class ScoringError(ReasoningEnvError):
    """A group cannot be scored: an infrastructure error persists, or scoring takes more CPU time than allowed."""


class InvalidReferenceError(ReasoningEnvError):
    """The reference of a problem cannot be read, or gives another question here."""

    exit_code = 2

    def __init__(self, reference: str, reason: str, *, remedy: str | None = None) -> None:
        super().__init__(reason, setting=f"reference {reference[:200]!r}", remedy=remedy)


class WorkerError(ReasoningEnvError):
    """Worker processes cannot be started or kept alive at the moment. A later call may succeed."""


class ClosedError(WorkerError):
    """The workers were closed by their user. No later call succeeds."""


def did_you_mean(word: str, choices: Collection[str]) -> str | None:
    """Return the most similar choices as a remedy, "did you mean gcd, lcm?"; None if no choice is similar."""
    near = difflib.get_close_matches(word, choices, n=3)
    return f"did you mean {', '.join(near)}?" if near else None


def _name_settings(remedy: str, names: Mapping[str, str]) -> str:
    """Return the remedy with settings in braces replaced by the user's names."""
    return re.sub(r"\{([\w.]+)\}", lambda setting: names.get(setting[1]) or setting[1], remedy)
