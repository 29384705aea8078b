"""The package's exceptions, and how the package handles each cause of failure. Imports no other module of the package.

Each paragraph below names a cause, how the package handles it (with the files of the code), and the exceptions.

The user: a setting, an option, a file or the reference of a problem cannot be used.
    The command ends with one line and status 2 (`commands/main.py`), if possible before the first problem. Over HTTP,
    an invalid reference gets status 422 (`judging/server.py`). If a score function raises at each of the first hundred
    completions, the command ends in the same way (`metrics/own_verifiers.py`); over HTTP, requests then get status 503.
    ConfigError, SeveralConfigErrors, InvalidReferenceError, RaisingFunctionError

The inference server: the server is unreachable, busy or slow, refuses a request, or sends no usable reply.
    At the start, the run waits until the server is reachable, and ends if the server then cannot be used
    (`inference/addresses.py`). Later, the request is retried, the group is dropped, or the run ends (`decide` in
    `inference/failures.py`). `process` and `evaluate` end after too many failures in a row (`atropos/run.py`,
    `evaluations/run.py`). An aborted completion is a failure (`Ending` in `records.py`).
    ServerError, RefusedError, TimeoutError

The trainer's API, which receives the groups: the API is unreachable, or refuses a group.
    At the start, the run waits for the API, and ends if a different server answers. Later, requests are retried without
    limit (`atropos/run_api.py`). Groups wait meanwhile. A group is dropped if the API refuses the group itself, or if
    the group cannot be written as JSON (`atropos/delivery.py`).
    ServerError

The library: while a task generates a problem, the task raises, exceeds its time limit, or crashes two workers.
    A different seed is tried. A task that fails several times in a row is no longer sampled; the run ends when no task
    is left (`problems/stream.py`). The evaluation set omits a problem after several failures
    (`problems/evaluation_set.py`). Over HTTP: status 422 (`judging/server.py`).
    GenerationError

The infrastructure: a worker process is killed or cannot be started, the machine is too slow, a disk is full.
    A job is retried on a fresh worker: once, or up to twice if another process kills the workers (`workers/pool.py`,
    `workers/scoring.py`). Then the group is dropped. A group that exceeds its limit of CPU time is dropped at once.
    Generation for training or evaluation is retried without limit (`problems/stream.py`). If workers cannot be started,
    jobs fail, and the pool keeps trying. Missing verdicts are status 503 over HTTP (`judging/server.py`) and None in a
    bridge (`bridge.py`). A full disk ends `process`, `evaluate`, `problems` and `rescore`; written data remain
    (`storage/files.py`). Dumps wait in memory up to a limit (`dumps/writer.py`). A damaged checkpoint is skipped
    (`storage/checkpoints.py`).
    ScoringError, WorkerError (ClosedError: the user closed the workers), OutputError, CheckpointError

This package: an unexpected error in its code while a problem is generated.
    A different problem is generated, because the same one would most likely fail again. Over HTTP: status 500.
    GeneratorFaultError

The model: a completion has no single answer, or the verifier cannot judge the answer.
    Only here does a failure score 0. No error is raised. The verdict has the reason: no answer, several answers,
    an answer that is unclosed, empty or too long (`rewards.py`), or an answer for which the verifier raises
    (`workers/child.py`), takes too long, or ends two workers in turn (`workers/scoring.py`). An answer ends a worker by
    excessive memory, a fatal signal, an exit or an invalid reply. A kill from outside is an infrastructure error.

A dropped group is counted in `dropped/REASON` (`DropReason` in `records.py`), logged, and never scored 0. An unexpected
error while a group is sampled or scored drops the group too. Anywhere else, an unexpected error is a bug and ends the
command with a traceback.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping, Sequence

NO_VALUE = object()
"""Default of `got`: there is no wrong value to show. None itself may be a wrong value."""


class ReasoningEnvError(Exception):
    """An error whose text is shown to the user unchanged.

    Args:
        problem: What was expected ("must be at least 1"), or what is wrong ("the folder cannot be made").
        setting: The wrong setting, parameter or option, such as `env.seed`, `level` or `--config`.
        got: The wrong value; shown with `repr`.
        remedy: What to do. Settings in braces are shown by the name that the user knows: "correct {openai.base_url}".

    `text` is `setting: problem; got VALUE; remedy`, without the missing parts. The command line replaces the names of
    settings in `text` by the names that the user typed.
    """

    exit_code = 1
    """Exit status of a command that ends with this error."""

    def __init__(
        self, problem: str, *, setting: str | None = None, got: object = NO_VALUE, remedy: str | None = None
    ) -> None:
        self.problem = problem
        self.setting = setting
        self.got = None if got is NO_VALUE else repr(got)
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
    """A setting, an option or a file that the user gave cannot be used."""

    exit_code = 2


class SeveralConfigErrors(ConfigError):
    """Several settings cannot be used. The message has a sentence about each of them."""

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        self.errors = tuple(errors)
        super().__init__("several settings are invalid")

    def describe(self, names: Mapping[str, str] | None = None) -> str:
        return "; ".join(error.describe(names) for error in self.errors)


class RaisingFunctionError(ConfigError):
    """The user's score function raised an error at every completion so far.

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
    """A server is unreachable, refuses a request, or does not support its configured `server_type`."""


class RefusedError(ServerError):
    """The inference server has refused every request so far, so no group can succeed."""


class GenerationError(ReasoningEnvError):
    """A problem cannot be generated."""


class GeneratorFaultError(GenerationError):
    """A problem cannot be generated: an unexpected error in this package, not in the problem's task or parameters."""


class ScoringError(ReasoningEnvError):
    """A group cannot be scored: an infrastructure error persists, or scoring takes more CPU time than allowed."""


class InvalidReferenceError(ReasoningEnvError):
    """A problem's reference is invalid, or the reasoning-gym in use generates another question from the reference."""

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
    """Return the remedy with each `{setting}` replaced by the name in `names`, such as `--env.seed`."""
    return re.sub(r"\{([\w.]+)\}", lambda setting: names.get(setting[1]) or setting[1], remedy)
