"""Generate problems, judge completions, and adapt the problems to the verdicts, for any trainer.

Every integration runs this loop:

    async with Session(tasks=["gcd", "chain_sum"], seed=1) as session:
        for step in range(100):
            problem = await session.next() # in flight until `observe`
            completions = await complete(session.messages(problem))    # your code
            verdicts = await session.judge(problem, completions)       # in sandboxed processes
            session.observe(problem, verdicts)                         # curriculum and metrics

`judge` raises infrastructure errors instead of scoring 0. A session that begins with an earlier session's `state()`
continues with the same problems.

With a score function instead of tasks, a session judges rows of your own data:

    async with Session(score="my_rewards:score") as session:
        verdicts = await session.judge({"answer": "42"}, ["so it is 42", "no idea"])

The function is `score(completion: str, **row) -> float | Mapping[str, float]`, with scores from 0 to 1. It runs in
sandboxed worker processes. If the function hangs, takes all memory or crashes for a completion, only this completion
scores 0.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Generic, Self, cast

from typing_extensions import TypeVar  # typing's TypeVar has defaults only since Python 3.13

from .errors import ConfigError
from .library_rewards import score_texts_as_library
from .metrics.metric import Reading, for_wandb, read
from .metrics.outcomes import Sums
from .metrics.own_verifiers import OWN_VERDICTS, OwnVerdicts
from .metrics.recorder import MetricsRecorder
from .metrics.stats import POOL, SAMPLER, STREAM, StreamStats
from .metrics.training import ANSWERS, DROPPED, TRAIN, TRAIN_TASKS
from .problems.evaluation_set import EvaluationSet
from .problems.plan import (
    EvaluationPlan,
    TaskPlan,
    check_own_tasks,
    make_sampler,
    plan_evaluation,
    plan_tasks,
)
from .problems.remaking import Remaker
from .problems.sampling import TaskSampler
from .problems.state import read_state
from .problems.stream import DrawAttempts, ProblemStream, draw_problem
from .prompts.messages import Completion, build_messages, read_completions, system_prompt
from .prompts.thinking import Thinking, choose_thinking
from .records import (
    DropReason,
    Group,
    LibraryInfo,
    Problem,
    ProblemRequest,
    ProblemSpec,
    Rejection,
    Rollout,
    Row,
    Split,
    Subject,
    Verdict,
)
from .rewards import (
    MAX_ANSWER_BYTES,
    check_subject,
    check_whole_problem,
    read_verdicts,
    score_texts,
)
from .runtime.text import short
from .settings import ReasoningSettings, read_settings
from .settings.given import check_checkout, check_whole_number
from .sources.score_function import ScoreFunction, check_row, problem_of_row
from .workers.pool import PoolSettings, WorkerPool

logger = logging.getLogger(__name__)

T = TypeVar("T", covariant=True, default=Problem)
U = TypeVar("U")


@dataclass(frozen=True)
class ScoredGroup:
    """The scores, in [0, 1], of an earlier group of a task. `level` is None for a task without levels."""

    task: str
    level: float | None
    scores: Sequence[float]


class Session(Generic[T]):
    """The problems and verdicts of one run, for one event loop.

    `async with session` starts and closes the session.

    Args:
        settings: The settings; by default, created from the keywords `fields`.
        prepare: Converts a problem to the object that `next` returns; by default, this is the problem itself. If
            `prepare` returns None because the problem does not fit into the model's context, `next` skips the problem.
        on_thread: Runs `prepare`, as `await on_thread(prepare, problem)`; by default asyncio.to_thread.
        pool: Worker pool, started by `start` and closed by `close`; by default created from the settings.
        checkout: Folder with a reasoning-gym to use instead of the installed package; `settings.checkout` has priority.
        score: Score function instead of tasks: `MODULE:FUNCTION`, or a ScoreFunction, which also says what the
            function may access. The session then judges rows, and generates no problems.
        group_size: Usual number of verdicts in a call of `observe`.
        preamble: Text before the system prompt.
        thinking: Formats of the model's thinking; by default, the formats of the settings.
    """

    def __init__(
        self,
        settings: ReasoningSettings | None = None,
        *,
        prepare: Callable[[Problem], T | None] | None = None,
        on_thread: Callable[[Callable[[Problem], T | None], Problem], Awaitable[T | None]] = asyncio.to_thread,
        pool: WorkerPool | None = None,
        checkout: str | Path | None = None,
        score: str | ScoreFunction | None = None,
        group_size: int = 8,
        preamble: str = "",
        thinking: Thinking | None = None,
        **fields: object,
    ) -> None:
        check_whole_number("group_size", group_size, least=1)
        settings = read_settings(Session, settings, fields)
        check_checkout(settings.checkout)
        check_checkout(None if checkout is None else str(checkout))
        self.settings = settings
        self.thinking = thinking or choose_thinking(settings.thinking)
        self.metrics = MetricsRecorder()
        self._scores_rows = score is not None
        self.pool = pool or WorkerPool(PoolSettings.of(settings, checkout, score))
        self.instance = 0
        self._prepare = prepare
        self._on_thread = on_thread
        self._checkout = settings.checkout or checkout
        self.group_size = group_size
        self._preamble = preamble
        self._library: LibraryInfo | None = None
        self._own_verdicts: OwnVerdicts | None = None
        """Counts the verdicts of the user's own score function or verifiers; None if the user has neither."""
        self._plan: TaskPlan | None = None
        self._eval_plan: EvaluationPlan | None = None
        self._evaluation_set: EvaluationSet | None = None
        self._sampler: TaskSampler | None = None
        self._unlearned: TaskSampler | None = None
        """The sampler for `draw`, without observed scores; None before the first `draw`."""
        self._stream: ProblemStream[T] | None = None
        self.reference_cpu_s = settings.reference_deadline_s
        """Limit for `remake`, in seconds of processor time. A change after the first `remake` has no effect."""
        self._generation_deadline_s = settings.eval_generation_deadline_s
        """Time limit, in seconds, for `make` and `remake`, which cannot replace a slow problem by another."""

    # ---- start and end

    async def start(self) -> LibraryInfo:
        """Start the workers, plan training and evaluation, and return information about the library.

        Raises:
            ConfigError: A setting about tasks is invalid, or the score function cannot be used.
            WorkerError: The workers cannot be started. After an error, no process is left.
        """
        if self._scores_rows:
            self._library = await self.pool.start()
            self._own_verdicts = OwnVerdicts()
            return self._library
        library = await self.pool.start(workers=1)
        try:
            plan = await plan_tasks(self.settings, library, self.pool)
            await check_own_tasks([task for task in plan.tasks if task in library.to_try], plan.params, self.pool)
            self._eval_plan = plan_evaluation(self.settings, library, plan.tasks, plan.params)
            self._evaluation_set = self._eval_plan.make_set(self.pool, self.settings, plan.available)
        except BaseException:
            await self.pool.close()
            raise
        self._library, self._plan = library, plan
        self._own_verdicts = OwnVerdicts() if library.to_try else None
        self._log_library(library, plan)
        self.pool.grow()
        return library

    def begin(
        self,
        instance: int = 0,
        state: Mapping[str, object] | None = None,
        *,
        done: Container[int] = frozenset(),
        learn_from: Iterable[ScoredGroup] = (),
    ) -> None:
        """Begin to draw problems. `next` calls this method too; a second call has no effect.

        Args:
            instance: Number of this session. Sessions 0 to 63 share no seeds.
            state: Return value of `state()` in an earlier run; ConfigError for an invalid state.
            done: Positions of the stream to skip, because an earlier run stored their groups but no state.
            learn_from: Scores of earlier groups, which initialize the sampler.
        """
        if self._stream is not None:
            return
        settings = self.settings
        saved = None if state is None else read_state(state)
        self.instance = instance
        self._sampler = make_sampler(
            self.plan,
            settings,
            instance=instance,
            group_size=self.group_size,
            state=None if saved is None else saved["sampler"],
        )
        for group in learn_from:
            self._sampler.observe(group.task, group.level, group.scores)
        self._stream = ProblemStream(
            self.pool,
            self._sampler,
            deadline_s=settings.generation_deadline_s,
            prepare=self._prepare_or_reject,
            state=None if saved is None else saved["stream"],
            done=done,
        )
        self._stream.start()

    async def close(self) -> None:
        """Stop generating and end all processes. A second call has no effect; `state()` still works afterwards."""
        if self._stream is not None:
            await self._stream.close()
        if self._evaluation_set is not None:
            await self._evaluation_set.close()
        await self.pool.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, error_class: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # ---- the loop

    async def next(self) -> T:
        """Return the next problem that fits into the model's context, as `prepare` returns it.

        The problem is in flight until `observe`, `done` or `drop`. The evaluation set never has the problem's question.

        Raises:
            ConfigError: None of the first MAX_UNFIT problems fits (`problems/giving_up.py`).
            GenerationError: All tasks are quarantined.
            ClosedError: The session was closed.
        """
        self.begin()
        assert self._stream is not None
        return await self._stream.next()

    def messages(self, problem: Problem) -> tuple[Mapping[str, str], ...]:
        """Return the conversation that asks the problem's question. Each message has `role` and `content`."""
        return build_messages(self.system_prompt(problem.spec.split), problem.question)

    async def judge(
        self, subject: Problem | Subject, completions: Sequence[Completion], *, thinking: Thinking | None = None
    ) -> list[Verdict]:
        """Return a verdict for each completion, in order.

        If the score function or a verifier raises, the reason is `verifier_error`, and `error` has the message.

        Args:
            subject: A problem or a problem's reference; a row, if the session has a score function.
            completions: Strings, messages with `content`, or None if the model wrote nothing.
            thinking: Thinking formats of the completions; by default, the session's formats.

        Raises:
            ConfigError: An argument has the wrong type, or the score function does not accept the row.
            RaisingFunctionError: The score function raised an error for every one of at least 100 completions.
            ScoringError: An infrastructure error occurred again on a fresh worker.
            WorkerError: No worker can be started at the moment, or the session was closed (ClosedError).
            InvalidReferenceError: The reference cannot be used with this library.
            GenerationError: The problem of the reference cannot be generated.
        """
        check_subject(subject)
        texts = read_completions(completions)
        if isinstance(subject, Mapping) is not self._scores_rows:
            needed = (
                "a row, because this session has a score function"
                if self._scores_rows
                else "a problem or a problem's reference, because this session has tasks"
            )
            raise ConfigError(f"must be {needed}", setting="subject", got=short(subject))
        if isinstance(subject, Mapping):
            return await self._judge_row(subject, texts)
        problem = await self.remake(subject) if isinstance(subject, str) else subject
        if problem.as_library:
            verdicts = await score_texts_as_library(self.pool, problem, texts)
        else:
            verdicts = await score_texts(self.pool, problem, texts, thinking or self.thinking)
        if self._own_verdicts is not None and problem.task in self.library.to_try:
            self._own_verdicts.note(f"the verifier of {problem.task}", verdicts)
        return verdicts

    async def _judge_row(self, row: Row, texts: Sequence[str]) -> list[Verdict]:
        if self._library is not None:
            check_row(row, self._library.score_signature)
        verdicts = await self.pool.score(problem_of_row(row), texts)
        if self._own_verdicts is not None:
            self._own_verdicts.note("the score function", verdicts)
            self._own_verdicts.check()
        return verdicts

    def observe(
        self,
        problem: Problem,
        verdicts: Sequence[Verdict | float | None],
        *,
        rollouts: Sequence[Rollout] | None = None,
        cut: Sequence[bool] | None = None,
        done: bool = True,
    ) -> None:
        """Update curriculum, sampling and metrics with the verdicts of a group, or with scores from 0 to 1.

        If a verdict is None (missing), the group is counted as dropped. Raises ConfigError for an empty list and for
        invalid values.

        Args:
            rollouts: The judged rollouts with rewards and lengths, for the metrics.
            cut: Marks the completions that reached a token limit. Used only without `rollouts`.
            done: If False, the problem stays in flight until the method `done` is called.
        """
        check_whole_problem(problem)
        observed = read_verdicts(verdicts)
        judged = [verdict for verdict in observed if verdict is not None]
        if len(judged) < len(observed):
            self.drop(problem, DropReason.SCORING)
            return
        if rollouts is None:
            rollouts = [
                Rollout(
                    text="",
                    tokens=(),
                    masks=(),
                    logprobs=None,
                    finish_reason="length" if was_cut else "",
                    verdict=verdict,
                    score=verdict.score,
                )
                for verdict, was_cut in zip(judged, cut or [False] * len(judged), strict=True)
            ]
        # Use the verdicts' scores, because the length penalty in rewards does not depend on the difficulty.
        scores = [verdict.score for verdict in judged]
        self.metrics.record_group(Group(problem, (), tuple(rollouts)))
        logger.debug("%s at level %s: scores %s", problem.spec, problem.level, scores)
        if self._sampler is not None:
            level = problem.spec.level if problem.level is None else problem.level
            self._sampler.observe(problem.task, level, scores)
        if done:
            self.done(problem)

    def done(self, problem: Problem) -> None:
        """Mark a problem as no longer in flight: its group was delivered or dropped. A second call has no effect."""
        if self._stream is not None:
            self._stream.done(problem)

    def drop(self, problem: Problem, reason: DropReason) -> None:
        """Count a problem that produced no group, and mark it as no longer in flight."""
        self.metrics.record_dropped(reason)
        self.done(problem)

    # ---- state, metrics, references

    def state(self) -> dict[str, object]:
        """Return everything that determines the next problems, as JSON values.

        Raises RuntimeError before `begin`.
        """
        if self._stream is None or self._sampler is None:
            raise RuntimeError("call begin() first")
        return {"instance": self.instance, "stream": self._stream.state(), "sampler": self._sampler.state()}

    def report(self) -> dict[str, float]:
        """Return the metrics: counts since the start, and means since the last call. Empty before `start`.

        With a score function, the only metrics are counts of verdicts by reason and the metrics of the workers.
        """
        return for_wandb(self.readings(self.metrics.take_interval())) if self.has_started else {}

    def readings(self, groups: Mapping[str, Sums]) -> Iterator[Reading]:
        """Yield the values of all metrics. `groups` maps each task to the totals of its groups (see `Sums`)."""
        yield from read(POOL, self.pool)
        if self._own_verdicts is not None:
            yield from read(OWN_VERDICTS, self._own_verdicts)
        if self._scores_rows:
            return
        yield from read(TRAIN, Sums.merged(groups.values()))
        yield from read(TRAIN_TASKS, groups)
        yield from read(DROPPED, self.metrics)
        yield from read(ANSWERS, self.metrics.answers)
        yield from read(STREAM, self.stats)
        if self._sampler is not None:
            yield from read(SAMPLER, self._sampler.report())

    async def remake(self, reference: str) -> Problem:
        """Generate the problem that a reference names, or return it from the cache.

        Raises InvalidReferenceError, GenerationError and WorkerError, as `judge` does.
        """
        return await self._remaker.remake(reference, self.library)

    @cached_property
    def _remaker(self) -> Remaker:
        return Remaker(self.pool, deadline_s=self._generation_deadline_s, cpu_s=self.reference_cpu_s)

    async def make(
        self, task: str, seed: int, *, params: Mapping[str, object] | None = None, level: float | None = None
    ) -> Problem:
        """Generate the problem of exactly this seed, even if training would reject the problem.

        `params` take precedence over parameters in the settings. Raises GenerationError and WorkerError.
        """
        all_params = {**self.plan.all_params.get(task, {}), **(params or {})}
        request = ProblemRequest(task, seed, all_params, level, exact_seed=True)
        return await self.pool.generate(ProblemSpec(request, Split.TRAIN, 0), self._generation_deadline_s)

    async def draw(self, index: int, *, task: str | None = None, level: float | None = None) -> Problem:
        """Generate a training problem by its number, without taking a problem from the stream.

        The problem depends only on the settings and the arguments. `task` and `level` replace the drawn task and level.
        A problem that training would reject is replaced.

        Raises:
            ConfigError: An argument is invalid, or the task has no levels.
            GenerationError: The problem cannot be generated.
            WorkerError: No worker can be started at the moment.
        """
        check_whole_number("index", index, least=0)
        if self._unlearned is None:
            self._unlearned = make_sampler(self.plan, self.settings, instance=self.instance, group_size=self.group_size)
        sampler = self._unlearned
        spec = self.plan.override(sampler.draw(index, attempt=0), task=task, level=level)

        async def attempt(number: int) -> Problem | Rejection:
            nonlocal spec
            if number > 0:
                spec = sampler.redraw(spec)
            problem = await self.pool.generate(spec, self.settings.generation_deadline_s)
            return await self.reject(problem) or problem

        return await draw_problem(attempt, DrawAttempts())

    def system_prompt(self, split: Split = Split.TRAIN) -> str:
        """Return the system prompt for the training or the evaluation (`split`); empty if there is none."""
        if split is Split.EVAL and self.eval_plan.system_prompt is not None:
            return self.eval_plan.system_prompt
        own = system_prompt(self.settings.system_prompt, self.thinking)
        return "\n\n".join(filter(None, [self._preamble, own]))

    @property
    def library(self) -> LibraryInfo:
        """The library that workers imported. Raises RuntimeError before `start`, as `plan` and `evaluation_set` do."""
        return self._require(self._library)

    @property
    def plan(self) -> TaskPlan:
        """The tasks of training, with their parameters and weights."""
        return self._require(self._plan)

    @property
    def eval_plan(self) -> EvaluationPlan:
        """Tasks, problems per task, seed and system prompt of the evaluation."""
        return self._require(self._eval_plan)

    @property
    def evaluation_set(self) -> EvaluationSet:
        """The fixed problems of the evaluation, which `next` never returns."""
        return self._require(self._evaluation_set)

    def _require(self, value: U | None) -> U:
        if value is None:
            has_no_tasks = self._scores_rows and self._library is not None
            cause = "a session with a score function has no tasks; create a session without `score`"
            raise RuntimeError(cause if has_no_tasks else "call start() first")
        return value

    @property
    def stats(self) -> StreamStats:
        """Counters of the problem stream; all 0 before `begin`."""
        return StreamStats() if self._stream is None else self._stream.stats

    @property
    def has_started(self) -> bool:
        """Whether the workers have started."""
        return self._library is not None

    @property
    def has_begun(self) -> bool:
        """Whether `begin` was called."""
        return self._stream is not None

    @property
    def fault(self) -> str | None:
        """Why nothing can be judged at the moment, in one line; None while workers are running."""
        return self.pool.fault

    @property
    def in_flight(self) -> int:
        """Number of problems that `next` returned and that are neither done nor dropped yet."""
        return 0 if self._stream is None else self._stream.in_flight

    async def reject(self, problem: Problem) -> Rejection | None:
        """Return why this session skips a problem; None if it serves the problem."""
        prepared = await self._prepare_or_reject(problem)
        return prepared if isinstance(prepared, Rejection) else None

    async def _prepare_or_reject(self, problem: Problem) -> T | Rejection:
        """Return the prepared problem, or the reason why this run skips the problem."""
        if await self.evaluation_set.has_question(problem):
            return Rejection.HELD_OUT
        expected = (problem.answer or "").encode("utf-8", "replace")
        if len(expected) > MAX_ANSWER_BYTES:
            return Rejection.TOO_LONG
        if self._prepare is None:
            return cast("T", problem)
        prepared = await self._on_thread(self._prepare, problem)
        return Rejection.TOO_LONG if prepared is None else prepared

    def _log_library(self, library: LibraryInfo, plan: TaskPlan) -> None:
        for warning in library.warnings:
            logger.warning("%s", warning)
        origin = "a checkout" if self._checkout else "the installed package"
        selected = f"{len(plan.tasks)} of {len(library.tasks)} tasks selected"
        details = (library.version, library.path, origin, selected)
        logger.info("reasoning-gym %s from %s (%s); %s", *details, extra={"detail": True})
