"""A session on its own thread, for code without an event loop, or with an event loop that must not be blocked.

    with Bridge(tasks=["gcd", "chain_sum"], seed=1) as bridge:
        problem = bridge.next()
        completions = generate(bridge.messages(problem))    # your code
        verdicts = bridge.judge(problem, completions)       # None (never 0) after an infrastructure error
        bridge.observe(problem, verdicts)

`Bridge(score="my_rewards:score")` judges rows of your own data, as a session with a score function does:

    with Bridge(score="my_rewards:score") as bridge:
        verdicts = bridge.judge({"answer": "42"}, ["so it is 42", "no idea"])

Any number of threads may use a bridge at the same time. `close` ends running calls with a RuntimeError. On an event
loop, use `anext`, `ajudge` and `averdict` instead of `next`, `judge` and `verdict`.
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
"""Open bridges of this process, by number. A bridge is pickled as its number."""
_numbers = itertools.count()


class RemoteJudge(Protocol):
    """An object that judges instead of the bridge's workers: a `JudgeClient`, or your own object with these methods."""

    async def judge(self, subject: Subject, completions: Sequence[str]) -> Sequence[Verdict]:
        """Return a verdict for each completion, in order.

        `subject` is a `Problem.reference` or, for a score function, a row.

        Raises GenerationError, ScoringError or WorkerError if the group cannot be judged now.
        """

    async def close(self) -> None:
        """Release the judge's resources. Called once, when the bridge is closed."""


class Bridge:
    """Runs a `Session` on a thread, for calls from any number of threads.

    A bridge works only in the process that created it, and can be unpickled only there. After a fork, create a new one.

    Args:
        settings: The settings; by default, created from the keywords `fields`.
        fits: Returns whether a problem's prompt and completion fit into the model's context. You can also set this
            attribute later, before the first problem is drawn.
        score: Score function instead of tasks, as for `Session`.
        instance: Number of the session. Sessions 0 to 63 share no seeds.
        state: Return value of `state()` in an earlier run, to continue that run.
        group_size: Usual number of completions per problem.
        judge: Object that judges instead of the bridge's workers, such as `JudgeClient(url)`. The bridge then starts
            workers only to generate problems, and closes the judge at the end. To judge rows, start the judge's server
            with --score, and omit `score`.
        start: Start the workers now, and raise the errors of `Session.start`. If False, the first call starts them.
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
            raise ConfigError(
                "cannot be combined with `judge`, because the judge's server already has a score function",
                setting="score",
                got=score,
                remedy="omit `score` or `judge`",
            )
        if "judge_url" in fields:
            raise ConfigError(
                "is not a keyword of Bridge",
                setting="judge_url",
                remedy="use Bridge(judge=JudgeClient(URL)), with JudgeClient from reasoning_env",
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
        # A daemon thread, so that a program that forgets `close` can end; atexit then ends the workers.
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
        """Return the next problem. The problem is in flight until `observe`. Raises the errors of `Session.next`."""
        return self._run(self._next())

    async def anext(self) -> Problem:
        """Do the same as `next`, for callers with an event loop."""
        return await self._wait(self._next())

    def draw(self, index: int, *, task: str | None = None, level: float | None = None) -> Problem:
        """Return training problem number `index` without putting it in flight. Raises the errors of `Session.draw`."""
        return self._run(self._draw(index, task, level))

    def remake(self, reference: str) -> Problem:
        """Return the problem that a reference names. Raises the errors of `Session.remake`."""
        return self._run(self._remake(reference))

    def messages(self, problem: Problem) -> list[dict[str, str]]:
        """Return the conversation that asks the problem's question. Each message has `role` and `content`."""
        check_whole_problem(problem)
        return [dict(message) for message in self.session.messages(problem)]

    def judge(self, subject: Problem | Subject, completions: Sequence[Completion]) -> list[Verdict | None]:
        """Return a verdict for each completion, in order.

        `subject` is a problem, a `Problem.reference` or, with a score function, a row.

        A completion is a string, a message with `content`, or None if the model wrote nothing. All verdicts are None
        after an infrastructure error, or if the problem of the reference cannot be generated.

        Raises:
            ConfigError: An argument has the wrong type.
            InvalidReferenceError: The reference is invalid, or does not fit the reasoning-gym in use.
            RuntimeError: The bridge is closed.
            ReasoningEnvError: A remote judge refuses the reference or the access token.
        """
        check_subject(subject)
        return self._run(self._verdicts(subject, read_completions(completions)))

    async def ajudge(self, subject: Problem | Subject, completions: Sequence[Completion]) -> list[Verdict | None]:
        """Do the same as `judge`, for callers with an event loop."""
        check_subject(subject)
        return await self._wait(self._verdicts(subject, read_completions(completions)))

    def verdict(self, subject: Problem | Subject, completion: Completion) -> Verdict:
        """Return the verdict on one completion, for callers that cannot handle None.

        Raises ScoringError if `judge` returns None, and the errors of `judge`.
        """
        [verdict] = self.judge(subject, [completion])
        return _require_verdict(verdict)

    async def averdict(self, subject: Problem | Subject, completion: Completion) -> Verdict:
        """Do the same as `verdict`, for callers with an event loop."""
        [verdict] = await self.ajudge(subject, [completion])
        return _require_verdict(verdict)

    def observe(
        self, problem: Problem, verdicts: Sequence[Verdict | float | None], *, cut: Sequence[bool] | None = None
    ) -> None:
        """Update curriculum and metrics with a group's verdicts, or with scores from 0 to 1.

        `cut` marks completions that reached a token limit. If a verdict is None, the group is counted as dropped.
        Raises ConfigError for an empty list and for invalid values.
        """
        self._run(self._call(lambda: self.session.observe(problem, verdicts, cut=cut)))

    def evaluation_problems(self) -> list[Problem]:
        """Return the fixed problems of the evaluation, in a fixed order. `next` never returns these problems.

        Each task occurs once before any task occurs again, so the first problems are a sample of all tasks.
        """
        return self._run(self._evaluation_problems())

    def state(self) -> dict[str, object]:
        """Return everything that determines the next problems, as JSON values, for `Bridge(state=...)`."""
        return self._run(self._call(self._describe_state))

    def resume(self, state: Mapping[str, object]) -> None:
        """Continue from the `state()` of an earlier run.

        Raises ConfigError for an invalid state, and RuntimeError if this bridge has already drawn a problem.
        """
        read_state(state)
        self._run(self._resume(state))

    def report(self) -> dict[str, float]:
        """Return the metrics since the last call of `report`."""
        return self._run(self._call(self.session.report))

    def close(self) -> None:
        """End the workers and the thread; running calls raise RuntimeError.

        Any number of threads may call this, also repeatedly. In a forked child it has no effect.
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
        return _find_bridge, (self._number,)  # libraries pickle their arguments to hash them

    # ---- on the bridge's thread

    async def _start(self) -> None:
        """Start the session; a second call has no effect."""
        if self._starting is None:
            self._starting = asyncio.create_task(self.session.start())
        await asyncio.shield(self._starting)  # a cancelled call must not end the start for other calls

    async def _close(self) -> None:
        await cancel_all(self._calls.copy())
        if self._starting is not None:
            await cancel_all([self._starting])
        if self._judge is not None:
            await self._judge.close()
        await self.session.close()

    async def _await_unless_closed(self, work: Coroutine[object, object, T]) -> T:
        """Return the result of a call. Raises RuntimeError if `close` ends the call."""
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
        """Return the state of the session, with the settings that affect the problems."""
        return {**self.session.state(), "made_with": made_with(self.session.settings, self.session.plan, "problems")}

    def _warn_of_other_settings(self) -> None:
        """Warn if the state was saved with other settings. Unfinished problems in the state are served unchanged."""
        before = (self._state or {}).get("made_with")
        if not isinstance(before, Mapping):
            return
        changed = changed_settings(before, made_with(self.session.settings, self.session.plan, "problems"))
        if changed:
            logger.warning(
                "the state was saved with different values of %s; unfinished problems keep the saved values",
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
            raise RuntimeError("too late to resume, because a problem was drawn; call resume() before next()")
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
            logger.warning("a group could not be judged, so its scores are None: %s", error)
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
            raise RuntimeError(
                f"only process {self._pid}, which created this Bridge, can use it; create a new Bridge after a fork"
            )
        with self._lock:  # a call submitted to the loop after `_close` would never finish
            if self._closed:
                work.close()
                raise self._closed_error()
            return asyncio.run_coroutine_threadsafe(self._await_unless_closed(work), self._loop)

    def _run(self, work: Coroutine[object, object, T]) -> T:
        return self._submit(work).result()

    async def _wait(self, work: Coroutine[object, object, T]) -> T:
        return await asyncio.wrap_future(self._submit(work))

    def _closed_error(self) -> RuntimeError:
        return RuntimeError("this Bridge is closed; create a new one")


def _require_verdict(verdict: Verdict | None) -> Verdict:
    if verdict is None:
        raise ScoringError("a completion could not be judged", remedy="try again; the log has the cause")
    return verdict


def _find_bridge(number: int) -> Bridge:
    if number not in _bridges:
        raise RuntimeError("a Bridge cannot be sent to another process; create one there")
    return _bridges[number]
