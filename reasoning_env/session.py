"""The core without a trainer: problems, verdicts, and what the curriculum learns from them.

Every integration runs this loop:

    session = Session(ReasoningSettings(tasks=["gcd", "chain_sum"], seed=1))
    await session.start()
    for step in range(100):
        problem = await session.next()                             # drawn, generated, in flight
        completions = await complete(session.messages(problem))    # yours
        verdicts = await session.judge(problem, completions)       # in sandboxed processes
        session.observe(problem, verdicts)                         # curriculum and metrics
    await session.close()

An infrastructure fault is an error that `judge` raises, never a score of 0. `state()` holds everything that decides the
next problem; a session that begins with it goes on where the earlier session was.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, cast, overload

from .errors import ConfigError, InvalidReferenceError, did_you_mean
from .evaluations.plan import EvaluationPlan, plan_evaluation
from .evaluations.problem_set import EvaluationSet
from .library_facts import FACTS
from .metrics.recorder import MetricsRecorder
from .metrics.stats import DeliveryStats, DumpStats, LibraryInfo, StreamStats, service_metrics, task_metrics
from .problems import giving_up
from .problems.plan import TaskPlan, make_sampler, plan_tasks
from .problems.references import Reference
from .problems.sampling import TaskSampler
from .problems.selection import ALL_TASKS
from .problems.stream import ProblemStream
from .prompts.messages import build_messages, system_prompt
from .prompts.thinking import Thinking, choose_thinking
from .records import DropReason, Group, Problem, ProblemRequest, ProblemSpec, Rejection, Rollout, Split, Verdict
from .rewards import score_texts
from .settings import ReasoningSettings
from .workers.pool import PoolSettings, WorkerPool

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Session(Generic[T]):
    """The problems and verdicts of one run; used on one event loop.

    Args:
        prepare: Returns what `next` hands out for a problem, such as the problem with its prompt, or None where prompt,
            expected answer and completion do not fit. A problem that does not fit is drawn again and counted, with a
            warning once a task. Called from several threads. Without `prepare`, `next` hands out the `Problem`.
        pool: The workers, which `start` starts and `close` ends; made from the settings where None.
        checkout: A folder with a reasoning-gym that is used in place of the installed one.
        group_size: How many verdicts `observe` mostly gets at a time.
        preamble: Text before the system prompt.
        thinking: The model's formats of thinking; those of the settings where None.
    """

    LONG_QUESTION = 1500
    """Characters from which `prepare` runs in a thread; below, a thread costs more than counting the tokens."""
    REMADE_PROBLEMS = 1024
    """Problems made from their references that are kept; the completions of a problem mostly come within a minute."""

    @overload
    def __init__(
        self: Session[Problem],
        settings: ReasoningSettings,
        *,
        pool: WorkerPool | None = None,
        checkout: Path | None = None,
        group_size: int = 8,
        preamble: str = "",
        thinking: Thinking | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self,
        settings: ReasoningSettings,
        *,
        prepare: Callable[[Problem], T | None],
        pool: WorkerPool | None = None,
        checkout: Path | None = None,
        group_size: int = 8,
        preamble: str = "",
        thinking: Thinking | None = None,
    ) -> None: ...

    def __init__(
        self,
        settings: ReasoningSettings,
        *,
        prepare: Callable[[Problem], T | None] | None = None,
        pool: WorkerPool | None = None,
        checkout: Path | None = None,
        group_size: int = 8,
        preamble: str = "",
        thinking: Thinking | None = None,
    ) -> None:
        self.settings = settings
        self.thinking = thinking or choose_thinking(settings.thinking)
        self.metrics = MetricsRecorder()
        self.pool = pool or WorkerPool(PoolSettings.of(settings, checkout))
        self.instance = 0
        self._prepare = prepare
        self._checkout = checkout
        self.group_size = group_size
        self._preamble = preamble
        self._library: LibraryInfo | None = None
        self._plan: TaskPlan | None = None
        self._eval_plan: EvaluationPlan | None = None
        self._evaluation_set: EvaluationSet | None = None
        self._sampler: TaskSampler | None = None
        self._stream: ProblemStream[T] | None = None
        self._unfit_tasks: set[str] = set()
        self._unfit = 0
        self._any_fits = False
        self._remade: dict[str, Problem] = {}

    # ---- beginning and end

    async def start(self) -> LibraryInfo:
        """Start the workers and read what the settings say of tasks.

        Raises ConfigError and WorkerError, each with its remedy; no process is left then.
        """
        library = await self.pool.start(workers=1)
        try:
            plan = await plan_tasks(self.settings, library, self.pool)
            self._eval_plan = plan_evaluation(self.settings, library, plan.tasks, plan.params)
            self._evaluation_set = self._eval_plan.make_set(self.pool, self.settings, plan.available)
        except BaseException:
            await self.pool.close()
            raise
        self._library, self._plan = library, plan
        self._log_library(library, plan)
        self.pool.grow()
        return library

    def begin(
        self,
        instance: int = 0,
        state: Mapping[str, Any] | None = None,
        *,
        done: Container[int] = frozenset(),
        learn_from: Iterable[tuple[Problem, Sequence[float]]] = (),
    ) -> None:
        """Begin to draw problems, as `next` does by itself; once it has begun, nothing changes.

        Sessions of different `instance` numbers share no problem. `state` is what `state()` returned in an earlier run.
        Where an earlier run left groups instead of a state, `done` holds the positions of their problems, which are
        passed over, and the sampler learns from these problems and the scores of their completions.
        """
        if self._stream is not None:
            return
        settings, saved = self.settings, state or {}
        self.instance = instance
        self._sampler = make_sampler(
            self.plan, settings, instance=instance, group_size=self.group_size, state=saved.get("sampler")
        )
        for problem, scores in learn_from:
            self._sampler.observe(problem, scores)
        self._stream = ProblemStream(
            self.pool,
            self._sampler,
            depth=settings.prefetch_problems,
            deadline_s=settings.generation_deadline_s,
            quarantine_after=settings.quarantine_after_failures,
            prepare=self._prepare_or_reject,
            state=saved.get("stream"),
            done=done,
        )
        self._stream.start()

    async def close(self) -> None:
        """Stop generating and end every process; `state()` still tells where the session was. Safe to call twice."""
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
        """Return the next problem that fits, as `prepare` returned it; it is in flight until `observe` or `done`.

        None of the evaluation set's questions is among them. Raises ConfigError when very many in a row do not fit,
        GenerationError when no task is left, and WorkerError without workers.
        """
        self.begin()
        assert self._stream is not None
        return await self._stream.next()

    def messages(self, problem: Problem) -> tuple[Mapping[str, str], ...]:
        """Return the conversation that asks a problem's question: each message has `role` and `content`."""
        return build_messages(self.system_prompt(problem.spec.split), problem.question)

    async def judge(
        self, problem: Problem | str, completions: Sequence[str], *, thinking: Thinking | None = None
    ) -> list[Verdict]:
        """Return a verdict for each completion, in order; `problem` may also be a problem's reference.

        `thinking` holds the formats of the model that wrote the completions, where they are not the session's.

        Raises ScoringError when a fault of ours persists and WorkerError without workers; for a reference also
        InvalidReferenceError, and GenerationError when its problem cannot be generated.
        """
        if isinstance(problem, str):
            problem = await self.remake(problem)
        limit = self.settings.max_answer_bytes
        return await score_texts(self.pool, problem, completions, limit, thinking or self.thinking)

    def observe(
        self,
        problem: Problem,
        verdicts: Sequence[Verdict],
        *,
        rollouts: Sequence[Rollout] | None = None,
        done: bool = True,
    ) -> None:
        """Let curriculum, sampling and metrics learn from a group's verdicts.

        `rollouts`, where the caller has them, are what was judged, with rewards and lengths for the metrics. Without
        `done` the problem stays in flight, until `done` is called for it.
        """
        if rollouts is None:
            rollouts = [
                Rollout(
                    text="", tokens=(), masks=(), logprobs=None, finish_reason="", verdict=verdict, score=verdict.score
                )
                for verdict in verdicts
            ]
        group = Group(problem, (), tuple(rollouts))
        outcome = self.metrics.record_group(group)
        logger.debug("%s at level %s: scores %s (%s)", problem.spec, problem.level, group.scores, outcome)
        if self._sampler is not None:
            # Not the rewards: what length has cost says nothing of the problem's difficulty.
            self._sampler.observe(problem, [verdict.score for verdict in verdicts])
        if done:
            self.done(problem)

    def done(self, problem: Problem) -> None:
        """End a problem's flight: its group was delivered, refused or given up. Safe to call twice."""
        if self._stream is not None:
            self._stream.done(problem)

    def drop(self, problem: Problem, reason: DropReason) -> None:
        """Count a problem that gives no group, and end its flight."""
        self.metrics.record_dropped(reason)
        self.done(problem)

    # ---- state, metrics, references

    def state(self) -> dict[str, Any]:
        """Return what decides the next problem, as JSON: what is in flight, what is drawn, and what was learnt."""
        if self._stream is None or self._sampler is None:
            raise RuntimeError("begin() comes first")
        return {"instance": self.instance, "stream": self._stream.state(), "sampler": self._sampler.state()}

    def report(self, dumps: DumpStats | None = None, delivery: DeliveryStats | None = None) -> dict[str, float]:
        """Return the metrics of the interval since the last call; none before `start`."""
        if self._plan is None:
            return {}
        service = service_metrics(self.stats, self.pool.stats, self.pool.queued_jobs, dumps, delivery)
        sampler = {} if self._sampler is None else self._sampler.report()
        return self.metrics.report() | service | task_metrics(sampler)

    async def remake(self, reference: str) -> Problem:
        """Generate the problem of a reference again; raises as `judge` does."""
        if reference in self._remade:
            return self._remade[reference]
        parsed = Reference.parse(reference)
        names = [task.name for task in self.library.tasks]
        if parsed.task not in names:
            remedy = did_you_mean(parsed.task, names)
            raise InvalidReferenceError(reference, f"the library has no task {parsed.task!r}", remedy=remedy)
        problem = await self.pool.generate(parsed.spec(), self.settings.eval_generation_deadline_s)
        parsed.check(problem, self.library.version)
        while len(self._remade) >= self.REMADE_PROBLEMS:
            del self._remade[next(iter(self._remade))]
        self._remade[reference] = problem
        return problem

    async def make(
        self, task: str, seed: int, *, params: Mapping[str, Any] | None = None, level: float | None = None
    ) -> Problem:
        """Generate the problem of exactly this seed, even one that `next` would not hand out.

        `params` are set over the parameters of the settings. Raises GenerationError, and WorkerError without workers.
        """
        all_params = {**self.plan.all_params.get(task, {}), **(params or {})}
        request = ProblemRequest(task, seed, all_params, level, as_is=True)
        return await self.pool.generate(ProblemSpec(request, Split.TRAIN, 0), self.settings.eval_generation_deadline_s)

    def system_prompt(self, split: Split = Split.TRAIN) -> str:
        """Return the system message that problems of a split have; empty for none."""
        if split is Split.EVAL and self.eval_plan.system_prompt is not None:
            return self.eval_plan.system_prompt
        own = system_prompt(self.settings.system_prompt, self.thinking)
        return "\n\n".join(filter(None, [self._preamble, own]))

    @property
    def library(self) -> LibraryInfo:
        """What the workers have imported. This and the next three raise RuntimeError before `start`."""
        return _started(self._library)

    @property
    def plan(self) -> TaskPlan:
        return _started(self._plan)

    @property
    def eval_plan(self) -> EvaluationPlan:
        return _started(self._eval_plan)

    @property
    def evaluation_set(self) -> EvaluationSet:
        """The fixed set of problems that `next` never hands out."""
        return _started(self._evaluation_set)

    @property
    def stats(self) -> StreamStats | None:
        """The stream's counts; None before it has begun."""
        return None if self._stream is None else self._stream.stats

    @property
    def in_flight(self) -> int:
        """How many problems were handed out and are not done."""
        return 0 if self._stream is None else self._stream.in_flight

    async def _prepare_or_reject(self, problem: Problem) -> T | Rejection:
        """Return what `next` hands out for a problem, or why this run does not serve the problem.

        Raises ConfigError when none of the first MAX_UNFIT problems fits.
        """
        if await self.evaluation_set.asks(problem):
            return Rejection.HELD_OUT
        prepared = await self._prepare_if_fits(problem)
        if prepared is None:
            self._note_unfit(problem)
            return Rejection.TOO_LONG
        self._any_fits = True
        return prepared

    async def _prepare_if_fits(self, problem: Problem) -> T | None:
        expected = (problem.answer or "").encode("utf-8", "replace")
        if len(expected) > self.settings.max_answer_bytes:
            return None
        if self._prepare is None:
            return cast("T", problem)
        if len(problem.question) + len(expected) > self.LONG_QUESTION:
            return await asyncio.to_thread(self._prepare, problem)
        return self._prepare(problem)

    def _note_unfit(self, problem: Problem) -> None:
        self._unfit += 1
        if not self._any_fits and self._unfit >= giving_up.MAX_UNFIT:
            raise ConfigError(
                f"no problem of {giving_up.MAX_UNFIT} in a row leaves room for its expected answer and for "
                f"{self.settings.min_completion_tokens} tokens of a completion",
                remedy="lower {min_completion_tokens}, or raise {max_token_length}",
            )
        if problem.task not in self._unfit_tasks:
            self._unfit_tasks.add(problem.task)
            logger.warning(
                "problems of %s are drawn again when prompt and expected answer do not fit; raise the limit of tokens "
                "(max_token_length), or that of answers (max_answer_bytes), to train on them",
                problem.task,
            )

    def _log_library(self, library: LibraryInfo, plan: TaskPlan) -> None:
        for warning in library.warnings:
            logger.warning("%s", warning)
        origin = "the checkout beside this module" if self._checkout else "the installed package"
        selected = f"{len(plan.tasks)} of {len(library.tasks)} tasks selected"
        details = (library.version, library.path, origin, selected)
        logger.info("reasoning-gym %s from %s (%s); %s", *details, extra={"detail": True})


async def check_names_of_tasks(settings: ReasoningSettings, checkout: Path | None) -> None:
    """Raise ConfigError for tasks that there are not.

    The library, which takes seconds to load, is asked only about names that are not known to be tasks.
    """
    patterns = [*settings.tasks, *settings.exclude_tasks, *settings.eval_tasks]
    if all(any(fnmatchcase(task, pattern.lower()) for task in (*FACTS, ALL_TASKS)) for pattern in patterns):
        return
    async with Session(settings, checkout=checkout):
        pass


def _started(value: T | None) -> T:
    if value is None:
        raise RuntimeError("start() comes first")
    return value
