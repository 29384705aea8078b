"""The stream of problems: order, redraws, quarantine, the ledger of those in flight, and going on from its state."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning_env.errors import GenerationError, WorkerError
from reasoning_env.problems import MAX_FLAWED, ProblemStream
from reasoning_env.records import Problem, ProblemSpec, Split

DEADLINE_S = 5.0


class Sampler:
    """Draws the tasks in turn; a redraw takes the next one, and quarantined ones are skipped."""

    def __init__(self, tasks: Sequence[str] = ("a", "b", "c")) -> None:
        self._tasks = tasks
        self.drawn: list[int] = []
        self.quarantined: list[str] = []
        self.released: list[int] = []

    def draw(self, index: int, attempt: int) -> ProblemSpec:
        self.drawn.append(index)
        for number in range(attempt, attempt + len(self._tasks)):
            task = self._tasks[(index + number) % len(self._tasks)]
            if task not in self.quarantined:
                return ProblemSpec(task, 1000 * index + number, Split.TRAIN, index, number)
        raise GenerationError("nothing is left to draw")

    def redraw(self, spec: ProblemSpec) -> ProblemSpec:
        return ProblemSpec(spec.task, spec.seed + 1, Split.TRAIN, spec.index, spec.attempt)

    def quarantine(self, task: str) -> None:
        self.quarantined.append(task)

    def release(self, index: int) -> None:
        self.released.append(index)


class Generator:
    """Keeps every request until the test settles it, unless `outcome` settles it at once."""

    def __init__(self, outcome: Callable[[ProblemSpec], Problem | Exception | None] = lambda spec: None) -> None:
        self._outcome = outcome
        self.requests: dict[tuple[int, int], asyncio.Future[Problem]] = {}
        self.specs: list[ProblemSpec] = []

    async def generate(self, spec: ProblemSpec, deadline_s: float) -> Problem:
        assert deadline_s == DEADLINE_S
        self.specs.append(spec)
        outcome = self._outcome(spec)
        if isinstance(outcome, Exception):
            raise outcome
        if outcome is not None:
            await asyncio.sleep(0)
            return outcome
        request = self.requests[spec.index, spec.attempt] = asyncio.get_running_loop().create_future()
        return await request

    def finish(self, index: int, attempt: int = 0) -> None:
        spec = next(spec for spec in self.specs if (spec.index, spec.attempt) == (index, attempt))
        self.requests[index, attempt].set_result(_problem(spec))

    def fail(self, index: int) -> None:
        self.requests[index, 0].set_exception(GenerationError("no luck"))


def _problem(spec: ProblemSpec, flaw: str | None = None) -> Problem:
    return Problem(spec, "question", "answer", "{}", b"", flaw=flaw)


def _but(task: str) -> Generator:
    """Makes every problem but those of one task."""
    return Generator(lambda spec: GenerationError("out of luck") if spec.task == task else _problem(spec))


MakeStream = Callable[..., ProblemStream]


@pytest.fixture
async def make_stream() -> AsyncIterator[MakeStream]:
    """Builds streams, and closes them at the end."""
    made: list[ProblemStream] = []

    def make(generator: Generator | None = None, sampler: Sampler | None = None, **options: Any) -> ProblemStream:
        options = {"depth": 4, "deadline_s": DEADLINE_S, "quarantine_after": 3, **options}
        stream = ProblemStream(generator or Generator(_problem), sampler or Sampler(), **options)
        made.append(stream)
        return stream

    yield make
    for stream in made:
        await stream.close()


async def _settle() -> None:
    """Let every task run until it waits for something that only the test or time can bring."""
    for _ in range(20):
        await asyncio.sleep(0)


async def _take(stream: ProblemStream, count: int) -> list[ProblemSpec]:
    return [(await stream.next()).spec for _ in range(count)]


async def _indices(stream: ProblemStream, count: int) -> list[int]:
    return [spec.index for spec in await _take(stream, count)]


def _saved(stream: ProblemStream) -> Any:
    return json.loads(json.dumps(stream.state()))


# ------------------------------------------------------------------ order


@pytest.mark.parametrize("ready", [(0, 1, 2, 3), (3, 1, 0, 2)])
async def test_problems_come_in_order_whatever_order_they_are_ready_in(
    make_stream: MakeStream, ready: Sequence[int]
) -> None:
    generator = Generator()
    stream = make_stream(generator)
    stream.start()
    await _settle()
    for index in ready:
        generator.finish(index)
    assert await _indices(stream, 4) == [0, 1, 2, 3]


async def test_late_position_is_waited_for_though_others_are_ready(make_stream: MakeStream) -> None:
    generator = Generator()
    stream = make_stream(generator)
    waiting = asyncio.create_task(stream.next())
    await _settle()
    for index in (1, 2, 3):
        generator.finish(index)
    await _settle()
    assert not waiting.done()
    generator.finish(0)
    assert (await waiting).spec.index == 0
    assert await _indices(stream, 3) == [1, 2, 3]


async def test_position_is_drawn_when_another_is_handed_out_and_not_before(make_stream: MakeStream) -> None:
    sampler = Sampler()
    stream = make_stream(sampler=sampler, depth=3)
    stream.start()
    assert sampler.drawn == [0, 1, 2]
    await stream.next()
    assert sampler.drawn == [0, 1, 2, 3]


async def test_consumers_that_wait_at_the_same_time_get_different_problems(make_stream: MakeStream) -> None:
    stream = make_stream(depth=2)
    problems = await asyncio.gather(*(stream.next() for _ in range(10)))
    assert sorted(problem.spec.index for problem in problems) == list(range(10))


async def test_consumer_that_is_cancelled_takes_nothing_with_it(make_stream: MakeStream) -> None:
    generator = Generator()
    stream = make_stream(generator)
    waiting = asyncio.create_task(stream.next())
    await _settle()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    generator.finish(0)
    assert await _indices(stream, 1) == [0]


# ------------------------------------------------------------------ failures and quarantine


async def test_failed_position_alone_is_drawn_again(make_stream: MakeStream) -> None:
    first_of_two = Generator(lambda spec: GenerationError("") if spec.seed == 2000 else _problem(spec))
    stream = make_stream(first_of_two)
    specs = await _take(stream, 5)
    assert [(spec.index, spec.attempt) for spec in specs] == [(0, 0), (1, 0), (2, 1), (3, 0), (4, 0)]
    assert stream.stats.failures == 1


async def test_task_that_keeps_failing_is_quarantined_with_a_warning(
    make_stream: MakeStream, caplog: pytest.LogCaptureFixture
) -> None:
    sampler = Sampler()
    stream = make_stream(_but("b"), sampler)
    with caplog.at_level(logging.WARNING):
        assert {spec.task for spec in await _take(stream, 30)} == {"a", "c"}
    assert (sampler.quarantined, stream.stats.quarantined, stream.stats.failures) == (["b"], ("b",), 3)
    assert "b" in caplog.text and "out of luck" in caplog.text


async def test_task_that_fails_now_and_then_is_not_quarantined(make_stream: MakeStream) -> None:
    tries = 0

    def two_of_three_fail(spec: ProblemSpec) -> Problem | Exception:
        nonlocal tries
        tries += spec.task == "b"
        return GenerationError("no luck") if spec.task == "b" and tries % 3 else _problem(spec)

    sampler = Sampler()
    stream = make_stream(Generator(two_of_three_fail), sampler)
    assert "b" in {spec.task for spec in await _take(stream, 60)}
    assert stream.stats.failures > 10
    assert sampler.quarantined == []


@pytest.mark.parametrize(
    ("failure", "reason"),
    [(GenerationError("no luck"), "nothing is left to draw"), (WorkerError("no workers any more"), "no workers")],
)
async def test_stream_without_any_task_or_worker_left_raises(
    make_stream: MakeStream, failure: Exception, reason: str
) -> None:
    with pytest.raises(type(failure), match=reason):
        await make_stream(Generator(lambda spec: failure)).next()


# ------------------------------------------------------------------ flaws


def _flawed_where(is_flawed: Callable[[ProblemSpec], bool]) -> Generator:
    return Generator(lambda spec: _problem(spec, "contradicts itself" if is_flawed(spec) else None))


async def test_flawed_problem_is_replaced_by_another_of_its_task_and_no_other_changes(make_stream: MakeStream) -> None:
    expected = await _take(make_stream(), 50)
    stream = make_stream(_flawed_where(lambda spec: spec.seed % 2 == 0 and spec.index % 3 == 0))
    problems = [await stream.next() for _ in range(50)]
    assert [problem.flaw for problem in problems] == [None] * 50
    assert [(problem.spec.index, problem.task) for problem in problems] == [
        (spec.index, spec.task) for spec in expected
    ]
    same = [problem.spec == spec for problem, spec in zip(problems, expected, strict=True)]
    assert same == [spec.index % 3 != 0 or spec.seed % 2 == 1 for spec in expected]
    assert (stream.stats.flawed >= same.count(False), stream.stats.failures) == (True, 0)


async def test_position_that_stays_flawed_goes_to_another_draw(make_stream: MakeStream) -> None:
    stream = make_stream(_flawed_where(lambda spec: spec.task == "b"))
    assert {spec.task for spec in await _take(stream, 10)} == {"a", "c"}
    assert stream.stats.flawed == stream.stats.failures * MAX_FLAWED > 0


async def test_problem_to_avoid_is_drawn_again(make_stream: MakeStream) -> None:
    async def is_first_draw(problem: Problem) -> bool:
        return problem.spec.seed % 1000 == 0

    specs = await _take(make_stream(avoid=is_first_draw), 4)
    assert [spec.seed for spec in specs] == [1, 1001, 2001, 3001]


# ------------------------------------------------------------------ the ledger and the state


@given(st.lists(st.tuples(st.integers(0, 5), st.lists(st.integers(0, 5), max_size=6)), max_size=4), st.data())
def test_resumed_streams_serve_the_sequence_of_one_that_was_never_stopped(
    runs: list[tuple[int, list[int]]], data: st.DataObject
) -> None:
    """Problems get ready in any order; each run is saved, some of what it handed out still in flight, and resumed."""

    async def serve() -> None:
        done: list[int] = []
        state = None
        for served, ready in runs:
            generator = Generator()
            stream = ProblemStream(
                generator, Sampler(), depth=6, deadline_s=DEADLINE_S, quarantine_after=3, state=state
            )
            stream.start()
            await _settle()
            for pick in ready:
                waiting = [index for (index, _), request in generator.requests.items() if not request.done()]
                generator.finish(waiting[pick % len(waiting)])
            handed_out = []
            for _ in range(served):
                following = asyncio.create_task(stream.next())
                await _settle()
                for (index, _), request in generator.requests.items():
                    if not request.done():
                        generator.finish(index)
                handed_out.append(await following)
                await _settle()
            for problem in handed_out[: data.draw(st.integers(0, len(handed_out)))]:
                stream.done(problem)
                done.append(problem.spec.index)
            state = _saved(stream)
            await stream.close()
        assert done == list(range(len(done)))

    asyncio.run(serve())


async def test_what_is_in_flight_is_served_first_after_a_resume(make_stream: MakeStream) -> None:
    first = make_stream(depth=2)
    problems = [await first.next() for _ in range(5)]
    for position in (0, 2, 3, 3):
        first.done(problems[position])
    assert first.in_flight == 2
    assert await _indices(make_stream(state=_saved(first)), 4) == [1, 4, 5, 6]


async def test_problem_that_is_done_is_released(make_stream: MakeStream) -> None:
    sampler = Sampler()
    stream = make_stream(sampler=sampler)
    problem = await stream.next()
    assert sampler.released == []
    stream.done(problem)
    assert (sampler.released, stream.in_flight) == ([0], 0)


async def test_resumed_stream_keeps_the_draw_that_replaced_a_failed_one(make_stream: MakeStream) -> None:
    generator = Generator()
    first = make_stream(generator, depth=1)
    first.start()
    await _settle()
    generator.fail(0)
    await _settle()
    # What failed then might well succeed now.
    assert await _take(make_stream(state=_saved(first)), 1) == [ProblemSpec("b", 1, Split.TRAIN, 0, 1)]


async def test_closed_stream_still_knows_what_was_drawn(make_stream: MakeStream) -> None:
    stream = make_stream(depth=3)
    await stream.next()
    before = stream.state()
    await stream.close()
    assert stream.state() == before


async def test_resumed_stream_keeps_counts_and_quarantine(make_stream: MakeStream) -> None:
    """Position k is a function of the seed and the saved state, so the state must say what is not drawn any more."""
    expected = await _take(make_stream(_but("b")), 24)
    first = make_stream(_but("b"))
    begun = [await first.next() for _ in range(12)]
    for problem in begun:
        first.done(problem)
    resumed = make_stream(state=_saved(first))
    assert (resumed.stats.served, resumed.stats.failures) == (12, first.stats.failures)
    assert [*(problem.spec for problem in begun), *await _take(resumed, 12)] == expected


async def test_stats_count_what_is_ready_and_what_was_served(make_stream: MakeStream) -> None:
    generator = Generator()
    stream = make_stream(generator, depth=4)
    stream.start()
    await _settle()
    for index in (0, 1, 3):
        generator.finish(index)
    await _settle()
    assert (stream.stats.ready, stream.stats.served) == (3, 0)
    await stream.next()
    assert (stream.stats.ready, stream.stats.served) == (2, 1)


async def test_closing_cancels_what_is_under_way_and_may_come_twice() -> None:
    generator = Generator()
    stream = ProblemStream(generator, Sampler(), depth=4, deadline_s=DEADLINE_S, quarantine_after=3)
    stream.start()
    await _settle()
    for _ in range(2):
        await stream.close()
    assert [request.cancelled() for request in generator.requests.values()] == [True] * 4
    assert asyncio.all_tasks() == {asyncio.current_task()}
