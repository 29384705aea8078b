"""A session on a thread of its own, for code without an event loop, or with an event loop that must not wait.

    with Bridge(tasks=["gcd", "chain_sum"], seed=1) as bridge:
        problem = bridge.next()
        completions = generate(bridge.messages(problem))    # yours
        verdicts = bridge.judge(problem, completions)       # None for an infrastructure error, which is never a 0
        bridge.observe(problem, verdicts)

`Bridge(score="my_rewards:score")` judges rows of your own data, as a session with a score function does:

    with Bridge(score="my_rewards:score") as bridge:
        verdicts = bridge.judge({"answer": "42"}, ["so it is 42", "no idea"])

Any number of threads may call at the same time. `close` ends the calls under way with a RuntimeError. `anext`,
`ajudge` and `averdict` are `next`, `judge` and `verdict` for an event loop.
"""

from __future__ import annotations

import asyncio
import atexit
import itertools
import logging
import os
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Protocol, Self, TypeVar

from .errors import ClosedError, ConfigError, GenerationError, ScoringError, WorkerError
from .problems.plan import made_with
from .problems.state import read_state
from .prompts.messages import Completion, read_completions
from .records import Problem, Subject, Verdict
from .rewards import check_subject, check_whole_problem
from .runtime.concurrency import cancel_all
from .seeds import hash_int
from .session import Session
from .settings import ReasoningSettings, changed_settings, read_settings
from .settings.given import check_whole_number
from .sources.score_function import ScoreFunction

logger = logging.getLogger(__name__)

T = TypeVar("T")

_bridges: dict[int, Bridge] = {}
"""Open bridges of this process by number. A pickled bridge is its number."""
_numbers = itertools.count()


class RemoteJudge(Protocol):
    """Judges in place of the bridge's own workers: a `JudgeClient`, or an object of yours with these methods."""

    async def judge(self, subject: Subject, completions: Sequence[str]) -> Sequence[Verdict]:
        """Return a verdict for each completion, in order. `subject` is a problem's reference, or a row.

        Raises GenerationError, ScoringError or WorkerError if the group gets no verdicts now.
        """

    async def close(self) -> None:
        """Free what the judge uses. Called once, when the bridge is closed."""


class Bridge:
    """Runs a `Session` on a thread, for calls from any number of threads.

    A bridge belongs to the process that made the bridge; after a fork, make another. A bridge pickles to a number that
    only its own process can read, because libraries pickle their arguments to hash them.

    Args:
        settings: The settings; by default, made from the keywords `fields`.
        fits: Tells whether a problem's prompt and completion fit into the model's context. The attribute may be set
            until the first problem is drawn, because some trainers load the model after the bridge is made.
        score: Score function in place of tasks, as for `Session`.
        instance: Number of the session; sessions with different numbers share no problem.
        state: The result of `state()` in an earlier run, which this run continues.
        group_size: Usual number of completions of a problem.
        judge: Judges in place of workers of this process, as `JudgeClient(url)` does over HTTP. The bridge then starts
            workers only to make problems, and closes the judge at its end. A server that runs with --score judges rows;
            then leave `score` out.
        start: Start the workers now, and raise the errors of `Session.start`. Otherwise the first call starts them.
    """

    def __init__(
        self,
        settings: ReasoningSettings | None = None,
        *,
        fits: Callable[[Problem], bool] | None = None,
        score: str | ScoreFunction | None = None,
        instance: int = 0,
        state: Mapping[str, object] | None = None,
        group_size: int = 8,
        judge: RemoteJudge | None = None,
        start: bool = True,
        **fields: object,
    ) -> None:
        self.fits = fits
        check_whole_number("instance", instance, least=0)
        if state is not None:
            read_state(state)
        if score is not None and judge is not None:
            raise ConfigError("the judge has a score function of its own", setting="score", got=score)
        if "judge_url" in fields:
            raise ConfigError(
                "is no keyword of Bridge",
                setting="judge_url",
                remedy="write Bridge(judge=JudgeClient(URL)), with JudgeClient from reasoning_env",
            )
        self.session = Session(
            read_settings(Bridge, settings, fields), prepare=self._return_if_fits, score=score, group_size=group_size
        )
        self._instance = instance
        self._state = state
        self._judge = judge
        self._number = next(_numbers)
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._lock = threading.RLock()
        self._calls: set[asyncio.Task[object]] = set()
        self._closed = False
        self._closing: Future[None] | None = None
        self._starting: asyncio.Task[object] | None = None
        # A daemon, so that a program without `close` can end. Then atexit ends the workers.
        self._thread = threading.Thread(target=self._loop.run_forever, name="reasoning-Bridge", daemon=True)
        self._thread.start()
        atexit.register(self.close)
        _bridges[self._number] = self
        if start and judge is None:
            try:
                self._run(self._start())
            except BaseException:
                self.close()
                raise

    def next(self) -> Problem:
        """Return the next problem, which is in flight until `observe`. Raises the errors of `Session.next`."""
        return self._run(self._next())

    async def anext(self) -> Problem:
        """Do the same as `next`, for callers with an event loop."""
        return await self._wait(self._next())

    def draw(self, index: int, *, task: str | None = None, level: float | None = None) -> Problem:
        """Return a training problem by its number, which is not in flight. Raises the errors of `Session.draw`."""
        return self._run(self._draw(index, task, level))

    def remake(self, reference: str) -> Problem:
        """Return the problem of a reference. Raises the errors of `Session.remake`."""
        return self._run(self._remake(reference))

    def messages(self, problem: Problem) -> list[dict[str, str]]:
        """Return the conversation that asks the problem's question. Each message has `role` and `content`."""
        check_whole_problem(problem)
        return [dict(message) for message in self.session.messages(problem)]

    def judge(self, subject: Problem | Subject, completions: Sequence[Completion]) -> list[Verdict | None]:
        """Return a verdict for each completion, in order. `subject` is a problem, a problem's reference, or a row.

        A completion is a text, a message with `content`, or None for a model that wrote nothing.
        All verdicts are None after an infrastructure error, or when the problem of a reference cannot be generated. A
        `JudgeClient` retries a busy or absent server for its `timeout_s`, and then raises such an error.
        Raises:

        - ConfigError: an argument is of another kind
        - InvalidReferenceError: the reference names no problem of this library
        - RuntimeError: the bridge is closed
        - ReasoningEnvError: the judge refuses the request, for its reference or its token
        """
        check_subject(subject)
        return self._run(self._verdicts(subject, read_completions(completions)))

    async def ajudge(self, subject: Problem | Subject, completions: Sequence[Completion]) -> list[Verdict | None]:
        """Do the same as `judge`, for callers with an event loop."""
        check_subject(subject)
        return await self._wait(self._verdicts(subject, read_completions(completions)))

    def verdict(self, subject: Problem | Subject, completion: Completion) -> Verdict:
        """Return the verdict on one completion, for callers that know no None.

        Raises ScoringError where `judge` returns None, else the errors of `judge`.
        """
        [verdict] = self.judge(subject, [completion])
        return _known(verdict)

    async def averdict(self, subject: Problem | Subject, completion: Completion) -> Verdict:
        """Do the same as `verdict`, for callers with an event loop."""
        [verdict] = await self.ajudge(subject, [completion])
        return _known(verdict)

    def observe(
        self, problem: Problem, verdicts: Sequence[Verdict | float | None], *, cut: Sequence[bool] | None = None
    ) -> None:
        """Update curriculum and metrics with a group's verdicts, or with scores from 0 to 1.

        `cut` says which completions a limit of tokens ended. A group with a None is dropped and counted. Raises
        ConfigError for an empty list and for other values.
        """
        self._run(self._call(lambda: self.session.observe(problem, verdicts, cut=cut)))

    def evaluation_problems(self) -> list[Problem]:
        """Return the fixed problems of the evaluation, which `next` never hands out.

        The tasks take turns in a fixed shuffled order, so the first problems are a sample of all tasks.
        """
        return self._run(self._evaluation_problems())

    def state(self) -> dict[str, object]:
        """Return as JSON values everything that decides the next problem. `Bridge(state=...)` continues from it."""
        return self._run(self._call(self._describe_state))

    def resume(self, state: Mapping[str, object]) -> None:
        """Continue from the `state()` of an earlier run.

        Raises ConfigError for another value, and RuntimeError after the first problem was drawn.
        """
        read_state(state)
        self._run(self._resume(state))

    def report(self) -> dict[str, float]:
        """Return the metrics of the interval since the last call."""
        return self._run(self._call(self.session.report))

    def close(self) -> None:
        """End the workers and the thread; calls under way raise RuntimeError.

        Any number of threads may call this, at the same time or again. Without effect in a forked child.
        """
        _bridges.pop(self._number, None)
        atexit.unregister(self.close)
        if os.getpid() != self._pid:
            return
        with self._lock:
            self._closed = True
            if self._closing is None:
                self._closing = asyncio.run_coroutine_threadsafe(self._close(), self._loop)
        self._closing.result()
        with self._lock:
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join()
                self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_class: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[[int], Bridge], tuple[int]]:
        return _find_bridge, (self._number,)

    # ---- on the bridge's thread

    async def _start(self) -> None:
        """Start the session, once."""
        if self._starting is None:
            self._starting = asyncio.create_task(self.session.start())
        await asyncio.shield(self._starting)

    async def _close(self) -> None:
        await cancel_all(self._calls.copy())
        if self._starting is not None:
            await cancel_all([self._starting])
        if self._judge is not None:
            await self._judge.close()
        await self.session.close()

    async def _until_closed(self, work: Coroutine[object, object, T]) -> T:
        """Return the result of a call. Raises RuntimeError when `close` ends the call."""
        call = asyncio.current_task()
        assert call is not None
        self._calls.add(call)
        try:
            return await work
        except (asyncio.CancelledError, ClosedError):
            if self._closed:
                raise self._closed_error() from None
            raise
        finally:
            self._calls.discard(call)

    def _return_if_fits(self, problem: Problem) -> Problem | None:
        return problem if self.fits is None or self.fits(problem) else None

    def _describe_state(self) -> dict[str, object]:
        """Return the state of the session, with the settings that decide the problems."""
        return {**self.session.state(), "made_with": made_with(self.session.settings, self.session.plan, "problems")}

    def _warn_of_other_settings(self) -> None:
        """Warn if the state was made with other settings: its problems come first, whatever the settings say."""
        before = (self._state or {}).get("made_with")
        if not isinstance(before, Mapping):
            return
        changed = changed_settings(before, made_with(self.session.settings, self.session.plan, "problems"))
        if changed:
            logger.warning(
                "the state was made with other %s; the problems that it holds are served first, as they were drawn",
                ", ".join(changed),
            )

    async def _begin(self) -> None:
        await self._start()
        if not self.session.has_begun:
            self._warn_of_other_settings()
        self.session.begin(self._instance, self._state)

    async def _next(self) -> Problem:
        await self._begin()
        return await self.session.next()

    async def _draw(self, index: int, task: str | None, level: float | None) -> Problem:
        await self._begin()
        return await self.session.draw(index, task=task, level=level)

    async def _remake(self, reference: str) -> Problem:
        await self._start()
        return await self.session.remake(reference)

    async def _resume(self, state: Mapping[str, object]) -> None:
        if self.session.has_begun:
            raise RuntimeError("problems were drawn already; call resume() before the first problem is drawn")
        self._state = state

    async def _verdicts(self, subject: Problem | Subject, completions: Sequence[str]) -> list[Verdict | None]:
        try:
            if self._judge is not None:
                named = subject.reference if isinstance(subject, Problem) else subject
                return list(await self._judge.judge(named, completions))
            await self._start()
            return list(await self.session.judge(subject, completions))
        except ClosedError:
            raise
        except (GenerationError, ScoringError, WorkerError) as error:
            logger.warning("a group gets no scores, because it could not be judged: %s", error)
            return [None] * len(completions)

    async def _evaluation_problems(self) -> list[Problem]:
        await self._start()
        problems = await self.session.evaluation_set.problems()
        return sorted(problems, key=lambda problem: (problem.spec.index, hash_int("shuffled tasks", problem.task)))

    async def _call(self, function: Callable[[], T]) -> T:
        return function()

    # ---- from other threads

    def _submit(self, work: Coroutine[object, object, T]) -> Future[T]:
        if os.getpid() != self._pid:
            work.close()
            raise RuntimeError(f"this Bridge belongs to process {self._pid}, before a fork; make another")
        with self._lock:  # a call that the loop gets after `_close` would never end
            if self._closed:
                work.close()
                raise self._closed_error()
            return asyncio.run_coroutine_threadsafe(self._until_closed(work), self._loop)

    def _run(self, work: Coroutine[object, object, T]) -> T:
        return self._submit(work).result()

    async def _wait(self, work: Coroutine[object, object, T]) -> T:
        return await asyncio.wrap_future(self._submit(work))

    def _closed_error(self) -> RuntimeError:
        return RuntimeError("this Bridge is closed; make another")


def _known(verdict: Verdict | None) -> Verdict:
    if verdict is None:
        raise ScoringError("a completion could not be judged", remedy="try again; the log above says why")
    return verdict


def _find_bridge(number: int) -> Bridge:
    if number not in _bridges:
        raise RuntimeError("a Bridge cannot be sent to another process; make one there")
    return _bridges[number]
