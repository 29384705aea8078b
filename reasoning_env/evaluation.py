"""The fixed evaluation set, and what is made of its results."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .concurrency import map_concurrently
from .errors import ConfigError, GenerationError, ServerError
from .library_facts import COMPOSITE, facts
from .problems import Generator
from .records import DropReason, Problem, Prompt, Rollout, Sampling, Timeouts, Verdict
from .rewards import AnswerScorer, score_texts
from .settings import ReasoningSettings
from .tasks.sampling import evaluation_spec

logger = logging.getLogger(__name__)

EVAL_FAILURES = 3
"""Failures to generate an evaluation sample after which it is left out; some tasks fail now and then."""
EVAL_DRAWS = 300
"""Draws of an evaluation sample after which it is left out; problems of some tasks are often flawed."""


class Completer(Protocol):
    """Gives completions; raises whatever its client raises."""

    async def complete(self, prompt: Prompt, n: int, sampling: Sampling, timeouts: Timeouts) -> list[Rollout]: ...


@dataclass(frozen=True)
class EvalResult:
    """One evaluated problem: its verdict, or the reason why there is none, which is not a score of 0."""

    problem: Problem
    text: str
    verdict: Verdict | None
    dropped: DropReason | None = None


def choose_eval_tasks(tasks: Sequence[str], limit: int) -> tuple[str, ...]:
    """Return `limit` of the tasks, spread evenly over their order; all of them for -1, or where there are no more."""
    if limit < 0 or limit >= len(tasks):
        return tuple(tasks)
    return tuple(tasks[position * len(tasks) // limit] for position in range(limit))


def question_key(question: str) -> str:
    """Return what two problems share when they ask the same, apart from whitespace."""
    text = " ".join(question.split())
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class EvaluationSet:
    """The fixed set of problems of a seed, generated task by task when it is asked for.

    `params` are those of the tasks that need some. Samples that cannot be generated are left out, with a warning.
    """

    def __init__(
        self,
        generator: Generator,
        tasks: Sequence[str],
        params: Mapping[str, Mapping[str, Any]],
        *,
        samples_per_task: int,
        eval_seed: int,
        deadline_s: float,
    ) -> None:
        self._generator = generator
        self._tasks = tuple(tasks)
        self._params = params
        self._samples_per_task = samples_per_task
        self._eval_seed = eval_seed
        self._deadline_s = deadline_s
        self._made: dict[str, asyncio.Task[list[Problem]]] = {}
        self._keys: dict[str, frozenset[str]] = {}

    async def problems(self) -> list[Problem]:
        """Return all of the set, in the tasks' order."""
        made = await asyncio.gather(*(self._of_task(task) for task in self._tasks))
        return [problem for problems in made for problem in problems]

    async def asks(self, problem: Problem) -> bool:
        """Tell whether the set asks the same question, of the same task or through a composite.

        Never true of tasks that have so many questions that they do not repeat.
        """
        task = problem.task
        if task == COMPOSITE:
            task = str(json.loads(problem.metadata_json).get("source_dataset", COMPOSITE))
        known = facts(task)
        if known is not None and not known.few_questions:
            return False
        key = question_key(problem.question)
        return key in await self._keys_of(task) or key in await self._keys_of(COMPOSITE)

    async def close(self) -> None:
        """Stop what is being generated."""
        for made in self._made.values():
            made.cancel()
        await asyncio.gather(*self._made.values(), return_exceptions=True)

    async def _keys_of(self, task: str) -> frozenset[str]:
        if task not in self._tasks:
            return frozenset()
        if task not in self._keys:
            self._keys[task] = frozenset(question_key(made.question) for made in await self._of_task(task))
        return self._keys[task]

    async def _of_task(self, task: str) -> list[Problem]:
        made = self._made.get(task)
        if made is None or (made.done() and (made.cancelled() or made.exception() is not None)):
            made = self._made[task] = asyncio.create_task(self._generate(task))
        # The cancellation of one caller must not end the work that the others wait for.
        return await asyncio.shield(made)

    async def _generate(self, task: str) -> list[Problem]:
        drawn = await asyncio.gather(*(self._sample(task, number) for number in range(self._samples_per_task)))
        return [problem for problem in drawn if problem is not None]

    async def _sample(self, task: str, number: int) -> Problem | None:
        failures = 0
        for attempt in range(EVAL_DRAWS):
            spec = evaluation_spec(task, number, attempt, run_seed=self._eval_seed, params=self._params.get(task))
            try:
                problem = await self._generator.generate(spec, self._deadline_s)
                if problem.flaw is None:
                    return problem
                logger.debug("evaluation sample %d of %s is drawn again: %s", number, task, problem.flaw)
            except GenerationError as error:
                logger.warning("evaluation sample %d of %s is drawn again: %s", number, task, error)
                failures += 1
                if failures == EVAL_FAILURES:
                    break
        logger.warning("evaluation sample %d of %s is left out after %d draws", number, task, attempt + 1)
        return None


@dataclass(frozen=True)
class Evaluator:
    """Asks for one completion of each problem and scores it.

    `workers` problems are under way at a time. `note_dropped` is called for every problem that cannot be evaluated.
    """

    scorer: AnswerScorer
    completer: Completer
    make_prompt: Callable[[Problem], Awaitable[Prompt]]
    sampling: Sampling
    settings: ReasoningSettings
    workers: int
    timeouts: Timeouts
    note_dropped: Callable[[DropReason, Problem, Exception], None]

    async def run(self, problems: Sequence[Problem], on_done: Callable[[], None] = lambda: None) -> list[EvalResult]:
        """One result for each problem, in order; `on_done` is called after each.

        Raises ServerError when inference failed `max_failed_groups_in_a_row` times in a row.
        """
        failures = 0

        async def evaluate(problem: Problem) -> EvalResult:
            nonlocal failures
            result = await self._evaluate(problem)
            if result.dropped is not DropReason.PROMPT_TOO_LONG:
                failures = 0 if result.dropped is None else failures + 1
            if failures >= self.settings.max_failed_groups_in_a_row:
                raise ServerError(f"{failures} evaluation problems in a row failed; the log above says why")
            return result

        return await map_concurrently(evaluate, problems, at_once=self.workers, on_done=on_done)

    async def _evaluate(self, problem: Problem) -> EvalResult:
        prompt = await self.make_prompt(problem)
        budget = self.sampling.completion_budget(prompt)
        text, reason = "", DropReason.PROMPT_TOO_LONG
        try:
            if budget < self.settings.min_completion_tokens:
                raise ConfigError(f"{budget} tokens are left for a completion")
            reason = DropReason.INFERENCE
            completions = await self.completer.complete(prompt, 1, self.sampling, self.timeouts)
            text, reason = completions[0].text, DropReason.SCORING
            verdicts = await score_texts(self.scorer, problem, [text], self.settings.max_answer_bytes)
            return EvalResult(problem, text, verdicts[0])
        except Exception as error:  # of clients or of ours; it never becomes a score of 0
            self.note_dropped(reason, problem, error)
            return EvalResult(problem, text, None, reason)


def summarise(results: Sequence[EvalResult]) -> dict[str, float]:
    """Return mean score and share correct, overall and per task, over what was scored, and how much was not."""
    by_task: defaultdict[str, list[Verdict]] = defaultdict(list)
    for result in results:
        if result.verdict is not None:
            by_task[result.problem.task].append(result.verdict)
    metrics = _scores("eval", [verdict for verdicts in by_task.values() for verdict in verdicts])
    metrics["eval/problems"] = len(results)
    metrics["eval/failed"] = sum(result.verdict is None for result in results)
    for task, verdicts in sorted(by_task.items()):
        metrics |= _scores(f"eval/{task}", verdicts)
    return metrics


def _scores(prefix: str, verdicts: Sequence[Verdict]) -> dict[str, float]:
    if not verdicts:
        return {}
    return {
        f"{prefix}/mean_score": sum(verdict.score for verdict in verdicts) / len(verdicts),
        f"{prefix}/share_correct": sum(verdict.correct for verdict in verdicts) / len(verdicts),
    }


def sample_record(result: EvalResult, messages: Sequence[object]) -> dict[str, object]:
    """Return one line of samples.jsonl."""
    spec, verdict = result.problem.spec, result.verdict
    return {
        "task": spec.task,
        "seed": spec.seed,
        "sample": spec.index,
        "messages": list(messages),
        "completion": result.text,
        "answer": None if verdict is None else verdict.answer,
        "expected_answer": result.problem.answer,
        "score": None if verdict is None else verdict.score,
        "reason": verdict.reason.value if verdict else result.dropped and result.dropped.value,
    }
