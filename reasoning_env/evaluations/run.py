"""One evaluation: request and judge completions of each problem, save each result, and summarise the results."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections import Counter
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ..dumps.format import DumpedGroup, encode_group
from ..errors import ConfigError, RefusedError, ServerError
from ..inference.failures import describe_failure
from ..library_rewards import score_texts_as_library
from ..metrics.outcomes import Tally
from ..problems.giving_up import MAX_FAILED_GROUPS
from ..problems.references import without_release
from ..records import DropReason, Group, Problem, Sampling
from ..rewards import without_refusals
from ..runtime.retries import FailureStreak
from ..runtime.terminal import PROGRESS_INTERVAL_S, progress_bar, progress_lines
from .folder import DEFAULT_FOLDER, EvaluationFolder, Results, open_folder
from .plan import (
    NOT_COMPARABLE,
    EvaluatingSession,
    EvaluationSettings,
    choose_sampling,
    describe_evaluation,
    find_differences,
    identify,
    limits_completions,
)
from .published import compare_published, load_published, mark_differences
from .results import EvaluationResult
from .summary import (
    SentRequests,
    combine,
    no_requests,
    record_requests,
    summarise,
    tally_by_task,
)

if TYPE_CHECKING:
    from ..inference.formats.reply_format import SentRequest
    from ..inference.served_model import ServedModel

logger = logging.getLogger(__name__)

T = TypeVar("T")

DEFAULT_WORKERS = 16
"""Default number of problems in flight."""


@dataclass(frozen=True)
class EvaluatedProblem:
    """A problem with its judged rollouts. A dropped problem has no rollouts, and the reason is in `dropped`.

    - `library_scores`: the library's own score of each rollout; None if the evaluation has no preset.
    - `seconds`: until the completions arrived.
    - `failed`: the number of completions that the server never returned.
    - `sent`: the parameters of the requests, as sent; None if no request was answered.
    """

    group: Group
    library_scores: Sequence[float] | None = None
    seconds: float = 0.0
    failed: int = 0
    dropped: DropReason | None = None
    sent: SentRequests | None = None

    def line(self) -> bytes:
        """Return the line for samples.jsonl: a line in the format of dumps, with additional keys (see `folder.py`)."""
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
        more: dict[str, object] = {
            "failed": self.failed,
            "dropped": None if self.dropped is None else self.dropped.value,
        }
        if self.sent is not None:
            more["sent"] = self.sent
        return encode_group(self.group, more=more, more_of_rollouts=facts)


class Evaluation:
    """One evaluation of a model on a session's evaluation set. Call `open`, `run` and `conclude`.

    `announcement` describes the evaluation in a line. The folder keeps the finished problems if the run is interrupted.
    """

    def __init__(
        self,
        session: EvaluatingSession,
        model: ServedModel,
        sampling: Sampling,
        folder: EvaluationFolder,
        *,
        workers: int,
    ) -> None:
        self.announcement = f"{model.model} at {model.base_url}: {describe_evaluation(session, sampling)}"
        self._session = session
        self._plan = session.eval_plan
        self._set = session.evaluation_set
        self._model = model
        self._sampling = sampling
        self._folder = folder
        self.workers = workers
        """Maximum number of problems in flight."""
        self._started = time.monotonic()
        self._finished = False
        self._failures = FailureStreak()
        self._unlogged_drops: Counter[str] = Counter()
        """Number of problems dropped before the first evaluated problem, by reason. `_log_drops` empties it."""
        self._has_completion = False
        """Whether this process has saved completions."""
        self._dropped: list[EvaluatedProblem] = []
        self._scores = Tally()
        self._problems = len(self._plan.tasks) * self._plan.samples_per_task
        """Planned number of problems. At the end, problems that could not be generated are subtracted."""
        self._not_made: Counter[str] = Counter()

    @classmethod
    async def open(
        cls,
        session: EvaluatingSession,
        model: ServedModel,
        settings: EvaluationSettings,
        *,
        version: str,
        token_limit: int | None = None,
        step: int | None = None,
        resume: bool = True,
    ) -> Evaluation:
        """Return an evaluation with a new folder, or with the folder of an interrupted evaluation.

        Args:
            version: Version of this package, for the results.
            token_limit: Maximum tokens of prompt and completion together; default: `max_token_length`.
            step: Step of the trainer; None if there is no trainer.
            resume: Whether to resume an interrupted evaluation with the same identity (see `MadeWith`).

        Raises ConfigError if the folder cannot be created.
        """
        contexts = await model.context_lengths() if limits_completions(session) else []
        sampling = choose_sampling(session, settings, contexts=contexts, token_limit=token_limit)
        differences = find_differences(session, sampling, no_requests())
        for line in differences:
            if NOT_COMPARABLE in line:
                logger.warning("%s", line)
        plan = session.eval_plan
        folder = await asyncio.to_thread(
            open_folder,
            Path(settings.data_dir_to_save_evals or DEFAULT_FOLDER),
            identify(session, sampling, model, step=step, version=version),
            problems=len(plan.tasks) * plan.samples_per_task,
            remarks=differences,
            resume=resume,
        )
        return cls(session, model, sampling, folder, workers=settings.max_eval_workers or DEFAULT_WORKERS)

    @property
    def folder(self) -> Path:
        """Folder of the results."""
        return self._folder.path

    async def run(self, *, bar: bool = True) -> None:
        """Evaluate the remaining problems. Show a progress bar; without a terminal or `bar`, write log lines instead.

        Dropped problems are saved last, so after an interruption the next run tries them again. Raises:

        - ServerError: MAX_FAILED_GROUPS problems in a row failed; prompts that are too long do not count
        - ServerError: every problem was dropped
        - RefusedError: the server refuses a request that every problem would make
        - ReasoningEnvError: the folder cannot be written
        """
        done = dict(self._folder.samples)
        for sample in done.values():
            self._scores.add(*sample.scores)
        show = progress_bar if bar else progress_lines
        with show("evaluation", self._problems, done=len(done), interval_s=PROGRESS_INTERVAL_S) as advance:

            async def work(problem: Problem) -> None:
                await self._keep(await self.evaluate(problem))
                advance(self._score_so_far())
                if self._failures.count >= MAX_FAILED_GROUPS:
                    self._log_drops(raised=self._failures.last)
                    raise ServerError(
                        f"{self._failures.count} evaluation problems in a row failed; last error: {self._failures.last}"
                    )

            await call_on_arrival(work, self._set.stream(done=done), at_once=self.workers)
        if not self._scores.count:
            self._log_drops()
            raise ServerError("no evaluation problem could be evaluated; see the log above")
        for result in self._dropped:
            await asyncio.to_thread(self._write, result)
        # Problems that could not be generated are not part of the set.
        self._finished = True
        self._problems = len(self._folder.samples)
        self._not_made = Counter(dict.fromkeys(self._plan.tasks, self._plan.samples_per_task))
        self._not_made.subtract(task for task, _ in self._folder.samples)

    # ---- one problem

    async def evaluate(self, problem: Problem) -> EvaluatedProblem:
        """Request and judge completions of a problem. An infrastructure error drops the problem."""
        messages = self._session.messages(problem)
        prompt = await asyncio.to_thread(self._model.prompt, messages)
        budget = self._sampling.completion_budget(prompt)
        if budget < self._sampling.least_budget:
            error = ConfigError(f"the prompt leaves only {budget} tokens for a completion")
            return self._drop(problem, messages, DropReason.PROMPT_TOO_LONG, error)
        started = time.monotonic()
        answered: list[SentRequest] = []
        try:
            rollouts = await self._model.complete(prompt, self._plan.repeats, self._sampling, answered)
        except RefusedError:  # the server would refuse every other problem too
            raise
        except Exception as error:
            return self._drop(problem, messages, DropReason.INFERENCE, error)
        seconds = time.monotonic() - started
        try:
            group = Group(problem, messages, tuple(rollouts), self._session.thinking.names)
            return replace(await self._judge(group, seconds), sent=record_requests(answered))
        except Exception as error:
            return self._drop(problem, messages, DropReason.SCORING, error)

    def _drop(
        self, problem: Problem, messages: tuple[Mapping[str, str], ...], reason: DropReason, error: Exception
    ) -> EvaluatedProblem:
        failure = describe_failure(error)
        if reason is not DropReason.PROMPT_TOO_LONG:
            self._failures.add(failure)
        self._session.drop(problem, reason)
        if self._has_completion:
            logger.warning("a problem of %s is dropped (%s): %s", problem.task, reason, failure)
        else:
            self._unlogged_drops[f"{reason}: {failure}"] += 1
        return EvaluatedProblem(Group(problem, messages, ()), failed=self._plan.repeats, dropped=reason)

    def _log_drops(self, raised: str = "") -> None:
        """Log the dropped problems that are not logged yet, by reason.

        Problems that were dropped because of `raised` are left out: the caller raises this error.
        """
        for why, count in self._unlogged_drops.items():
            if not raised or not why.endswith(raised):
                logger.warning("%s dropped, %s", "a problem was" if count == 1 else f"{count} problems were", why)
        self._unlogged_drops.clear()

    async def _judge(self, group: Group, seconds: float) -> EvaluatedProblem:
        texts = [rollout.text for rollout in group.rollouts]
        verdicts = await self._session.judge(group.problem, texts)
        final = without_refusals(group.rollouts, verdicts)
        scored = tuple(
            replace(rollout, verdict=verdict, score=verdict.score)
            for rollout, verdict in zip(group.rollouts, final, strict=True)
        )
        library_scores = None
        if self._plan.preset is not None:
            plain = await score_texts_as_library(self._session.pool, group.problem, texts)
            library_scores = [verdict.score for verdict in plain]
        return EvaluatedProblem(replace(group, rollouts=scored), library_scores, seconds)

    async def _keep(self, result: EvaluatedProblem) -> None:
        if result.dropped is None:
            sample = await asyncio.to_thread(self._write, result)
            self._scores.add(*sample.scores)
            self._failures.end()
            self._has_completion = True
            self._log_drops()
        else:
            self._dropped.append(result)

    # ---- results

    async def conclude(self) -> EvaluationResult:
        """Write results.json, unlock the folder, and return the results."""
        self._log_drops()  # an interrupted evaluation may have drops that are not logged yet
        try:
            return EvaluationResult(await asyncio.to_thread(self._write_results), self._folder.path)
        finally:
            await asyncio.to_thread(self._folder.close)

    def describe(self) -> str:
        """Describe in a line where the results are, and how many problems are missing."""
        folder = self._folder.path
        problems = self._problems
        done = sum(bool(sample.rollouts) for sample in self._folder.samples.values())
        if self._finished:
            failed = f"; {problems - done} of {problems} problems have no completion" if done < problems else ""
            missing = (
                f"; {self._not_made.total()} further problems could not be generated" if self._not_made.total() else ""
            )
            return f"The results are in {folder}{failed}{missing}."
        if not self._folder.samples:
            return "No problem was evaluated, so the folder was removed."
        return f"{folder} has the results of {done} of {problems} problems. Run the command again for the others."

    def _write(self, result: EvaluatedProblem) -> DumpedGroup:
        spec = result.group.problem.spec
        return self._folder.append(spec.task, spec.index, result.line())

    def _write_results(self) -> Results:
        samples = self._folder.samples
        categories = {task.name: task.category for task in self._session.library.tasks}
        summary = summarise(tally_by_task(samples.values()), categories, self._not_made)
        seconds = self._folder.spent_s + time.monotonic() - self._started
        sent = self._folder.sent
        results: dict[str, object] = {
            **summary,
            "seconds": round(seconds, 1),
            "remarks": find_differences(self._session, self._sampling, sent),
            "sent": sent,
        }
        if self._finished:
            results["problems"] = len(samples)
            results["fingerprint"] = set_fingerprint(sample.reference or "" for sample in samples.values())
        if self._plan.preset is not None:
            tasks = summary["tasks"]
            preset = load_published(self._plan.preset.name)
            mark_differences(preset, tasks)
            results["comparable"] = combine([row for task, row in tasks.items() if task in preset.comparable])
            results["published"] = compare_published(preset, tasks)
        return self._folder.write_results(results, finished=self._finished)

    def _score_so_far(self) -> str:
        failed = f", {len(self._dropped)} failed" if self._dropped else ""
        return f"mean score {self._scores.mean or 0.0:.3f}{failed}"


def set_fingerprint(references: Iterable[str]) -> str:
    """Return a hash of a set of references. The hash ignores their order and the library's release."""
    names = sorted(map(without_release, references))
    return hashlib.blake2b(json.dumps(names).encode(), digest_size=16).hexdigest()


async def call_on_arrival(work: Callable[[T], Awaitable[None]], items: AsyncIterable[T], *, at_once: int) -> None:
    """Call `work` with each item as soon as the item arrives, with at most `at_once` calls at a time.

    On an error, cancel and await all other calls, then raise the error.
    """
    limit = asyncio.Semaphore(at_once)

    async def run(item: T) -> None:
        try:
            await work(item)
        finally:
            limit.release()

    try:
        async with asyncio.TaskGroup() as running:
            async for item in items:
                await limit.acquire()
                running.create_task(run(item))
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
