from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import repeat
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock, call

import pytest

from reasoning_env.atropos.collector import GroupCollector
from reasoning_env.atropos.problem_source import RolloutItem
from reasoning_env.errors import RefusedError, ScoringError, ServerError, WorkerError
from reasoning_env.metrics import MetricsRecorder
from reasoning_env.records import Group, Problem, Prompt, Reason, Rollout, Timeouts, Verdict
from tests.records import MESSAGES, SAMPLING, make_problem

ITEM = RolloutItem(make_problem(), Prompt(MESSAGES, "", (1,)))
TIMEOUTS = Timeouts(None, 1.0)
CONFIG = SimpleNamespace(group_size=2, max_answer_bytes=100, max_token_length=200)


Error = BaseException | None


class World:
    """What stands around a collector. `completion` and `scoring` are how requests go, in turn or all alike."""

    def __init__(self, completion: Error | Sequence[Error] = None, scoring: Error | Sequence[Error] = None) -> None:
        self.metrics = MetricsRecorder()
        self.inference = SimpleNamespace(complete=AsyncMock(side_effect=self._complete), outage_s=0.0)
        self.pool = SimpleNamespace(score=AsyncMock(side_effect=self._score))
        self.source, self.dumper = Mock(), Mock()
        self._outcomes = [iter(each) if isinstance(each, Sequence) else repeat(each) for each in (completion, scoring)]
        world: Any = self
        self.collector = GroupCollector(CONFIG, world.inference, world.pool, world.source, self.metrics, world.dumper)

    async def _complete(self, *_: object) -> list[Rollout]:
        if error := next(self._outcomes[0]):
            raise error
        return [Rollout(f"<answer>{number}</answer>", (1, 2), (-100, 2), None, "stop") for number in range(2)]

    async def _score(self, problem: Problem, answers: Sequence[str]) -> list[Verdict]:
        if error := next(self._outcomes[1]):
            raise error
        return [Verdict(float(answer), Reason.SCORED, answer) for answer in answers]

    async def collect(self, score: Callable[[Group], Any] | None = None) -> Any:
        return await self.collector.collect(ITEM, SAMPLING, TIMEOUTS, score or self.collector.score)

    @property
    def counts(self) -> tuple[int, dict[str, int]]:
        """How many groups were counted, and what was dropped."""
        return self.metrics.total.groups, dict(self.metrics.dropped)


async def test_group_is_scored_counted_learnt_from_dumped_and_done() -> None:
    one = World()
    group = await one.collect()
    one.inference.complete.assert_called_once_with(ITEM.prompt, 2, SAMPLING, TIMEOUTS)
    assert group.scores == (0.0, 1.0)
    assert (group.problem, group.messages) == (ITEM.problem, MESSAGES)
    one.dumper.offer.assert_called_once_with(group)
    assert one.source.mock_calls == [call.observe(group), call.done(ITEM.problem)]
    assert one.counts == (1, {})


@pytest.mark.parametrize(
    ("completion", "scoring", "dropped"),
    [
        (ServerError("gone"), None, "inference_failed"),
        (KeyError("a client's"), None, "inference_failed"),
        (TimeoutError("too long"), None, "timed_out"),
        (None, ScoringError("a fault of ours"), "scoring_failed"),
        (None, TimeoutError("of a worker"), "scoring_failed"),
    ],
)
async def test_group_that_cannot_be_collected_is_dropped_whole_counted_and_done(
    completion: Exception | None, scoring: Exception | None, dropped: str, caplog: pytest.LogCaptureFixture
) -> None:
    one = World(completion, scoring)
    assert await one.collect() is None
    assert one.counts == (0, {dropped: 1})
    assert one.source.mock_calls == [call.done(ITEM.problem)]
    assert not one.dumper.offer.called
    assert [record.levelname for record in caplog.records] == ["WARNING"]


async def test_fault_of_a_subclass_that_scores_drops_the_group() -> None:
    async def score(group: Group) -> None:
        raise ZeroDivisionError

    one = World()
    assert await one.collect(score) is None
    assert one.counts == (0, {"scoring_failed": 1})


@pytest.mark.parametrize("where", ["completion", "scoring"])
async def test_cancelled_group_stays_in_flight_and_is_not_counted(where: str) -> None:
    waiting = asyncio.Event()

    async def wait(*_: object) -> None:
        waiting.set()
        await asyncio.Event().wait()

    one = World()
    (one.inference.complete if where == "completion" else one.pool.score).side_effect = wait
    collecting = asyncio.create_task(one.collect())
    await waiting.wait()
    collecting.cancel()
    await asyncio.wait([collecting])
    assert collecting.cancelled()
    assert (one.counts, one.source.mock_calls) == ((0, {}), [])


async def test_failures_in_a_row_are_an_error_and_a_scored_group_ends_them() -> None:
    gone = ServerError("gone")
    one = World([gone, None, gone, gone])
    for _ in range(3):
        await one.collect()
        one.collector.check(max_failures=2)
    await one.collect()
    one.collector.check(max_failures=None)
    with pytest.raises(ServerError, match=r"\b2\b.*gone"):
        one.collector.check(max_failures=2)


async def test_group_is_tried_again_as_often_as_it_may_while_others_succeed_and_kept() -> None:
    one = World(scoring=[ScoringError("once"), None, ScoringError("once"), None])
    one.collector.keep(tries=2)
    group = await one.collect()
    assert one.collector.kept == {ITEM.problem.spec.index: group}
    assert one.counts == (1, {})
    one.inference.outage_s = 5.0
    assert await one.collect() is None
    assert one.counts == (1, {"scoring_failed": 1})


@pytest.mark.parametrize(
    "given", [{"completion": RefusedError("too long")}, {"scoring": WorkerError("no workers any more")}]
)
async def test_refusal_of_a_server_and_end_of_the_workers_are_raised_from_then_on_and_not_logged(
    given: dict[str, Exception], caplog: pytest.LogCaptureFixture
) -> None:
    one, [error] = World(**given), given.values()
    one.collector.check(max_failures=None)
    for _ in range(3):
        await one.collect()
    with pytest.raises(type(error), match=str(error)):
        one.collector.check(max_failures=None)
    assert caplog.messages == []
