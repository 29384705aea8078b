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
from reasoning_env.problems import ProblemStream
from reasoning_env.records import Problem, ProblemSpec, Split

DEADLINE_S = 5.0


class Sampler:
    """Draws the tasks in turn; a redraw takes the next one, and quarantined ones are skipped."""

    def __init__(self, tasks: Sequence[str] = ("a", "b", "c")) -> None:
        self._tasks = tasks
        self.quarantined: list[str] = []

    def draw(self, index: int, attempt: int) -> ProblemSpec:
        for number in range(attempt, attempt + len(self._tasks)):
            task = self._tasks[(index + number) % len(self._tasks)]
            if task not in self.quarantined:
                return ProblemSpec(task, 1000 * index + number, Split.TRAIN, index, number)
        raise GenerationError("nothing is left to draw")

    def quarantine(self, task: str) -> None:
        self.quarantined.append(task)


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
            return outcome
        request = self.requests[spec.index, spec.attempt] = asyncio.get_running_loop().create_future()
        return await request

    def finish(self, index: int, attempt: int = 0) -> None:
        spec = next(spec for spec in self.specs if (spec.index, spec.attempt) == (index, attempt))
        self.requests[index, attempt].set_result(_problem(spec))

    def fail(self, index: int, attempt: int = 0) -> None:
        self.requests[index, attempt].set_exception(GenerationError("no luck"))


def _problem(spec: ProblemSpec) -> Problem:
    return Problem(spec, "question", "answer", "{}", b"")


def _at_once(spec: ProblemSpec) -> Problem:
    return _problem(spec)


MakeStream = Callable[..., ProblemStream]


@pytest.fixture
async def make_stream() -> AsyncIterator[MakeStream]:
    """Builds streams, and closes them at the end."""
    made: list[ProblemStream] = []

    def make(generator: Generator, sampler: Sampler | None = None, **options: Any) -> ProblemStream:
        options = {"depth": 4, "deadline_s": DEADLINE_S, "quarantine_after": 3, **options}
        stream = ProblemStream(generator, sampler or Sampler(), **options)
        made.append(stream)
        return stream

    yield make
    for stream in made:
        await stream.close()


async def _settle() -> None:
    """Let every task run until it waits for something that only the test or time can bring."""
    for _ in range(20):
        await asyncio.sleep(0)


async def _indices(stream: ProblemStream, count: int) -> list[int]:
    return [(await stream.next()).spec.index for _ in range(count)]


# ------------------------------------------------------------------ order


async def test_problems_come_in_order(make_stream: MakeStream) -> None:
    assert await _indices(make_stream(Generator(_at_once)), 20) == list(range(20))


async def test_problems_come_in_order_whatever_order_they_are_ready_in(make_stream: MakeStream) -> None:
    generator = Generator()
    stream = make_stream(generator)
    stream.start()
    await _settle()
    for index in (3, 1, 0, 2):
        generator.finish(index)
    assert await _indices(stream, 4) == [0, 1, 2, 3]


async def test_depth_positions_are_under_way_before_the_first_is_asked_for(make_stream: MakeStream) -> None:
    generator = Generator()
    stream = make_stream(generator, depth=5)
    stream.start()
    await _settle()
    assert [spec.index for spec in generator.specs] == [0, 1, 2, 3, 4]


async def test_taken_problem_makes_room_for_one_more(make_stream: MakeStream) -> None:
    generator = Generator()
    stream = make_stream(generator, depth=2)
    stream.start()
    await _settle()
    generator.finish(0)
    await stream.next()
    await _settle()
    assert [spec.index for spec in generator.specs] == [0, 1, 2]


async def test_consumers_that_wait_at_the_same_time_get_different_problems(make_stream: MakeStream) -> None:
    stream = make_stream(Generator(_at_once), depth=2)
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
    drawn: list[int] = []
    draw = sampler.draw
    sampler.draw = lambda index, attempt: (drawn.append(index), draw(index, attempt))[1]  # type: ignore[method-assign]
    stream = make_stream(Generator(_at_once), sampler, depth=3)
    stream.start()
    assert drawn == [0, 1, 2]
    await stream.next()
    assert drawn == [0, 1, 2, 3]


# ------------------------------------------------------------------ failures and quarantine


async def test_failed_position_is_drawn_again(make_stream: MakeStream) -> None:
    generator = Generator()
    stream = make_stream(generator)
    waiting = asyncio.create_task(stream.next())
    await _settle()
    generator.fail(0)
    await _settle()
    generator.finish(0, attempt=1)
    assert (await waiting).spec == ProblemSpec("b", 1, Split.TRAIN, 0, 1)
    assert stream.stats.failures == 1


async def test_failure_of_one_position_leaves_the_others_as_they_are(make_stream: MakeStream) -> None:
    def first_draw_of_two_fails(spec: ProblemSpec) -> Problem | Exception:
        return GenerationError("no luck") if (spec.index, spec.attempt) == (2, 0) else _problem(spec)

    stream = make_stream(Generator(first_draw_of_two_fails))
    problems = [await stream.next() for _ in range(5)]
    assert [(problem.spec.index, problem.spec.attempt) for problem in problems] == [
        (0, 0),
        (1, 0),
        (2, 1),
        (3, 0),
        (4, 0),
    ]


async def test_task_that_keeps_failing_is_quarantined_with_a_warning(
    make_stream: MakeStream, caplog: pytest.LogCaptureFixture
) -> None:
    sampler = Sampler()
    generator = Generator(lambda spec: GenerationError("out of luck") if spec.task == "b" else _problem(spec))
    stream = make_stream(generator, sampler, quarantine_after=3)
    with caplog.at_level(logging.WARNING):
        served = {(await stream.next()).task for _ in range(30)}
    assert served == {"a", "c"}
    assert sampler.quarantined == ["b"]
    assert stream.stats.quarantined == ("b",)
    assert stream.stats.failures == 3
    assert caplog.messages == ["task b is quarantined after 3 failures in a row; the last: out of luck"]


async def test_task_that_fails_now_and_then_is_not_quarantined(make_stream: MakeStream) -> None:
    outcomes = {"b": 0}

    def two_of_three_fail(spec: ProblemSpec) -> Problem | Exception:
        if spec.task != "b":
            return _problem(spec)
        outcomes["b"] += 1
        return _problem(spec) if outcomes["b"] % 3 == 0 else GenerationError("no luck")

    sampler = Sampler()
    stream = make_stream(Generator(two_of_three_fail), sampler, quarantine_after=3)
    served = [(await stream.next()).task for _ in range(60)]
    assert "b" in served
    assert stream.stats.failures > 10
    assert sampler.quarantined == []


async def test_stream_without_any_task_left_raises(make_stream: MakeStream) -> None:
    generator = Generator(lambda spec: GenerationError("no luck"))
    stream = make_stream(generator, quarantine_after=2)
    with pytest.raises(GenerationError, match="nothing is left to draw"):
        await stream.next()
    assert sorted(stream.stats.quarantined) == ["a", "b", "c"]


async def test_loss_of_all_workers_reaches_the_consumer(make_stream: MakeStream) -> None:
    stream = make_stream(Generator(lambda spec: WorkerError("no workers any more")))
    with pytest.raises(WorkerError, match="no workers any more"):
        await stream.next()


# ------------------------------------------------------------------ state


@given(st.lists(st.tuples(st.integers(0, 5), st.lists(st.integers(0, 5), max_size=6)), max_size=4), st.data())
def test_resumed_streams_serve_the_sequence_of_one_that_was_never_stopped(
    runs: list[tuple[int, list[int]]], data: st.DataObject
) -> None:
    """Problems get ready in any order; each run is saved, some of what it handed out still in flight, and resumed."""

    async def serve() -> None:
        done: list[int] = []
        in_flight: list[ProblemSpec] = []
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
            in_flight = []
            for _ in range(served):
                following = asyncio.create_task(stream.next())
                await _settle()
                for (index, _), request in generator.requests.items():
                    if not request.done():
                        generator.finish(index)
                in_flight.append((await following).spec)
                await _settle()
            finished = data.draw(st.integers(0, len(in_flight)))
            done += [spec.index for spec in in_flight[:finished]]
            state = json.loads(json.dumps(stream.state(in_flight[finished:])))
            await stream.close()
        assert done == list(range(len(done)))

    asyncio.run(serve())


async def test_resumed_stream_serves_first_what_was_in_flight(make_stream: MakeStream) -> None:
    first = make_stream(Generator(_at_once), depth=2)
    served = [(await first.next()).spec for _ in range(5)]
    state = json.loads(json.dumps(first.state([served[1], served[4]])))
    resumed = make_stream(Generator(_at_once), state=state)
    assert await _indices(resumed, 4) == [1, 4, 5, 6]


async def test_resumed_stream_keeps_the_draw_that_replaced_a_failed_one(make_stream: MakeStream) -> None:
    generator = Generator()
    first = make_stream(generator, depth=1)
    first.start()
    await _settle()
    generator.fail(0)
    await _settle()
    # What failed then might well succeed now.
    resumed = make_stream(Generator(_at_once), state=json.loads(json.dumps(first.state())))
    assert (await resumed.next()).spec == ProblemSpec("b", 1, Split.TRAIN, 0, 1)


async def test_closed_stream_still_knows_what_was_drawn(make_stream: MakeStream) -> None:
    stream = make_stream(Generator(_at_once), depth=3)
    await stream.next()
    before = stream.state()
    await stream.close()
    assert stream.state() == before


async def test_resumed_stream_keeps_its_counts(make_stream: MakeStream) -> None:
    broken = Generator(lambda spec: GenerationError("no luck") if spec.task == "b" else _problem(spec))
    first = make_stream(broken, Sampler())
    await _indices(first, 6)
    resumed = make_stream(Generator(), state=json.loads(json.dumps(first.state())))
    assert (resumed.stats.served, resumed.stats.failures) == (6, first.stats.failures)


async def test_resumed_stream_gives_the_problems_that_the_first_would_have_given(make_stream: MakeStream) -> None:
    whole = make_stream(Generator(_at_once))
    expected = [(await whole.next()).spec for _ in range(12)]
    first = make_stream(Generator(_at_once))
    begun = [(await first.next()).spec for _ in range(5)]
    resumed = make_stream(Generator(_at_once), state=first.state())
    assert [*begun, *[(await resumed.next()).spec for _ in range(7)]] == expected


async def test_state_of_a_fresh_stream_is_the_beginning(make_stream: MakeStream) -> None:
    resumed = make_stream(Generator(_at_once), state=make_stream(Generator()).state())
    assert await _indices(resumed, 3) == [0, 1, 2]


async def test_resumed_stream_keeps_the_quarantine(make_stream: MakeStream) -> None:
    """Position k is a function of the seed and the saved state, so the state must say what is not drawn any more."""
    broken = Generator(lambda spec: GenerationError("no luck") if spec.task == "b" else _problem(spec))
    whole = make_stream(broken, Sampler())
    expected = [(await whole.next()).spec for _ in range(24)]
    first = make_stream(broken, Sampler())
    begun = [(await first.next()).spec for _ in range(12)]
    mended = make_stream(Generator(_at_once), Sampler(), state=first.state())
    assert [*begun, *[(await mended.next()).spec for _ in range(12)]] == expected


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


# ------------------------------------------------------------------ close


async def test_closing_cancels_what_is_under_way() -> None:
    generator = Generator()
    stream = ProblemStream(generator, Sampler(), depth=4, deadline_s=DEADLINE_S, quarantine_after=3)
    stream.start()
    await _settle()
    await stream.close()
    assert [request.cancelled() for request in generator.requests.values()] == [True] * 4
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_closing_twice_is_allowed(make_stream: MakeStream) -> None:
    stream = make_stream(Generator())
    stream.start()
    await stream.close()
    await stream.close()
    assert stream.stats.ready == 0
