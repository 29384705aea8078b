"""The core without a trainer: make problems, judge completions, and learn from the verdicts.

Every integration runs this loop:

    async with Session(tasks=["gcd", "chain_sum"], seed=1) as session:
        for step in range(100):
            problem = await session.next()                             # drawn, generated, in flight
            completions = await complete(session.messages(problem))    # yours
            verdicts = await session.judge(problem, completions)       # in sandboxed processes
            session.observe(problem, verdicts)                         # curriculum and metrics

An infrastructure error is raised by `judge` and is never a score of 0. `state()` returns everything that decides the
next problem; a session that begins with this state continues the earlier session.

With a score function in place of tasks, a session judges rows of your own data:

    async with Session(score="my_rewards:score") as session:
        verdicts = await session.judge({"answer": "42"}, ["so it is 42", "no idea"])

The function is `score(completion: str, **row) -> float | Mapping[str, float]`, with scores from 0 to 1. It runs in
sandboxed worker processes: a completion that never ends, takes all memory or crashes the interpreter gets 0 with a
reason, and harms no other completion.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Generic, Self, cast

from typing_extensions import TypeVar  # of Python 3.13, with defaults

from .errors import ConfigError, did_you_mean
from .metrics.metric import Reading, for_wandb, read
from .metrics.own_verifiers import OWN_VERDICTS, OwnVerdicts
from .metrics.recorder import ANSWERS, DROPPED, TRAIN, TRAIN_TASKS, MetricsRecorder, Sums
from .metrics.stats import POOL, SAMPLER, STREAM, StreamStats
from .problems.evaluation_set import EvaluationSet
from .problems.plan import (
    EvaluationPlan,
    TaskPlan,
    check_own_tasks,
    make_sampler,
    plan_evaluation,
    plan_tasks,
)
from .problems.references import Remaker
from .problems.sampling import TaskSampler
from .problems.state import read_state
from .problems.stream import ProblemStream, Tries, draw_problem
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
    score_texts_as_library,
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
    """The scores, in [0, 1], of an earlier group at a level of a task; None for a task without levels."""

    task: str
    level: float | None
    scores: Sequence[float]


class Session(Generic[T]):
    """The problems and verdicts of one run, for one event loop.

    `async with session` starts and closes the session.

    Args:
        settings: The settings; by default, made from the keywords `fields`.
        prepare: Returns the item that `next` hands out for a problem, such as the problem with its prompt, or None when
            prompt, expected answer and completion do not fit into the model's context. The problem is then counted and
            another is drawn; each task is warned about once. Without `prepare`, `next` hands out the `Problem`.
        on_thread: Calls `prepare` with a problem; by default, in threads, several at a time.
        pool: Worker pool, started by `start` and closed by `close`. By default, made from the settings.
        checkout: Folder with a reasoning-gym to use instead of the installed package, where the settings name none.
        score: Score function in place of tasks: `MODULE:FUNCTION`, or a ScoreFunction with what it may use. The session
            then judges rows, and has no problems.
        group_size: Usual number of verdicts in a call of `observe`.
        preamble: Text before the system prompt.
        thinking: Formats in which the model thinks. By default, the formats of the settings.
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
        self.pool = pool or WorkerPool(_pool_settings(settings, checkout, score))
        self.instance = 0
        self._prepare = prepare
        self._on_thread = on_thread
        self._checkout = settings.checkout or checkout
        self.group_size = group_size
        self._preamble = preamble
        self._library: LibraryInfo | None = None
        self._own_verdicts: OwnVerdicts | None = None
        """The verdicts of a score function, or of the user's own tasks; None without such tasks."""
        self._plan: TaskPlan | None = None
        self._eval_plan: EvaluationPlan | None = None
        self._evaluation_set: EvaluationSet | None = None
        self._sampler: TaskSampler | None = None
        self._unlearned: TaskSampler | None = None
        """The sampler of `draw`, which observes nothing."""
        self._stream: ProblemStream[T] | None = None
        self.remaker = Remaker(self.pool, settings)
        """Generates the problems of references, in limited processor time."""

    # ---- beginning and end

    async def start(self) -> LibraryInfo:
        """Start the workers, and plan training and evaluation from the settings. Return facts about the library.

        No process is left after an error. Raises:

        - ConfigError: a setting of tasks is wrong, or the score function cannot be used
        - WorkerError: the workers cannot be started
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
            instance: Number of this session; sessions with different numbers share no problem.
            state: The result of `state()` in an earlier run; ConfigError for another value.
            done: Positions of the stream to skip, when an earlier run left groups and no state.
            learn_from: Such groups, from which the sampler learns.
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
        """Stop generating and end every process. Safe to call twice; `state()` still works afterwards."""
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
        """Return the result of `prepare` for the next problem that fits.

        The problem is in flight until `observe`, `done` or `drop`. Its question is not in the evaluation set. Raises:

        - ConfigError: none of the first MAX_UNFIT problems fits (`problems/giving_up.py`)
        - GenerationError: no task is left
        - ClosedError: the session was closed
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

        `subject` is a problem, or a problem's reference; with a score function, a row. A completion is a text, a
        message with `content`, or None for a model that wrote nothing. `thinking` has the formats in which the
        completions think, if they differ from the session's. Raises:

        - ConfigError: an argument is of another kind, or the score function cannot be called with the row
        - RaisingFunctionError: the score function has raised at every completion so far, a hundred or more
        - ScoringError: an infrastructure error persisted on a fresh worker
        - WorkerError: no worker can be started at the moment, or the session was closed (ClosedError)
        - InvalidReferenceError: the reference names no problem of this library
        - GenerationError: the problem of the reference cannot be generated

        A row's verdict has the function's further numbers as `parts`. An error of the function, or of a verifier, is
        the reason `verifier_error`, with its words as `error`.
        """
        check_subject(subject)
        texts = read_completions(completions)
        if isinstance(subject, Mapping) is not self._scores_rows:
            judged = "rows" if self._scores_rows else "problems and references"
            raise ConfigError(f"this session judges {judged}", setting="subject", got=short(subject))
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

        A group with a None, a missing verdict, is dropped and counted. Raises ConfigError for an empty list and for
        other values.

        `rollouts` are the judged rollouts with rewards and lengths, for the metrics. Without them, `cut` says which
        completions a limit of tokens ended. With `done=False`, the problem
        stays in flight until the method `done`.
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
        group = Group(problem, (), tuple(rollouts))
        self.metrics.record_group(group)
        logger.debug("%s at level %s: scores %s", problem.spec, problem.level, group.scores)
        if self._sampler is not None:
            # Not the rewards: a penalty for length says nothing about the problem's difficulty.
            level = problem.spec.level if problem.level is None else problem.level
            self._sampler.observe(problem.task, level, [verdict.score for verdict in judged])
        if done:
            self.done(problem)

    def done(self, problem: Problem) -> None:
        """Take a problem out of flight: its group was delivered or dropped. Safe to call twice."""
        if self._stream is not None:
            self._stream.done(problem)

    def drop(self, problem: Problem, reason: DropReason) -> None:
        """Count a problem without a group, and take the problem out of flight."""
        self.metrics.record_dropped(reason)
        self.done(problem)

    # ---- state, metrics, references

    def state(self) -> dict[str, object]:
        """Return as JSON values everything that decides the next problem.

        The state holds the problems in flight, the problems drawn ahead, and the sampler's estimates. Raises
        RuntimeError before `begin`.
        """
        if self._stream is None or self._sampler is None:
            raise RuntimeError("call begin() first")
        return {"instance": self.instance, "stream": self._stream.state(), "sampler": self._sampler.state()}

    def report(self) -> dict[str, float]:
        """Return the metrics of the interval since the last call. Empty before `start`.

        With a score function, these are the counts of verdicts by reason since the start, and those of the workers.
        """
        return for_wandb(self.readings(self.metrics.take_interval())) if self.has_started else {}

    def readings(self, groups: Mapping[str, Sums]) -> Iterator[Reading]:
        """Yield the values of all metrics; `groups` has the sums of groups by task."""
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
        """Generate the problem of a reference, or return the problem kept from an earlier call.

        Raises InvalidReferenceError, GenerationError and WorkerError, as `judge` does.
        """
        return await self.remaker.remake(reference, self.library)

    async def make(
        self, task: str, seed: int, *, params: Mapping[str, object] | None = None, level: float | None = None
    ) -> Problem:
        """Generate the problem of exactly this seed, even a problem that training rejects.

        `params` replace parameters of the settings. Raises GenerationError and WorkerError.
        """
        all_params = {**self.plan.all_params.get(task, {}), **(params or {})}
        request = ProblemRequest(task, seed, all_params, level, exact_seed=True)
        return await self.pool.generate(ProblemSpec(request, Split.TRAIN, 0), self.settings.eval_generation_deadline_s)

    async def draw(self, index: int, *, task: str | None = None, level: float | None = None) -> Problem:
        """Generate a training problem by its number, without taking a problem from the stream.

        The problem is a function of the settings and the arguments alone, whatever was observed. `task` and `level`
        replace what the settings draw for this number. Problems that training rejects are replaced. Raises:

        - ConfigError: an argument is wrong, or the task has no levels
        - GenerationError: the problem cannot be generated
        - WorkerError: no worker can be started at the moment
        """
        check_whole_number("index", index, least=0)
        plan = self.plan
        if task is not None and task not in plan.tasks:
            remedy = did_you_mean(str(task), plan.tasks) or "see the selected `tasks`"
            raise ConfigError("must be one of the selected tasks", setting="task", got=short(task), remedy=remedy)
        if level is not None and not (isinstance(level, int | float) and 0.0 <= level <= 1.0):
            raise ConfigError("must be a number from 0 to 1", setting="level", got=level)
        if level is not None and task is not None and task not in plan.adjustable:
            raise ConfigError(f"{task} has no levels", setting="level", got=level, remedy="leave the level out")
        if self._unlearned is None:
            self._unlearned = make_sampler(plan, self.settings, instance=self.instance, group_size=self.group_size)
        sampler = self._unlearned
        spec = sampler.draw(index, attempt=0)
        name = task or spec.task
        spec = spec.with_request(
            task=name,
            params=plan.all_params.get(name, {}),
            level=spec.level if level is None else level,
        )

        async def attempt(number: int) -> Problem | Rejection:
            nonlocal spec
            if number > 0:
                spec = sampler.redraw(spec)
            problem = await self.pool.generate(spec, self.settings.generation_deadline_s)
            rejection = await self.reject(problem)
            return problem if rejection is None else rejection

        return await draw_problem(attempt, Tries())

    def system_prompt(self, split: Split = Split.TRAIN) -> str:
        """Return the system prompt of a split's problems; empty for none."""
        if split is Split.EVAL and self.eval_plan.system_prompt is not None:
            return self.eval_plan.system_prompt
        own = system_prompt(self.settings.system_prompt, self.thinking)
        return "\n\n".join(filter(None, [self._preamble, own]))

    @property
    def library(self) -> LibraryInfo:
        """Facts about the library in the workers. Raises RuntimeError before `start`, as the next three do."""
        return self._require(self._library)

    @property
    def plan(self) -> TaskPlan:
        """Tasks with their parameters and weights."""
        return self._require(self._plan)

    @property
    def eval_plan(self) -> EvaluationPlan:
        """Tasks, numbers and prompt of the evaluation."""
        return self._require(self._eval_plan)

    @property
    def evaluation_set(self) -> EvaluationSet:
        """The fixed problems of the evaluation, which `next` never hands out."""
        return self._require(self._evaluation_set)

    def _require(self, value: U | None) -> U:
        if value is None:
            has_no_tasks = self._scores_rows and self._library is not None
            raise RuntimeError("a session with a score function has no tasks" if has_no_tasks else "call start() first")
        return value

    @property
    def stats(self) -> StreamStats:
        """What the stream knows of itself; nothing before `begin`."""
        return StreamStats() if self._stream is None else self._stream.stats

    @property
    def has_started(self) -> bool:
        """Whether the workers have told of the library."""
        return self._library is not None

    @property
    def has_begun(self) -> bool:
        """Whether problems are drawn."""
        return self._stream is not None

    @property
    def fault(self) -> str | None:
        """Why nothing can be judged at the moment, in one line; None while workers live."""
        return self.pool.fault

    @property
    def in_flight(self) -> int:
        """Number of problems that were handed out and are not done."""
        return 0 if self._stream is None else self._stream.in_flight

    async def reject(self, problem: Problem) -> Rejection | None:
        """Return why this session would not serve a problem; None for a problem that it would."""
        prepared = await self._prepare_or_reject(problem)
        return prepared if isinstance(prepared, Rejection) else None

    async def _prepare_or_reject(self, problem: Problem) -> T | Rejection:
        """Return the prepared problem, or the reason why this run does not serve the problem."""
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


def _pool_settings(
    settings: ReasoningSettings, checkout: str | Path | None, score: str | ScoreFunction | None
) -> PoolSettings:
    if score is None:
        return PoolSettings(settings, None if checkout is None else Path(checkout))
    return PoolSettings.of_function(score if isinstance(score, ScoreFunction) else ScoreFunction(score), settings)
