"""Run over an evaluation set: complete and score each problem, hand results on as they come."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from ..concurrency import do_as_they_come
from ..dumps.format import encode_group
from ..errors import ConfigError, RefusedError, ServerError, WorkerError
from ..records import DropReason, Group, Problem, Prompt, Rollout, Sampling, Timeouts
from ..rewards import AnswerScorer, extract_last_answer, score_texts
from ..settings import ReasoningSettings
from .problem_set import problem_key


class Completer(Protocol):
    """Gives completions; raises whatever its client raises."""

    async def complete(self, prompt: Prompt, n: int, sampling: Sampling, timeouts: Timeouts) -> list[Rollout]: ...


@dataclass(frozen=True)
class EvalResult:
    """One evaluated problem: its scored group, or why it has no rollouts, which is not a score of 0.

    `library_scores` are those of the library's own evaluation, None where nobody asked for them. `seconds` is how long
    the completions took, `failed` how many of them are missing.
    """

    group: Group
    library_scores: Sequence[float] | None = None
    seconds: float = 0.0
    failed: int = 0
    dropped: DropReason | None = None

    def line(self) -> bytes:
        """Return the line of samples.jsonl: that of a dump, with a few facts more."""
        facts: list[dict[str, object]] = [
            {
                "tokens": rollout.completion_tokens,
                "correct": rollout.verdict is not None and rollout.verdict.correct,
                "seconds": round(self.seconds, 3),
            }
            for rollout in self.group.rollouts
        ]
        for fact, score in zip(facts, self.library_scores or (), strict=False):
            fact["library_score"] = score
        more = {
            "problem": problem_key(self.group.problem),
            "failed": self.failed,
            "dropped": self.dropped and self.dropped.value,
        }
        return encode_group(self.group, more=more, more_of_rollouts=facts)


@dataclass(frozen=True)
class Evaluator:
    """Gets and scores `repeats` completions of each problem; `library_scores` adds the library's scores.

    `workers` problems are under way at a time. `note_dropped` is called for every problem that cannot be evaluated.
    """

    scorer: AnswerScorer
    completer: Completer
    make_prompt: Callable[[Problem], Prompt]
    sampling: Sampling
    settings: ReasoningSettings
    repeats: int
    library_scores: bool
    workers: int
    timeouts: Timeouts
    note_dropped: Callable[[Problem, DropReason, Exception], None]

    async def run(self, problems: AsyncIterable[Problem], on_result: Callable[[EvalResult], Awaitable[None]]) -> None:
        """Evaluate each problem as it comes, and await `on_result` with each result in order of arrival.

        Raises ServerError when `max_failed_groups_in_a_row` problems in a row failed, too long prompts apart,
        RefusedError and WorkerError at once, and what `on_result` does.
        """
        failures = 0

        async def evaluate(problem: Problem) -> None:
            nonlocal failures
            result = await self._evaluate(problem)
            await on_result(result)
            if result.dropped is not DropReason.PROMPT_TOO_LONG:
                failures = 0 if result.dropped is None else failures + 1
            if failures >= self.settings.max_failed_groups_in_a_row:
                raise ServerError(f"{failures} evaluation problems in a row failed; the log above says why")

        await do_as_they_come(evaluate, problems, at_once=self.workers)

    async def _evaluate(self, problem: Problem) -> EvalResult:
        prompt = await asyncio.to_thread(self.make_prompt, problem)
        budget, reason = self.sampling.completion_budget(prompt), DropReason.PROMPT_TOO_LONG
        started = time.monotonic()
        try:
            if budget < self.settings.min_completion_tokens:
                raise ConfigError(f"{budget} tokens are left for a completion")
            reason = DropReason.INFERENCE
            rollouts = await self.completer.complete(prompt, self.repeats, self.sampling, self.timeouts)
            seconds, reason = time.monotonic() - started, DropReason.SCORING
            return await self._score(Group(problem, prompt.messages, tuple(rollouts)), seconds)
        except (RefusedError, WorkerError):  # no other problem would fare better
            raise
        except Exception as error:  # of clients or of ours; it never becomes a score of 0
            self.note_dropped(problem, reason, error)
            return EvalResult(Group(problem, prompt.messages, ()), failed=self.repeats, dropped=reason)

    async def _score(self, group: Group, seconds: float) -> EvalResult:
        problem, limit = group.problem, self.settings.max_answer_bytes
        texts = [rollout.text for rollout in group.rollouts]
        verdicts = await score_texts(self.scorer, problem, texts, limit)
        scored = tuple(
            replace(rollout, verdict=verdict, score=verdict.score)
            for rollout, verdict in zip(group.rollouts, verdicts, strict=True)
        )
        library_scores = await self._score_plainly(problem, texts, limit) if self.library_scores else None
        return EvalResult(replace(group, rollouts=scored), library_scores, seconds)

    async def _score_plainly(self, problem: Problem, texts: Sequence[str], limit: int) -> list[float]:
        """Return the library's own scores: 0 for a missing answer, and where its verifier raises."""
        answers = await asyncio.to_thread(lambda: [extract_last_answer(text, limit) for text in texts])
        verdicts = iter(
            await self.scorer.score(problem, [answer for answer in answers if answer is not None], plainly=True)
        )
        return [0.0 if answer is None else next(verdicts).score for answer in answers]
