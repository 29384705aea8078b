from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from reasoning_env.atropos.collector import GroupCollector
from reasoning_env.atropos.problem_source import RolloutItem
from reasoning_env.errors import RefusedError, ScoringError, ServerError, WorkerError
from reasoning_env.metrics import MetricsRecorder
from reasoning_env.records import Group, Problem, Prompt, Reason, Rollout, Sampling, Timeouts, Verdict
from tests.records import MESSAGES, SAMPLING, make_problem

ITEM = RolloutItem(make_problem(), Prompt(MESSAGES, "", (1,)))
TIMEOUTS = Timeouts(None, 1.0)
CONFIG = SimpleNamespace(group_size=2, max_answer_bytes=100, max_token_length=200)


class World:
    """What stands around a collector: every collaborator is played by this, and remembers what it was told."""

    def __init__(self, outcome: Callable[[], Any], score_outcome: Callable[[], Any]) -> None:
        self._outcome = outcome
        self._score_outcome = score_outcome
        self.metrics = MetricsRecorder()
        self.done_with: list[Problem] = []
        self.learnt: list[Group] = []
        self.dumped: list[Group] = []
        self.outage_s = 0.0
        world: Any = self
        self.collector = GroupCollector(CONFIG, world, world, world, self.metrics, world)

    async def complete(self, prompt: Prompt, n: int, sampling: Sampling, timeouts: Timeouts) -> list[Rollout]:
        assert (prompt, n, sampling, timeouts) == (ITEM.prompt, 2, SAMPLING, TIMEOUTS)
        await self._outcome()
        return [Rollout(f"<answer>{number}</answer>", (1, 2), (-100, 2), None, "stop") for number in range(n)]

    async def score(self, problem: Problem, answers: Sequence[str]) -> list[Verdict]:
        await self._score_outcome()
        return [Verdict(float(answer), Reason.SCORED, answer) for answer in answers]

    def done(self, problem: Problem) -> None:
        self.done_with.append(problem)

    def observe(self, group: Group) -> None:
        self.learnt.append(group)

    def offer(self, group: Group) -> None:
        self.dumped.append(group)

    async def collect(self, score: Callable[[Group], Any] | None = None) -> Any:
        return await self.collector.collect(ITEM, SAMPLING, TIMEOUTS, score or self.collector.score)

    @property
    def counts(self) -> tuple[int, dict[str, int]]:
        """How many groups were counted, and what was dropped."""
        return self.metrics.total.groups, dict(self.metrics.dropped)


def outcome(error: BaseException | None = None) -> Callable[[], Any]:
    async def run() -> None:
        await asyncio.sleep(0)
        if error is not None:
            raise error

    return run


def world(completion: BaseException | None = None, scoring: BaseException | None = None) -> World:
    return World(outcome(completion), outcome(scoring))


async def test_group_is_scored_counted_learnt_from_dumped_and_done() -> None:
    one = world()
    group = await one.collect()
    assert group.scores == (0.0, 1.0)
    assert (group.problem, group.messages) == (ITEM.problem, MESSAGES)
    assert one.learnt == one.dumped == [group]
    assert one.done_with == [ITEM.problem]
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
    one = world(completion, scoring)
    assert await one.collect() is None
    assert one.counts == (0, {dropped: 1})
    assert one.done_with == [ITEM.problem]
    assert one.learnt == one.dumped == []
    assert [record.levelname for record in caplog.records] == ["WARNING"]


async def test_fault_of_a_subclass_that_scores_drops_the_group() -> None:
    async def score(group: Group) -> None:
        raise ZeroDivisionError

    one = world()
    assert await one.collect(score) is None
    assert one.counts == (0, {"scoring_failed": 1})


@pytest.mark.parametrize("where", ["completion", "scoring"])
async def test_cancelled_group_stays_in_flight_and_is_not_counted(where: str) -> None:
    waiting = asyncio.Event()

    async def wait() -> None:
        waiting.set()
        await asyncio.Event().wait()

    one = World(wait, outcome()) if where == "completion" else World(outcome(), wait)
    collecting = asyncio.create_task(one.collect())
    await waiting.wait()
    collecting.cancel()
    await asyncio.wait([collecting])
    assert collecting.cancelled()
    assert (one.counts, one.done_with) == ((0, {}), [])


async def test_failures_in_a_row_are_an_error_and_a_scored_group_ends_them() -> None:
    failing: list[BaseException | None] = [ServerError("gone"), None, ServerError("gone"), ServerError("gone")]
    one = World(lambda: outcome(failing.pop(0))(), outcome())
    for _ in range(3):
        await one.collect()
        one.collector.check(max_failures=2)
    await one.collect()
    one.collector.check(max_failures=None)
    with pytest.raises(ServerError, match="2 groups in a row failed"):
        one.collector.check(max_failures=2)


async def test_group_is_tried_again_as_often_as_it_may_while_others_succeed_and_kept() -> None:
    failing: list[BaseException | None] = [ScoringError("once"), None]
    one = World(outcome(), lambda: outcome(failing.pop(0))())
    one.collector.keep(tries=2)
    group = await one.collect()
    assert one.collector.kept == {ITEM.problem.spec.index: group}
    assert one.counts == (1, {})
    one.outage_s = 5.0
    failing[:] = [ScoringError("once"), None]
    assert await one.collect() is None
    assert one.counts == (1, {"scoring_failed": 1})


async def test_refusal_of_a_server_is_raised_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    one = world(completion=RefusedError("too long"))
    for _ in range(3):
        await one.collect()
    with pytest.raises(RefusedError, match="too long"):
        one.collector.check(max_failures=None)
    assert caplog.messages == []


async def test_end_of_the_workers_is_raised_from_then_on() -> None:
    one = world(scoring=WorkerError("no workers any more"))
    one.collector.check(max_failures=None)
    await one.collect()
    with pytest.raises(WorkerError, match="no workers any more"):
        one.collector.check(max_failures=None)
