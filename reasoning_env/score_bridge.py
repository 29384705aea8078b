"""A score function behind worker processes, on a thread of its own: `ScoreJudge` for code without an event loop.

    with ScoreBridge("my_rewards:score") as bridge:
        verdicts = bridge.judge({"answer": "42"}, ["so it is 42", "no idea"])  # None for an infrastructure error

With `judge_url`, a server that runs `judge --score MODULE:FUNCTION` calls the function, for all processes of a machine.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

from .errors import ClosedError, ConfigError, GenerationError, ScoringError, WorkerError
from .judging.client import JudgeClient
from .prompts.completions import Completion, read_completions
from .records import Row, Verdict
from .runtime.loop_thread import LoopThread
from .score_judge import ScoreJudge, check_row

logger = logging.getLogger(__name__)


class ScoreBridge(LoopThread):
    """Runs a `ScoreJudge` on a thread, or asks a server. It belongs to the process that made it.

    Args:
        function: `MODULE:FUNCTION`; None with `judge_url`.
        judge_url: Address of a `judge --score` server. No process is started then.
        judge_timeout_s: Seconds for the verdicts of that server on a row, waiting and further tries included.
        start: Start the processes now, and raise the errors of `ScoreJudge.start`. Otherwise the first call does.
        options: The other arguments of `ScoreJudge`.
    """

    def __init__(
        self,
        function: str | None = None,
        *,
        judge_url: str | None = None,
        judge_timeout_s: float = 120.0,
        start: bool = True,
        **options: Any,
    ) -> None:
        if (function is None) == (judge_url is None):
            raise ConfigError("give a function, or the address of a server as judge_url", setting="function")
        self._client = None if judge_url is None else JudgeClient(judge_url, judge_timeout_s)
        self._judge = None if function is None else ScoreJudge(function, **options)
        super().__init__()
        if start and self._judge is not None:
            self.start_now()

    def judge(self, row: Row, completions: Sequence[Completion]) -> list[Verdict | None]:
        """Return a verdict for each completion of a row, in order; all are None after an infrastructure error.

        Raises ConfigError for a row that is no JSON object, and RuntimeError after `close`. A server's refusal of the
        request is a ReasoningEnvError.
        """
        return self._run(self._verdicts(row, read_completions(completions)))

    async def ajudge(self, row: Row, completions: Sequence[Completion]) -> list[Verdict | None]:
        """Do the same as `judge`, for callers with an event loop."""
        return await self._wait(self._verdicts(row, read_completions(completions)))

    async def _start_work(self) -> None:
        if self._judge is not None:
            await self._judge.start()

    async def _end_work(self) -> None:
        if self._client is not None:
            await self._client.close()
        if self._judge is not None:
            await self._judge.close()

    async def _verdicts(self, row: Row, texts: Sequence[str]) -> list[Verdict | None]:
        try:
            if self._client is not None:
                return list(await self._client.judge(json.loads(check_row(row)), texts))
            assert self._judge is not None
            await self._start()
            return list(await self._judge.judge(row, texts))
        except ClosedError:
            raise
        except (GenerationError, ScoringError, WorkerError) as error:
            logger.warning("completions get no scores, because they could not be judged: %s", error)
            return [None] * len(texts)
