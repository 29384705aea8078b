"""Run over an evaluation set: complete and score each problem, keep results as they come, and sum them up.

`Evaluator` says how a problem is evaluated. `Evaluation` is one run over a set, from the first problem to the results:
its folder keeps what is done, whatever ends it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ..dumps.format import DumpedGroup, encode_group
from ..errors import ConfigError, RefusedError, ServerError, WorkerError
from ..metrics.outcomes import Tally
from ..prompts.thinking import Thinking
from ..records import DropReason, Group, Problem, Prompt, Rollout, Sampling, Timeouts
from ..rewards import AnswerScorer, score_texts
from ..runtime.concurrency import do_as_they_come
from ..runtime.terminal import progress_bar
from ..settings import ReasoningSettings
from .folder import EvalFolder
from .plan import Preset, compare_published
from .problem_set import EvaluationSet, set_fingerprint
from .summary import combine, summarise, tally_by_task

Results = dict[str, Any]


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
                "correct": rollout.verdict is not None and rollout.verdict.correct,
                "seconds": round(self.seconds, 3),
            }
            for rollout in self.group.rollouts
        ]
        for fact, score in zip(facts, self.library_scores or (), strict=False):
            fact["library_score"] = score
        more = {
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
    thinking: Thinking
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
            usual_budget = self.sampling.max_completion_tokens or self.settings.min_completion_tokens
            if budget < min(usual_budget, self.settings.min_completion_tokens):
                raise ConfigError(f"{budget} tokens are left for a completion")
            reason = DropReason.INFERENCE
            rollouts = await self.completer.complete(prompt, self.repeats, self.sampling, self.timeouts)
            seconds, reason = time.monotonic() - started, DropReason.SCORING
            group = Group(problem, prompt.messages, tuple(rollouts), self.thinking.names)
            return await self._score(group, seconds)
        except (RefusedError, WorkerError):  # no other problem would fare better
            raise
        except Exception as error:  # of clients or of ours; it never becomes a score of 0
            self.note_dropped(problem, reason, error)
            return EvalResult(Group(problem, prompt.messages, ()), failed=self.repeats, dropped=reason)

    async def _score(self, group: Group, seconds: float) -> EvalResult:
        problem, limit = group.problem, self.settings.max_answer_bytes
        texts = [rollout.text for rollout in group.rollouts]
        verdicts = await score_texts(self.scorer, problem, texts, limit, self.thinking)
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


class Evaluation:
    """Runs `evaluator` over what is missing in `folder`; `categories` are the library's, by task."""

    def __init__(
        self, evaluator: Evaluator, folder: EvalFolder, preset: Preset | None, categories: Mapping[str, str]
    ) -> None:
        self._evaluator = evaluator
        self._folder = folder
        self._preset = preset
        self._categories = categories
        self._started = time.monotonic()
        self._finished = False
        self._failed: list[EvalResult] = []
        self._scores = Tally()
        self._problems = 0
        """How many problems the set has, or should have."""
        self._not_made: Counter[str] = Counter()

    async def run(self, problems: EvaluationSet) -> None:
        """Evaluate the problems that are not done; raises what the evaluator does, and ReasoningEnvError.

        A problem without a completion is written when all have been tried, so that a later start tries it again.
        """
        done = dict(self._folder.samples)
        self._problems = len(problems.tasks) * problems.samples_per_task
        for sample in done.values():
            self._add(sample)
        with progress_bar("evaluation", self._problems, done=len(done)) as advance:

            async def take(result: EvalResult) -> None:
                if result.dropped is None:
                    self._add(await asyncio.to_thread(self._keep, result))
                else:
                    self._failed.append(result)
                advance(self._note())

            await self._evaluator.run(problems.stream(done=done), take)
        if not self._scores.count:
            raise ServerError("not one evaluation problem could be evaluated; the log above says why")
        for result in self._failed:
            await asyncio.to_thread(self._keep, result)
        # Problems that could not be generated do not belong to the set.
        self._finished = True
        self._problems = len(self._folder.samples)
        self._not_made = Counter(dict.fromkeys(problems.tasks, problems.samples_per_task))
        self._not_made.subtract(task for task, _ in self._folder.samples)

    async def conclude(self) -> Results:
        """Write results.json, let go of the folder, and return what the file says."""
        try:
            return await asyncio.to_thread(self._write_results)
        finally:
            await asyncio.to_thread(self._folder.close)

    def progress(self) -> str:
        """Return a line on how far it has come."""
        tried = len(self._folder.samples) + len(self._failed)
        return f"progress: {tried} of {self._problems} problems, {self._note()}"

    def describe(self) -> str:
        """Return a line on what there is, and where."""
        folder, problems = self._folder.path, self._problems
        done = sum(bool(sample.rollouts) for sample in self._folder.samples.values())
        if self._finished:
            failed = f"; {problems - done} of {problems} problems have no completion" if done < problems else ""
            missing = f"; {self._not_made.total()} more could not be made" if self._not_made.total() else ""
            return f"The results are in {folder}{failed}{missing}."
        if not self._folder.samples:
            return "No problem was evaluated, and no folder is kept."
        return f"{done} of {problems} problems are done and kept in {folder}; the same command goes on with the rest."

    def _keep(self, result: EvalResult) -> DumpedGroup:
        spec = result.group.problem.spec
        return self._folder.append(spec.task, spec.index, result.line())

    def _write_results(self) -> Results:
        samples = self._folder.samples
        results = summarise(tally_by_task(samples.values()), self._categories, self._not_made)
        if self._finished:
            results["problems"] = len(samples)
            results["fingerprint"] = set_fingerprint(sample.reference or "" for sample in samples.values())
        results["seconds"] = round(self._folder.spent_s + time.monotonic() - self._started, 1)
        if self._preset is not None:
            self._preset.mark(results["tasks"])
            comparable = [row for task, row in results["tasks"].items() if task in self._preset.comparable]
            results["comparable"] = combine(comparable)
            results["published"] = compare_published(self._preset, results["tasks"])
        return self._folder.write_results(results, finished=self._finished)

    def _add(self, sample: DumpedGroup) -> None:
        self._scores.add(*sample.scores)

    def _note(self) -> str:
        failed = f", {len(self._failed)} failed" if self._failed else ""
        return f"mean score {self._scores.mean or 0.0:.3f}{failed}"


def extract_last_answer(text: str, max_bytes: int) -> str | None:
    """Find the answer as the library's evaluation does: in the last pair of tags, thinking included.

    None where there is no pair, or where it holds more than `max_bytes` of UTF-8.
    """
    answer, start = None, text.find("<answer>")
    while start >= 0 and (end := text.find("</answer>", start)) >= 0:
        answer, start = (start + len("<answer>"), end), text.find("<answer>", end)
    if answer is None or answer[1] - answer[0] > max_bytes:
        return None
    content = text[slice(*answer)].strip()
    return content if len(content.encode("utf-8", "surrogatepass")) <= max_bytes else None


def metrics(results: Results) -> dict[str, float]:
    """Return what a metrics backend gets of results.json."""
    overall, tasks = results["overall"], results["tasks"]
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
    for task, row in tasks.items():
        values |= {
            f"eval_tasks/{task}/mean_score": row.get("mean_score"),
            f"eval_tasks/{task}/share_correct": row.get("accuracy"),
        }
    return {name: value for name, value in values.items() if value is not None}
