from __future__ import annotations

import asyncio
import itertools
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning_env.errors import ClosedError, GenerationError, WorkerError
from reasoning_env.problems import stream as stream_module
from reasoning_env.problems.giving_up import MAX_FAILURES
from reasoning_env.problems.stream import ProblemStream
from reasoning_env.records import Problem, ProblemRequest, ProblemSpec, Rejection, Split
from tests.fake_workers import FakeWorkers, fails_where, no_luck
from tests.records import problem_of

DEADLINE_S = 5.0


class Sampler:
    """Returns the tasks in turn. A new attempt gets the next task, and quarantined tasks are skipped."""

    def __init__(self, tasks: Sequence[str] = ("a", "b", "c")) -> None:
        self._tasks = tasks
        self.quarantined: list[str] = []
        self.drawn: list[int] = []
        self.ceilings: dict[str, float] = {}

    def draw(self, index: int, attempt: int) -> ProblemSpec:
        self.drawn.append(index)
        for number in range(attempt, attempt + len(self._tasks)):
            task = self._tasks[(index + number) % len(self._tasks)]
            if task not in self.quarantined:
                return ProblemSpec(ProblemRequest(task, 1000 * index + number), Split.TRAIN, index, number)
        raise GenerationError("nothing is left to draw")

    def redraw(self, spec: ProblemSpec) -> ProblemSpec:
        return ProblemSpec(ProblemRequest(spec.task, spec.seed + 1), Split.TRAIN, spec.index, spec.attempt + 1)

    def quarantine(self, task: str) -> None:
        self.quarantined.append(task)


at_once = partial(problem_of, flawed={"easy": 2})
b_fails = fails_where(lambda spec: spec.task == "b", at_once)


class Held(FakeWorkers):
    """Workers that finish a request only when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: dict[tuple[int, int], asyncio.Future[Problem]] = {}

    async def generate(self, spec: ProblemSpec, deadline_s: float) -> Problem:
        assert deadline_s == DEADLINE_S
        self.specs.append(spec)
        request = self.requests[spec.index, spec.attempt] = asyncio.get_running_loop().create_future()
        return await request

    def finish(self, *indices: int, attempt: int = 0) -> None:
        for index in indices:
            spec = next(spec for spec in self.specs if (spec.index, spec.attempt) == (index, attempt))
            self.requests[index, attempt].set_result(at_once(spec))

    def fail(self, index: int, attempt: int = 0) -> None:
        self.requests[index, attempt].set_exception(GenerationError("no luck"))


MakeStream = Callable[..., ProblemStream[Problem]]


async def serve_as_is(problem: Problem) -> Problem:
    return problem


@pytest.fixture
async def make_stream() -> AsyncIterator[MakeStream]:
    """Builds streams, and closes them at the end."""
    made: list[ProblemStream[Problem]] = []

    def make(
        workers: FakeWorkers | None = None, sampler: Sampler | None = None, **options: Any
    ) -> ProblemStream[Problem]:
        depth = options.pop("depth", 4)
        options = {"deadline_s": DEADLINE_S, "prepare": serve_as_is, **options}
        made.append(ProblemStream(workers or FakeWorkers(at_once), sampler or Sampler(), **options))
        made[-1].min_ahead = made[-1].max_ahead = depth
        return made[-1]

    yield make
    for stream in made:
        await stream.close()


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_module, "pauses", lambda: itertools.repeat(0.0))


async def settle() -> None:
    """Run the event loop until every asyncio task waits for the test."""
    for _ in range(20):
        await asyncio.sleep(0)


async def started(stream: ProblemStream) -> ProblemStream:
    stream.start()
    await settle()
    return stream


async def take(stream: ProblemStream, count: int) -> list[ProblemSpec]:
    return [(await stream.next()).spec for _ in range(count)]


def saved(stream: ProblemStream) -> Any:
    return json.loads(json.dumps(stream.state()))


# ---------------------------------------------------------------------------- order


async def test_repeated_questions_of_a_stream_are_logged(
    make_stream: MakeStream, caplog: pytest.LogCaptureFixture
) -> None:
    stream = make_stream(FakeWorkers(lambda spec: problem_of(spec, f"Which of {spec.index % 30}?")), Sampler(["a"]))
    await take(stream, 120)
    assert stream.stats.repeated == {"a": 90}
    assert [record.args for record in caplog.records if "are repeats" in record.msg] == [(70.0, "a", "a")]


async def test_stream_counts_problems_with_another_level_than_requested(
    make_stream: MakeStream, caplog: pytest.LogCaptureFixture
) -> None:
    """Workers replace level 1, which has no parameters, by 0.5. Rounding 0.49 to 0.5 does not count."""
    drawn = itertools.cycle([0.49, 1.0])

    class Leveled(Sampler):
        def draw(self, index: int, attempt: int) -> ProblemSpec:
            return super().draw(index, attempt).with_request(level=next(drawn))

    stream = make_stream(FakeWorkers(lambda spec: replace(at_once(spec), level=0.5)), Leveled(["a"]), depth=1)
    await take(stream, 6)
    assert stream.stats.clamped == 3
    assert [record.args for record in caplog.records if "has no problems of level" in record.msg] == [("a", 1.0, 0.5)]


async def test_stream_prefetches_more_problems_if_more_are_in_flight(make_stream: MakeStream) -> None:
    sampler = Sampler()
    stream = make_stream(sampler=sampler)
    stream.min_ahead, stream.max_ahead = 2, 5
    ahead = []
    for taken in range(1, 5):
        problem = await stream.next()
        ahead.append(len(sampler.drawn) - taken)
    stream.done(problem)
    await stream.next()
    assert (ahead, len(sampler.drawn)) == ([2, 4, 5, 5], 10)


async def test_concurrent_calls_of_next_return_different_problems(make_stream: MakeStream) -> None:
    stream = make_stream(depth=2)
    problems = await asyncio.gather(*(stream.next() for _ in range(10)))
    assert sorted(problem.spec.index for problem in problems) == list(range(10))


async def test_cancelled_call_of_next_loses_no_problem(make_stream: MakeStream) -> None:
    workers = Held()
    stream = make_stream(workers)
    waiting = asyncio.create_task(stream.next())
    await settle()
    waiting.cancel()
    await asyncio.wait([waiting])
    workers.finish(0)
    assert (await stream.next()).spec.index == 0


# ---------------------------------------------------------------------------- failures, flaws and quarantine


async def test_problem_that_cannot_be_generated_is_replaced_by_a_new_problem(make_stream: MakeStream) -> None:
    workers = Held()
    stream = await started(make_stream(workers))
    workers.fail(0)
    await settle()
    workers.finish(0, attempt=1)
    workers.finish(1, 2)
    assert await take(stream, 3) == [
        ProblemSpec(ProblemRequest("b", 1), Split.TRAIN, 0, 1),
        ProblemSpec(ProblemRequest("b", 1000), Split.TRAIN, 1, 0),
        ProblemSpec(ProblemRequest("c", 2000), Split.TRAIN, 2, 0),
    ]
    assert stream.stats.failures == 1


@pytest.mark.parametrize("failed_before", [0, 4])
async def test_task_whose_generation_always_fails_is_quarantined(
    make_stream: MakeStream, caplog: pytest.LogCaptureFixture, failed_before: int
) -> None:
    """The earlier run may have had more failures of the task than this run allows."""
    sampler = Sampler()
    state = {"next_index": 0, "positions": [], "failures_in_a_row": {"b": failed_before}}
    stream = make_stream(FakeWorkers(b_fails), sampler, state=state)
    with caplog.at_level(logging.WARNING):
        assert {spec.task for spec in await take(stream, 30)} == {"a", "c"}
    assert sampler.quarantined == ["b"]
    assert (stream.stats.quarantined, stream.stats.failures >= 3) == (("b",), not failed_before)
    told = [record.msg.partition(" ")[0] for record in caplog.records]
    assert told == (["task"] if failed_before else ["%s", "task"])
    assert all("no luck" in message for message in caplog.messages)


def two_of_three_fail() -> Callable[[ProblemSpec], Problem]:
    """Return a generator that fails for two of three problems of task b."""
    draws: Counter[str] = Counter()

    def make(spec: ProblemSpec) -> Problem:
        draws[spec.task] += 1
        return no_luck(spec) if spec.task == "b" and draws["b"] % 3 else at_once(spec)

    return make


async def test_first_failure_of_a_task_is_logged(make_stream: MakeStream, caplog: pytest.LogCaptureFixture) -> None:
    """While a problem exceeds its deadline, `next` waits, and only the log shows the cause."""
    stream = make_stream(FakeWorkers(two_of_three_fail()))
    with caplog.at_level(logging.WARNING):
        await take(stream, 30)
    assert stream.stats.failures > 1
    assert [record.msg for record in caplog.records] == ["%s failed to make a problem (%s); trying the next seed"]


async def test_rare_failures_do_not_quarantine_a_task(make_stream: MakeStream) -> None:
    stream = make_stream(FakeWorkers(two_of_three_fail()))
    assert "b" in {spec.task for spec in await take(stream, 60)}
    assert stream.stats.failures > 10
    assert stream.stats.quarantined == ()


async def test_stream_raises_if_every_task_is_quarantined(make_stream: MakeStream) -> None:
    stream = make_stream(FakeWorkers(no_luck))
    with pytest.raises(GenerationError):
        await stream.next()
    assert sorted(stream.stats.quarantined) == ["a", "b", "c"]


async def test_closing_a_stream_after_failures_leaves_the_state_unchanged(
    make_stream: MakeStream,
) -> None:
    workers = Held()
    stream = await started(make_stream(workers, Sampler(("a",)), depth=2))
    for attempt in range(MAX_FAILURES):
        workers.fail(1, attempt)
        await settle()
    workers.finish(0)
    await stream.next()
    before = stream.state()
    assert before["next_index"] == 2
    await stream.close()
    assert stream.state() == before


async def test_killed_workers_do_not_change_the_sequence_of_problems(make_stream: MakeStream, no_pauses: None) -> None:
    """The workers of some positions are killed several times."""
    kills = Counter({1000: 1, 4000: 5})

    def make(spec: ProblemSpec) -> Problem:
        if kills[spec.seed]:
            kills[spec.seed] -= 1
            raise WorkerError("killed by another process")
        return at_once(spec)

    disturbed = make_stream(FakeWorkers(make))
    assert await take(disturbed, 8) == await take(make_stream(), 8)
    assert disturbed.stats.failures == 0


async def test_closed_worker_pool_ends_the_stream(make_stream: MakeStream) -> None:
    workers = FakeWorkers(Mock(side_effect=ClosedError("the worker pool is closed")))
    with pytest.raises(ClosedError, match="the worker pool is closed"):
        await make_stream(workers).next()


async def test_waiting_call_of_next_raises_when_the_stream_closes(make_stream: MakeStream) -> None:
    stream = make_stream(Held())
    waiting = asyncio.create_task(stream.next())
    await settle()
    await stream.close()
    with pytest.raises(ClosedError):
        await waiting


async def test_calling_next_on_a_closed_stream_raises(make_stream: MakeStream) -> None:
    stream = make_stream()
    await stream.close()
    with pytest.raises(ClosedError):
        await stream.next()


async def test_training_problem_with_an_evaluation_question_is_replaced(make_stream: MakeStream) -> None:
    decisions = iter([Rejection.HELD_OUT])
    stream = make_stream(prepare=AsyncMock(side_effect=lambda problem: next(decisions, problem)), depth=1)
    assert await take(stream, 1) == [ProblemSpec(ProblemRequest("a", 1), Split.TRAIN, 0, 1)]
    assert stream.stats.failures == 0
    assert stream.stats.flawed == {"easy": 2 + 2, "held_out": 1}


async def test_task_is_quarantined_if_all_its_questions_are_held_out(make_stream: MakeStream) -> None:
    prepare = AsyncMock(side_effect=lambda problem: Rejection.HELD_OUT if problem.task == "a" else problem)
    stream = make_stream(prepare=prepare, depth=1)
    assert (await take(stream, 1))[0].task != "a"
    assert stream.stats.quarantined == ("a",)


# ---------------------------------------------------------------------------- problems in flight


async def test_problem_is_in_flight_until_the_done_method_is_called(make_stream: MakeStream) -> None:
    stream = make_stream(depth=3)
    problems = [await stream.next() for _ in range(3)]
    assert stream.in_flight == 3
    for _ in range(2):
        stream.done(problems[0])
    assert stream.in_flight == 2


async def test_done_method_ignores_problems_of_other_streams(make_stream: MakeStream) -> None:
    stream = make_stream()
    problem = await stream.next()
    stream.done(replace(problem, reference="of an evaluation set"))
    assert stream.in_flight == 1


async def test_problem_in_flight_is_restored_with_its_seed(make_stream: MakeStream) -> None:
    stream = make_stream(FakeWorkers(lambda spec: at_once(spec.with_request(seed=spec.seed + 7))))
    problem = await stream.next()
    [spec] = await take(make_stream(state=saved(stream)), 1)
    assert spec == problem.spec.with_request(exact_seed=True)


async def test_restored_problem_is_replaced_if_the_question_has_changed(
    make_stream: MakeStream, caplog: pytest.LogCaptureFixture
) -> None:
    stream = make_stream()
    await stream.next()
    changed = FakeWorkers(lambda spec: problem_of(spec, "another question"))
    [spec] = await take(make_stream(changed, state=saved(stream)), 1)
    assert (spec.index, spec.attempt) == (0, 1)
    assert "the question differs from the question in the earlier run" in caplog.text


async def test_resumed_stream_takes_the_unfinished_problems_from_the_state(make_stream: MakeStream) -> None:
    first = make_stream(depth=6)
    await take(first, 1)
    state = saved(first)
    # The state of a run that finished all other positions.
    kept = [position for position in state["positions"] if position[0] in (3, 5)]
    drawn = Sampler()
    specs = await take(make_stream(sampler=drawn, state=state | {"next_index": 2, "positions": kept}), 5)
    assert [spec.index for spec in specs] == [2, 3, 4, 5, 6]
    assert not {3, 5} & set(drawn.drawn)


@given(st.lists(st.tuples(st.integers(0, 5), st.lists(st.integers(0, 5), max_size=6)), max_size=4), st.data())
def test_resumed_stream_continues_the_sequence_of_problems(
    runs: list[tuple[int, list[int]]], data: st.DataObject
) -> None:
    """Problems become ready in any order. Each run is saved with problems in flight, then resumed."""

    async def serve() -> None:
        restored: list[int] = []
        following = 0
        state = None
        for count, ready in runs:
            workers = Held()
            stream = ProblemStream(
                workers,
                Sampler(),
                deadline_s=DEADLINE_S,
                prepare=serve_as_is,
                state=state,
            )
            stream.min_ahead = stream.max_ahead = 6
            await started(stream)
            assert stream.in_flight == 0
            for pick in ready:
                waiting = [index for (index, _), request in workers.requests.items() if not request.done()]
                workers.finish(waiting[pick % len(waiting)])
            expected = [*restored, *range(following, following + count)]
            following += max(0, count - len(restored))
            for index in expected[:count]:
                next_problem = asyncio.create_task(stream.next())
                await settle()
                workers.finish(*(waiting for (waiting, _), one in workers.requests.items() if not one.done()))
                problem = await next_problem
                assert problem.spec.with_request(exact_seed=False) == Sampler().draw(index, 0)
                await settle()
                if data.draw(st.booleans()):
                    stream.done(problem)
                    expected.remove(index)
            restored = [index for index in expected if index < following]
            state = saved(stream)
            await stream.close()

    asyncio.run(serve())


# ---------------------------------------------------------------------------- the rest of the state


async def test_resumed_stream_keeps_the_problem_that_replaced_a_failed_one(make_stream: MakeStream) -> None:
    workers = Held()
    first = await started(make_stream(workers, depth=1))
    workers.fail(0)
    await settle()
    # A task that failed then may succeed now.
    assert await take(make_stream(state=saved(first)), 1) == [ProblemSpec(ProblemRequest("b", 1), Split.TRAIN, 0, 1)]


async def test_resumed_stream_still_excludes_quarantined_tasks(make_stream: MakeStream) -> None:
    """The problem at a position depends on seed and state, so the state must contain the quarantined tasks."""
    expected = await take(make_stream(FakeWorkers(b_fails)), 24)
    first = make_stream(FakeWorkers(b_fails))
    begun = [await first.next() for _ in range(12)]
    for problem in begun:
        first.done(problem)
    mended = make_stream(state=saved(first))
    assert mended.stats.quarantined == first.stats.quarantined == ("b",)
    assert [*(problem.spec for problem in begun), *await take(mended, 12)] == expected


async def test_closing_a_stream_leaves_the_state_unchanged(make_stream: MakeStream) -> None:
    workers = Held()
    stream = await started(make_stream(workers, depth=3))
    workers.finish(0)
    await stream.next()
    await settle()
    before = stream.state()
    for _ in range(2):
        await stream.close()
        assert stream.state() == before
    assert [request.cancelled() for request in workers.requests.values()] == [False, True, True, True]


async def test_stream_statistics_include_the_number_of_ready_problems(make_stream: MakeStream) -> None:
    workers = Held()
    stream = await started(make_stream(workers, depth=4))
    workers.finish(0, 1, 3)
    await settle()
    assert stream.stats.ready == 3
    await stream.next()
    assert stream.stats.ready == 2
