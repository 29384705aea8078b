"""Judge completions by any score function, in sandboxed processes with limits.

    async with ScoreJudge("my_rewards:score") as judge:
        verdicts = await judge.judge({"answer": "42"}, ["so it is 42", "no idea"])

The function is `score(completion: str, **row) -> float | Mapping[str, float]`, with scores from 0 to 1. It runs in
worker processes: a completion that never ends, takes all memory or crashes the interpreter gets 0 with a reason, and
harms no other completion.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from .errors import ConfigError
from .prompts.completions import Completion, read_completions
from .records import Problem, ProblemRequest, ProblemSpec, Row, Split, Subject, Verdict
from .runtime.text import short
from .settings import ReasoningSettings, check_whole_number
from .sources.modules import absolute_entry
from .sources.score_function import SCORE_TASK, ScoreFunction
from .workers.pool import PoolSettings, WorkerPool

MAX_DEADLINE_S = 3600.0
MIN_MEMORY_MB = 512
"""The same bounds as those of the settings `scoring_deadline_s` and `worker_memory_mb`."""
NO_BUDGET_S = 86_400.0
"""Each completion has its own limit; in a group of many bad ones the others keep their scores."""


class ScoreJudge:
    """A score function behind a pool of worker processes, for one event loop. `async with` starts and closes it.

    Args:
        function: `MODULE:FUNCTION`. The module is a name that Python can import, or the path of a `.py` file.
        read: Files and folders that the function may read, besides Python's and its own module's.
        environment: Names of variables of this process that the function may see.
        threads: Whether the function may start threads.
        verifiers: Processes that score; None for one on each processor.
        deadline_s: Processor time, in seconds, for a completion; one that takes more gets 0.
        memory_mb: Memory of a process, in megabytes, besides what its module takes at import.
        sandbox: Whether the operating system restricts the processes. Off, only the limits hold.
    """

    def __init__(
        self,
        function: str,
        *,
        read: Sequence[str | Path] = (),
        environment: Sequence[str] = (),
        threads: bool = False,
        verifiers: int | None = None,
        deadline_s: float = 5.0,
        memory_mb: int = 1024,
        sandbox: bool = True,
    ) -> None:
        verifiers = (os.cpu_count() or 1) if verifiers is None else verifiers
        check_whole_number("verifiers", verifiers, least=1)
        check_whole_number("memory_mb", memory_mb, least=MIN_MEMORY_MB)
        if not 0.0 < deadline_s <= MAX_DEADLINE_S:
            raise ConfigError(f"must be over 0, and at most {MAX_DEADLINE_S:g}", setting="deadline_s", got=deadline_s)
        paths = tuple(str(Path(path).expanduser().absolute()) for path in read)
        for path in paths:
            if not os.path.exists(path):
                raise ConfigError("there is no such file or folder", setting="read", got=path)
        settings = ReasoningSettings(
            num_verifiers=verifiers,
            scoring_deadline_s=deadline_s,
            scoring_budget_s=NO_BUDGET_S,
            worker_memory_mb=memory_mb,
            sandbox_verifiers=sandbox,
        )
        self.settings = PoolSettings(
            settings,
            score_function=ScoreFunction(with_absolute_path(function), paths, tuple(environment), threads),
        )
        self.pool = WorkerPool(self.settings)

    async def start(self) -> None:
        """Start the processes. Raises ConfigError for a function that cannot be used, and WorkerError."""
        await self.pool.start()

    async def close(self) -> None:
        """End every process. Safe to call twice."""
        await self.pool.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, error_class: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def fault(self) -> str | None:
        """Why nothing can be judged at the moment, in one line; None while workers live."""
        return self.pool.fault

    async def judge(self, row: Subject, completions: Sequence[Completion]) -> list[Verdict]:
        """Return a verdict on each completion of a row, in order.

        A verdict has the score, a reason, and the function's further numbers as `parts`. An error of the function is
        the reason `verifier_error`, with its words as `error`. Raises ConfigError for a row that is no JSON object,
        ScoringError and WorkerError for infrastructure errors, which are no scores.
        """
        texts = read_completions(completions)
        if isinstance(row, str):
            raise ConfigError("must be a row, a JSON object", setting="row", got=row)
        entry = check_row(row).encode("utf-8", "surrogatepass")
        spec = ProblemSpec(ProblemRequest(SCORE_TASK, 0), Split.TRAIN, 0)
        return await self.pool.score(Problem(spec, "", None, "{}", entry), texts)


def check_row(row: Row) -> str:
    """Return a row as JSON; arrays and numbers of numpy become lists and numbers. Raises ConfigError for other rows."""
    try:
        return json.dumps(dict(row), allow_nan=False, ensure_ascii=False, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"must be a JSON object ({error})", setting="row") from error


def _plain(value: Any) -> Any:
    if not hasattr(value, "tolist"):
        raise TypeError(f"{short(value)} is no value of JSON")
    return value.tolist()


def with_absolute_path(function: str) -> str:
    """Return `MODULE:FUNCTION` with the absolute path of a file; the name of a module stays."""
    if not isinstance(function, str):
        raise ConfigError("must be a text, 'MODULE:FUNCTION'", setting="function", got=function)
    module, _, name = function.rpartition(":")
    return f"{absolute_entry(module)}:{name}" if module else function
