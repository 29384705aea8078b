"""Evaluate a model on a set: complete and judge each problem, write each result, and summarise the results.

`Evaluator` evaluates problems. `Evaluation` is one run over a set, from the first problem to results.json. Its folder
keeps the problems that are done, whatever ends the run.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from ..dumps.format import DumpedGroup, encode_group
from ..errors import ConfigError, RefusedError, ServerError
from ..metrics.outcomes import Tally
from ..prompts.thinking import Thinking
from ..records import DropReason, Group, Problem, Prompt, Rollout, Sampling, Timeouts, Verdict
from ..rewards import AnswerScorer
from ..runtime.concurrency import do_as_they_come
from ..runtime.terminal import progress_bar
from ..settings import ReasoningSettings
from .folder import EvaluationFolder, Results
from .presets import Preset, compare_published
from .problem_set import EvaluationSet, set_fingerprint
from .summary import combine, summarise, tally_by_task


class Completer(Protocol):
    """The inference client: returns `n` completions of a prompt; may raise any error."""

    async def complete(self, prompt: Prompt, n: int, sampling: Sampling, timeouts: Timeouts) -> list[Rollout]: ...


@dataclass(frozen=True)
class EvaluatedProblem:
    """A problem's judged group, or a group without rollouts and the reason `dropped`, which is no score of 0.

    `library_scores` has the library's own score of each rollout; None without a preset. `seconds` is the time until the
    completions were there, `failed` the number of completions that the server never gave.
    """

    group: Group
    library_scores: Sequence[float] | None = None
    seconds: float = 0.0
    failed: int = 0
    dropped: DropReason | None = None

    def line(self) -> bytes:
        """Return the line of samples.jsonl: the line of a dump with more keys (see `folder.py`)."""
        facts: list[dict[str, object]] = [
            {
                "correct": rollout.verdict is not None and rollout.verdict.correct,
                "seconds": round(self.seconds, 3),
            }
            for rollout in self.group.rollouts
        ]
        if self.library_scores is not None:
            for fact, score in zip(facts, self.library_scores, strict=True):
                fact["library_score"] = score
        more = {"failed": self.failed, "dropped": None if self.dropped is None else self.dropped.value}
        return encode_group(self.group, more=more, more_of_rollouts=facts)


@dataclass(frozen=True)
class Evaluator:
    """Requests and judges `repeats` completions of each problem.

    `judge` is the session's. `plain_scorer`, the worker pool, adds the library's own scores; None without a preset.
    `workers` problems are evaluated at a time. `note_dropped` is called for each problem that cannot be evaluated.
    """

    judge: Callable[[Problem, Sequence[str]], Awaitable[Sequence[Verdict]]]
    plain_scorer: AnswerScorer | None
    completer: Completer
    make_prompt: Callable[[Problem], Prompt]
    sampling: Sampling
    settings: ReasoningSettings
    thinking: Thinking
    repeats: int
    workers: int
    timeouts: Timeouts
    note_dropped: Callable[[Problem, DropReason, Exception], None]

    async def run(
        self, problems: AsyncIterable[Problem], on_result: Callable[[EvaluatedProblem], Awaitable[None]]
    ) -> None:
        """Evaluate problems, and await `on_result` with each result in order of arrival.

        Raises the errors of `on_result`, and:

        - ServerError: `max_failed_groups_in_a_row` problems in a row failed; prompts that are too long do not count
        - RefusedError: the server refuses a request that every problem would make
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

    async def _evaluate(self, problem: Problem) -> EvaluatedProblem:
        """Complete and judge a problem. An infrastructure error drops the problem; it is never a score of 0."""
        prompt = await asyncio.to_thread(self.make_prompt, problem)
        budget = self.sampling.completion_budget(prompt)
        if budget < self._least_budget():
            error = ConfigError(f"{budget} tokens are left for a completion")
            return self._drop(problem, prompt, DropReason.PROMPT_TOO_LONG, error)
        started = time.monotonic()
        try:
            rollouts = await self.completer.complete(prompt, self.repeats, self.sampling, self.timeouts)
        except RefusedError:  # no other problem would fare better
            raise
        except Exception as error:
            return self._drop(problem, prompt, DropReason.INFERENCE, error)
        seconds = time.monotonic() - started
        try:
            return await self._score(Group(problem, prompt.messages, tuple(rollouts), self.thinking.names), seconds)
        except Exception as error:
            return self._drop(problem, prompt, DropReason.SCORING, error)

    def _least_budget(self) -> int:
        """Return the tokens that a completion needs at least."""
        least = self.settings.min_completion_tokens
        most = self.sampling.max_completion_tokens
        return least if most is None else min(least, most)

    def _drop(self, problem: Problem, prompt: Prompt, reason: DropReason, error: Exception) -> EvaluatedProblem:
        self.note_dropped(problem, reason, error)
        return EvaluatedProblem(Group(problem, prompt.messages, ()), failed=self.repeats, dropped=reason)

    async def _score(self, group: Group, seconds: float) -> EvaluatedProblem:
        texts = [rollout.text for rollout in group.rollouts]
        verdicts = await self.judge(group.problem, texts)
        scored = tuple(
            replace(rollout, verdict=verdict, score=verdict.score)
            for rollout, verdict in zip(group.rollouts, verdicts, strict=True)
        )
        library_scores = None
        if self.plain_scorer is not None:
            library_scores = await self._score_plainly(self.plain_scorer, group.problem, texts)
        return EvaluatedProblem(replace(group, rollouts=scored), library_scores, seconds)

    async def _score_plainly(self, scorer: AnswerScorer, problem: Problem, texts: Sequence[str]) -> list[float]:
        """Return the library's own scores: 0 for a missing answer, and for an answer at which its verifier raises."""
        limit = self.settings.max_answer_bytes
        answers = await asyncio.to_thread(lambda: [extract_last_answer(text, limit) for text in texts])
        verdicts = iter(await scorer.score(problem, [answer for answer in answers if answer is not None], plainly=True))
        return [0.0 if answer is None else next(verdicts).score for answer in answers]


class Evaluation:
    """Evaluates the problems of a set that `folder` lacks.

    `categories` are the library's, by task. `announcement` says in a line what the model is asked for.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        problems: EvaluationSet,
        folder: EvaluationFolder,
        preset: Preset | None,
        *,
        categories: Mapping[str, str],
        announcement: str,
    ) -> None:
        self.announcement = announcement
        self._evaluator = evaluator
        self._set = problems
        self._folder = folder
        self._preset = preset
        self._categories = categories
        self._started = time.monotonic()
        self._finished = False
        self._dropped: list[EvaluatedProblem] = []
        self._scores = Tally()
        self._problems = 0
        """How many problems the set has; before the end, how many it should have."""
        self._not_made: Counter[str] = Counter()

    @property
    def folder(self) -> Path:
        """Folder of the results."""
        return self._folder.path

    async def run(self, *, bar: bool = True) -> None:
        """Evaluate the problems that are not done; with `bar`, a progress bar is shown on a terminal.

        A dropped problem is written after all problems were tried, so that a start after an interruption tries it
        again. Raises the errors of `Evaluator.run`, and:

        - ServerError: every problem was dropped
        - ReasoningEnvError: the folder cannot be written
        """
        done = dict(self._folder.samples)
        self._problems = len(self._set.tasks) * self._set.samples_per_task
        for sample in done.values():
            self._add(sample)
        with progress_bar("evaluation", self._problems, done=len(done), shown=bar) as advance:

            async def keep(result: EvaluatedProblem) -> None:
                if result.dropped is None:
                    self._add(await asyncio.to_thread(self._write, result))
                else:
                    self._dropped.append(result)
                advance(self._score_so_far())

            await self._evaluator.run(self._set.stream(done=done), keep)
        if not self._scores.count:
            raise ServerError("no evaluation problem could be evaluated; the log above says why")
        for result in self._dropped:
            await asyncio.to_thread(self._write, result)
        # Problems that could not be generated are not part of the set.
        self._finished = True
        self._problems = len(self._folder.samples)
        self._not_made = Counter(dict.fromkeys(self._set.tasks, self._set.samples_per_task))
        self._not_made.subtract(task for task, _ in self._folder.samples)

    async def conclude(self) -> Results:
        """Write results.json, release the folder, and return the file's content."""
        try:
            return await asyncio.to_thread(self._write_results)
        finally:
            await asyncio.to_thread(self._folder.close)

    def progress(self) -> str:
        """Return how many problems were tried, and their mean score."""
        tried = len(self._folder.samples) + len(self._dropped)
        return f"{tried} of {self._problems} problems, {self._score_so_far()}"

    def describe(self) -> str:
        """Return a line that says where the results are, and which problems are missing."""
        folder = self._folder.path
        problems = self._problems
        done = sum(bool(sample.rollouts) for sample in self._folder.samples.values())
        if self._finished:
            failed = f"; {problems - done} of {problems} problems have no completion" if done < problems else ""
            missing = f"; {self._not_made.total()} more could not be made" if self._not_made.total() else ""
            return f"The results are in {folder}{failed}{missing}."
        if not self._folder.samples:
            return "No problem was evaluated, and no folder is kept."
        return f"{done} of {problems} problems are done, in {folder}; the same command evaluates the other problems."

    def _write(self, result: EvaluatedProblem) -> DumpedGroup:
        spec = result.group.problem.spec
        return self._folder.append(spec.task, spec.index, result.line())

    def _write_results(self) -> Results:
        samples = self._folder.samples
        summary = summarise(tally_by_task(samples.values()), self._categories, self._not_made)
        seconds = self._folder.spent_s + time.monotonic() - self._started
        results: dict[str, object] = {**summary, "seconds": round(seconds, 1)}
        if self._finished:
            results["problems"] = len(samples)
            results["fingerprint"] = set_fingerprint(sample.reference or "" for sample in samples.values())
        if self._preset is not None:
            tasks = summary["tasks"]
            self._preset.mark(tasks)
            results["comparable"] = combine([row for task, row in tasks.items() if task in self._preset.comparable])
            results["published"] = compare_published(self._preset, tasks)
        return self._folder.write_results(results, finished=self._finished)

    def _add(self, sample: DumpedGroup) -> None:
        self._scores.add(*sample.scores)

    def _score_so_far(self) -> str:
        failed = f", {len(self._dropped)} failed" if self._dropped else ""
        return f"mean score {self._scores.mean or 0.0:.3f}{failed}"


def extract_last_answer(text: str, max_bytes: int) -> str | None:
    """Return the content of the last pair of answer tags, thinking included, as the library's evaluation does.

    None without a pair, or for a content of more than `max_bytes` in UTF-8. Takes time linear in the text's length.
    """
    opening = "<answer>"
    closing = "</answer>"
    content_start = content_end = -1
    start = text.find(opening)
    while start >= 0:
        end = text.find(closing, start)
        if end < 0:
            break
        content_start = start + len(opening)
        content_end = end
        start = text.find(opening, end)
    if content_start < 0 or content_end - content_start > max_bytes:
        return None
    content = text[content_start:content_end].strip()
    return content if len(content.encode("utf-8", "surrogatepass")) <= max_bytes else None


def metrics(results: Results) -> dict[str, float]:
    """Return the metrics of an evaluation; figures that are not known are left out."""
    overall = results["overall"]
    assert overall is not None, "conclude() writes the row of all tasks"
    values: dict[str, float | None] = {
        "eval/mean_score": overall.get("mean_score"),
        "eval/share_correct": overall.get("accuracy"),
        "eval/library_score": overall.get("library_score"),
        "eval/mean_completion_tokens": overall.get("tokens"),
        "eval/problems": results["problems"],
        "eval/failed": results["problems"] - overall["problems"],
        "eval/not_made": overall["not_made"],
    }
    values |= {f"eval/pass_at/{k}": share for k, share in overall.get("pass_at", {}).items()}
    values |= {f"eval_reasons/{word}": share for word, share in overall.get("reasons", {}).items()}
    values |= {
        f"eval_categories/{name}/mean_score": row.get("mean_score") for name, row in results["categories"].items()
    }
    for task, row in results["tasks"].items():
        values |= {
            f"eval_tasks/{task}/mean_score": row.get("mean_score"),
            f"eval_tasks/{task}/share_correct": row.get("accuracy"),
        }
    return {name: value for name, value in values.items() if value is not None}
