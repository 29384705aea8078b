"""A session on a thread of its own, for code that has no event loop, or one that must not wait.

    with Bridge(tasks=["gcd", "chain_sum"], seed=1) as bridge:
        problem = bridge.next()
        completions = generate(bridge.messages(problem))    # yours
        verdicts = bridge.judge(problem, completions)       # None in place of a verdict: a fault of ours, never a 0
        bridge.observe(problem, verdicts)

Any number of threads may call at once. `anext` and `ajudge` are `next` and `judge` for callers with an event loop.
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
from typing import TYPE_CHECKING, Any, TypeVar

from .errors import GenerationError, ReasoningEnvError, ScoringError
from .records import DropReason, Problem, Reason, Verdict
from .session import Session
from .settings import ReasoningSettings, make_settings

if TYPE_CHECKING:
    import aiohttp

logger = logging.getLogger(__name__)

T = TypeVar("T")

_bridges: dict[int, Bridge] = {}
"""The open bridges of this process by number: a pickled bridge is this number."""
_numbers = itertools.count()


class Bridge:
    """Runs a `Session` on a thread; made with the settings as keywords, or a `ReasoningSettings`.

    `fits` says whether there is room for a problem's prompt and completion; it may be set until the first problem is
    drawn. `instance`, `state` and `group_size` are the session's. With `judge_url` answers are judged by a `judge`
    server there, and own workers are started only where problems are asked for. Without `start` the first call starts
    the workers, so that making a bridge takes no time. Where workers start, what `Session.start` raises is raised.
    A bridge belongs to the process that made it; after a fork, make another. It pickles to a number that only this
    process can read, because libraries pickle what they hash.
    """

    def __init__(
        self,
        settings: ReasoningSettings | None = None,
        *,
        fits: Callable[[Problem], bool] | None = None,
        instance: int = 0,
        state: Mapping[str, Any] | None = None,
        group_size: int = 8,
        judge_url: str | None = None,
        start: bool = True,
        **fields: Any,
    ) -> None:
        self.fits = fits
        self.session = Session(
            settings or make_settings(ReasoningSettings, fields), prepare=self._return_if_fits, group_size=group_size
        )
        self._instance, self._state, self._judge_url = instance, state, judge_url
        self._pid = os.getpid()
        self._number = next(_numbers)
        self._loop = asyncio.new_event_loop()
        self._starting: asyncio.Task[None] | None = None
        self._http: aiohttp.ClientSession | None = None
        # A daemon, so that a program which forgets to close can end; atexit then ends the workers.
        self._thread = threading.Thread(target=self._loop.run_forever, name="reasoning-bridge", daemon=True)
        self._thread.start()
        atexit.register(self.close)
        _bridges[self._number] = self
        if start and judge_url is None:
            try:
                self._run(self._start())
            except BaseException:
                self.close()
                raise

    def next(self) -> Problem:
        """Return the next problem, in flight until `observe`; raises as `Session.next` does."""
        return self._run(self._next())

    async def anext(self) -> Problem:
        return await self._wait(self._next())

    def messages(self, problem: Problem) -> list[dict[str, str]]:
        """Return the conversation that asks a problem's question."""
        return [dict(message) for message in self.session.messages(problem)]

    def judge(self, problem: Problem | str, completions: Sequence[str]) -> list[Verdict | None]:
        """Return a verdict for each completion; `problem` may be a reference. None stands for a fault of ours.

        A reference whose problem cannot be generated here, in time or at all, is such a fault.

        Raises InvalidReferenceError for a reference that cannot be one, and WorkerError without workers.
        """
        return self._run(self._judge(problem, completions))

    async def ajudge(self, problem: Problem | str, completions: Sequence[str]) -> list[Verdict | None]:
        return await self._wait(self._judge(problem, completions))

    def observe(self, problem: Problem, verdicts: Sequence[Verdict | None]) -> None:
        """Let curriculum and metrics learn from a whole group; one with a None is dropped and counted."""
        self._run(self._observe(problem, list(verdicts)))

    def evaluation_problems(self) -> list[Problem]:
        """Return the fixed evaluation set, which `next` never hands out."""
        return self._run(self._evaluation_problems())

    def state(self) -> dict[str, Any]:
        """Return what decides the next problem, as JSON; a bridge made with it as `state` goes on from there."""
        return self._run(self._call(self.session.state))

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state()` returned in an earlier run, before the first problem is drawn."""
        self._run(self._resume(state))

    def report(self) -> dict[str, float]:
        """Return the metrics of the interval since the last call."""
        return self._run(self._call(self.session.report))

    def close(self) -> None:
        """End the workers and the thread; safe to call twice, and from a forked child, where it does nothing."""
        atexit.unregister(self.close)
        _bridges.pop(self._number, None)
        if os.getpid() != self._pid or self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Bridge:
        return self

    def __exit__(
        self, error_class: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[[int], Bridge], tuple[int]]:
        return _find_bridge, (self._number,)

    # ---- on the thread

    async def _start(self) -> None:
        if self._starting is None:
            self._starting = asyncio.create_task(self._start_session())
        await asyncio.shield(self._starting)

    async def _start_session(self) -> None:
        await self.session.start()

    def _return_if_fits(self, problem: Problem) -> Problem | None:
        return problem if self.fits is None or self.fits(problem) else None

    async def _next(self) -> Problem:
        await self._start()
        self.session.begin(self._instance, self._state)
        return await self.session.next()

    async def _resume(self, state: Mapping[str, Any]) -> None:
        if self.session.stats is not None:
            raise RuntimeError("problems were drawn already; resume before the first of them")
        self._state = state

    async def _judge(self, problem: Problem | str, completions: Sequence[str]) -> list[Verdict | None]:
        try:
            if self._judge_url is not None:
                return list(
                    await self._ask_judge(problem if isinstance(problem, str) else problem.reference, completions)
                )
            await self._start()
            return list(await self.session.judge(problem, completions))
        except (GenerationError, ScoringError) as error:
            logger.warning("a group is not judged, and gets no scores: %s", error)
            return [None] * len(completions)

    async def _ask_judge(self, reference: str, completions: Sequence[str]) -> list[Verdict]:
        """Have the server judge; raises ScoringError for every fault that is not this caller's."""
        import aiohttp  # which only a bridge to a judge elsewhere needs

        if self._http is None:
            self._http = aiohttp.ClientSession(headers=_authorization())
        body = {"ref": reference, "texts": list(completions)}
        try:
            async with self._http.post(f"{self._judge_url}/score", json=body) as reply:
                answer = await reply.json()
                if 400 <= reply.status < 500 and reply.status != 429:
                    raise ReasoningEnvError(f"the judge at {self._judge_url} refuses the request: {answer['error']}")
                reply.raise_for_status()
                return [Verdict(row["score"], Reason(row["reason"]), row["answer"]) for row in answer["verdicts"]]
        except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError) as error:
            raise ScoringError(f"the judge at {self._judge_url} gives no verdicts: {error}") from error

    async def _observe(self, problem: Problem, verdicts: list[Verdict | None]) -> None:
        whole = [verdict for verdict in verdicts if verdict is not None]
        if len(whole) == len(verdicts):
            self.session.observe(problem, whole)
        else:
            self.session.drop(problem, DropReason.SCORING)

    async def _evaluation_problems(self) -> list[Problem]:
        await self._start()
        return await self.session.evaluation_set.problems()

    async def _call(self, function: Callable[[], T]) -> T:
        return function()

    async def _close(self) -> None:
        if self._starting is not None and not self._starting.done():
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        if self._http is not None:
            await self._http.close()
        await self.session.close()

    # ---- from other threads

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        if os.getpid() != self._pid or self._loop.is_closed():
            work.close()
            gone = (
                "is closed"
                if self._loop.is_closed()
                else f"belongs to process {self._pid}, which this one was forked of"
            )
            raise RuntimeError(f"this Bridge {gone}; make another")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._submit(work).result()

    async def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(self._submit(work))


def _find_bridge(number: int) -> Bridge:
    if number not in _bridges:
        raise RuntimeError("a Bridge cannot be sent to another process; make one there")
    return _bridges[number]


def _authorization() -> dict[str, str]:
    """Return the header that a judge beyond this machine asks for."""
    token = os.environ.get("REASONING_JUDGE_TOKEN")
    return {"Authorization": f"Bearer {token}"} if token else {}
